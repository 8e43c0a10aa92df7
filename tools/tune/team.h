// The ranks that are measured: threads of this process, or processes that mpirun has started.
//
// Thread safety: one caller at a time. Ownership: a Team owns its communicators, streams and buffers.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "proto/format/plan.h"

namespace gpucoll::tune {

struct Repeats {
  int warmup, iterations;
};

// Which of a rank's communicators is used: one without copy engines, or one where they carry all that is not small.
enum class Engines { off, on };
inline constexpr uint64_t kLeastCopy = 16384;  // bytes from which on they do so

class Team {
 public:
  virtual ~Team() = default;
  // The median over the calls of the slowest rank's time, in microseconds, until the stream is synchronized: the same
  // on every rank. bytes: as core::choose has them; a multiple of 4. REQUIRES: the buffers hold what the function
  // takes.
  virtual Result<double> time(proto::Function function, uint64_t bytes, Engines engines, Repeats repeats) = 0;
};

// n_ranks threads of this process on devices 0 .. n_ranks - 1, each with two buffers of so many bytes.
Result<std::unique_ptr<Team>> thread_team(int n_ranks, size_t buffer_bytes);
// The ranks of comm, which outlives it, a process each, on the devices that they have chosen. Collective.
Result<std::unique_ptr<Team>> process_team(MPI_Comm comm, size_t buffer_bytes);

}  // namespace gpucoll::tune
