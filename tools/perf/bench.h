// Measures the rows of the table: check, time, check again, and the fingerprint of the bits.
//
// Thread safety: none; collective. What it uses outlives it.
#pragma once
#include "perf/check.h"
#include "perf/computing.h"
#include "perf/figures.h"
#include "perf/options.h"
#include "perf/report.h"
#include "perf/runner.h"

namespace gpucoll::perf {

class Bench {
 public:
  // baseline and computation may be null; report is null but on rank 0.
  Bench(const Options& options, const Buffers& buffers, Runner& runner, Runner* baseline, Computation* computation,
        Report* report)
      : options_(options),
        runner_(runner),
        baseline_(baseline),
        computation_(computation),
        report_(report),
        checker_(buffers, MPI_COMM_WORLD) {}

  Status measure_row(const Call& call);
  // Wrong elements of all rows.
  uint64_t wrong() const { return wrong_; }

 private:
  Result<Times> run(const Call& call, Runner* baseline);
  Status check(const Call& call, Row* row);
  Status take_fingerprint(const Call& call, Row* row);
  void note(const Verdict& verdict, Row* row);

  const Options& options_;
  Runner& runner_;
  Runner* baseline_;
  Computation* computation_;
  Report* report_;
  Checker checker_;
  uint64_t wrong_ = 0;
  int examples_ = 0;
};

}  // namespace gpucoll::perf
