// Checked runs: fresh input, poisoned output, the call, and a look at every element of what came back.
//
// Found are: wrong elements of the output, bytes written behind it, a changed send buffer, and results that should
// have the same bits on every rank but do not. Host memory used is bounded: everything goes in pieces.
// Thread safety: none.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "perf/collective.h"
#include "perf/device_memory.h"

namespace gpucoll::perf {

// The buffers that all measurements share. REQUIRES: large enough for each call, plus kGuardBytes behind recv.
struct Buffers {
  static constexpr size_t kGuardBytes = 512;
  DeviceMemory send, recv;
};

struct Verdict {
  uint64_t wrong = 0;   // over all ranks
  std::string example;  // the first wrong thing on the lowest rank that has one; "" if none
};

class Checker {
 public:
  Checker(const Buffers& buffers, MPI_Comm comm);
  // Gives the call new input, different in every run.
  Status prepare(const Call& call);
  // Looks at what the call made of it. Collective.
  Result<Verdict> inspect(const Call& call);

 private:
  Status write_input(const Call& call);
  Status inspect_output(const Call& call);
  Status inspect_guard(const Call& call);
  Status inspect_send(const Call& call);
  Status compare_ranks(const Call& call);
  void note(uint64_t wrong, const std::string& example);
  Verdict gather() const;

  const Buffers& buffers_;
  MPI_Comm comm_;
  int rank_ = 0;
  uint64_t run_ = 0;
  uint64_t wrong_ = 0, hash_ = 0;
  std::string example_;
  std::vector<char> got_, want_, scratch_;
};

}  // namespace gpucoll::perf
