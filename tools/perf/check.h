// Checked runs: fresh input, poisoned output, the call, and a look at every element of what came back.
//
// Found are: wrong elements of the output, bytes written behind it, a changed send buffer, and results that should
// have the same bits on every rank but do not. The input of a check is exact in every order of a reduction, that of a
// fingerprint is not: it tells whether the order is the same on every rank and in every run. A barrier is checked by
// the clock. Host memory used is bounded: everything goes in pieces.
// Thread safety: none.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "perf/collective.h"
#include "perf/memory.h"
#include "perf/runner.h"

namespace gpucoll::perf {

struct Verdict {
  uint64_t wrong = 0;   // over all ranks
  std::string example;  // the first wrong thing on the lowest rank that has one; "" if none
};

class Checker {
 public:
  Checker(const Buffers& buffers, MPI_Comm comm);
  // Gives the call new input, different each time, runs it, and looks at what came out. Collective.
  Result<Verdict> check(Runner& runner, const Call& call);
  // Over the bits of what all ranks have got, from an input that is the same each time. Collective; rank 0's answer.
  Result<uint64_t> fingerprint(Runner& runner, const Call& call, Verdict* verdict);

 private:
  Status prepare(const Call& call, const Recipe& recipe);
  Status inspect_output(const Call& call, const Recipe& recipe);
  Status inspect_guard(const Call& call);
  Status inspect_send(const Call& call, const Recipe& recipe);
  Result<Verdict> check_barrier(Runner& runner, const Call& call);
  Status hash_output(const Call& call);
  Status compare_ranks(const Call& call);
  void note(uint64_t wrong, const std::string& example);
  Verdict gather() const;

  static constexpr uint64_t kFingerprintRun = 0;

  const Buffers& buffers_;
  MPI_Comm comm_;
  int rank_ = 0;
  uint64_t run_ = kFingerprintRun;
  uint64_t wrong_ = 0, hash_ = 0;
  std::string example_;
  std::vector<char> got_, want_, scratch_;
};

}  // namespace gpucoll::perf
