// What a run of gpucoll-perf needs before it measures: MPI, the component, this rank's device and room for the buffers.
//
// Thread safety: none; every function is collective.
#pragma once
#include <mpi.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "perf/check.h"
#include "perf/collective.h"
#include "perf/heading.h"

namespace gpucoll::perf {

// MPI from start to end.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  // This rank's number among those of its node, and how many they are.
  int local_rank() const { return local_rank_; }
  int local_ranks() const { return local_ranks_; }

 private:
  int rank_ = 0, ranks_ = 1, local_rank_ = 0, local_ranks_ = 1;
};

// Whether the component coll/gpucoll is in this MPI. Without it MPI would touch device memory and crash.
Status require_component();
// Chooses the device local_rank % count. The answer is complete on rank 0.
Result<Heading> choose_device(const MpiSession& mpi);
// The largest buffers that any of the calls needs.
size_t largest_send_bytes(const std::vector<Call>& calls);
size_t largest_recv_bytes(const std::vector<Call>& calls);
// Errors: out_of_memory; on the emulated device also where the ranks of a node together would take more memory than
// is left (the kernel would end one of them later).
Result<Buffers> allocate_buffers(const MpiSession& mpi, const Heading& heading, const std::vector<Call>& calls,
                                 MemoryKind kind);

}  // namespace gpucoll::perf
