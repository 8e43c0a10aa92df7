// Communicators that one caller gives back together. The peers of all of them are told first, and then their hosts'
// answers are awaited at once: closing many takes as long as closing one (docs/adr/0058). Ranks may add theirs in
// orders of their own, as no host waits for a call of its rank.
//
// Thread safety: one caller at a time. Ownership: owns the communicators until end() hands them to reclaim().
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/monotonic.h"
#include "core/comm/communicator.h"

namespace gpucoll::core {

class Closing {
 public:
  Closing() = default;
  ~Closing() { end(); }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

  // Begins to close a communicator (Communicator::begin_close). Kernels of all that have failed before get one time to
  // leave.
  void add(std::unique_ptr<Communicator> communicator);
  // Waits until the ends of all are taken, and hands them to reclaim().
  void end();

 private:
  const int64_t since_ns_ = monotonic_ns();
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace gpucoll::core
