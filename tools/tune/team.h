// Ranks of one process, a device and a thread each: runs a collective on all of them and takes the time.
//
// Thread safety: one caller at a time. Ownership: a Team owns its communicators, streams and buffers.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "proto/format/plan.h"

namespace gpucoll::tune {

struct Repeats {
  int warmup, iterations;
};

class Team {
 public:
  // n_ranks ranks on devices 0 .. n_ranks - 1, each with two buffers of so many bytes.
  static Result<std::unique_ptr<Team>> create(int n_ranks, size_t buffer_bytes);
  ~Team();

  // The median over the calls of the slowest rank's time, in microseconds, until the stream is synchronized. bytes: as
  // core::choose has them; a multiple of 4. REQUIRES: the buffers hold what the function takes.
  Result<double> time(proto::Function function, uint64_t bytes, Repeats repeats);

 private:
  struct Member;
  Team() = default;
  Status on_every_rank(const std::function<Status(Member&)>& work);

  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace gpucoll::tune
