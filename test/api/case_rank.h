// One rank of a case of the differential test: its device memory, streams and communicators, and what it calls.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "gpucoll/gpucoll.h"
#include "random_case.h"

namespace gpucoll_test {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Throws Failure, with `what` and the library's sentence.
void must(gpucollResult_t result, const std::string& what);

class Rank {
 public:
  Rank(const Case& c, int rank) : case_(c), rank_(rank), comms_(c.comms.size()) {}
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  // Aborts communicators that are still there: after a failure here, the others must not wait for this rank.
  ~Rank();

  int device() const { return device_; }
  void use_device() const { must(gpucollSetDevice(device_), "gpucollSetDevice"); }

  // Memory and streams, on the rank's device from then on.
  void prepare(const std::vector<uint8_t>& memory);
  void init(const gpucollUniqueId& id);
  void init(gpucollComm_t made) { comms_[0] = made; }
  void split(size_t i, gpucollComm_t* made);
  // The communicator that split i has made, if any.
  void keep(size_t i, gpucollComm_t made);

  // This rank's share of a call.
  void issue(const Call& call);

  // Waits, and compares the arena.
  void finish(const std::vector<uint8_t>& expected);
  void destroy();

 private:
  bool null_stream() const;
  uint8_t* scalar(int type, int rank) const;
  void make_scalars();
  void compare(const std::vector<uint8_t>& expected);

  const Case& case_;
  const int rank_;
  int device_ = 0;
  void* arena_ = nullptr;
  void* scalars_ = nullptr;  // what device-resident scalars point to: 16 bytes for each type and rank of a communicator
  std::vector<gpucollStream_t> streams_;
  std::vector<gpucollComm_t> comms_;  // by Case::comms; null where this rank is no member
};

}  // namespace gpucoll_test
