// What gpucoll is measured beside, in the same run: MPI on host memory, or NCCL on the same buffers.
//
// Thread safety: none. Creation is collective: every rank gets the baseline or every rank an error.
#pragma once
#include <mpi.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "perf/check.h"
#include "perf/collective.h"

namespace gpucoll::perf {

class Baseline {
 public:
  virtual ~Baseline() = default;
  virtual const char* name() const = 0;  // heads its columns
  virtual std::string description() const = 0;
  virtual bool can(const Call& call) const = 0;  // the same answer on every rank
  virtual Status run(const Call& call) = 0;      // returns when the result is there
};

// The same MPI call on host memory of its own.
Result<std::unique_ptr<Baseline>> host_baseline(size_t send_bytes, size_t recv_bytes, MPI_Comm comm);
// libnccl, loaded at run time, on the given buffers. The calling thread's device must have been chosen.
// Errors: unsupported where libnccl is missing or too old.
Result<std::unique_ptr<Baseline>> nccl_baseline(const Buffers& buffers, MPI_Comm comm);

}  // namespace gpucoll::perf
