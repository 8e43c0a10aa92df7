#include "perf/computing.h"

#include <algorithm>
#include <chrono>

namespace gpucoll::perf {
namespace {

using Clock = std::chrono::steady_clock;

double since_us(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Each round depends on the one before, the first on what no compiler knows: none can be left out or done in advance.
volatile double value = 1;
void compute(long rounds) {
  double x = value;
  for (long i = 0; i < rounds; ++i) x = x * 0.999999 + 1e-6;
  value = x;
}

class HostComputation final : public Computation {
 public:
  HostComputation() {
    // The best of some: others may have had the processor meanwhile.
    double best_us = 1e9;
    for (int i = 0; i < kTries; ++i) {
      const Clock::time_point start = Clock::now();
      compute(kTryRounds);
      best_us = std::min(best_us, since_us(start));
    }
    rounds_per_us_ = kTryRounds / best_us;
  }
  const char* description() const override { return "arithmetic on the host"; }
  Status start(double length_us) override {
    compute(static_cast<long>(length_us * rounds_per_us_));
    return {};
  }
  Status finish() override { return {}; }

 private:
  static constexpr int kTries = 20;
  static constexpr long kTryRounds = 100000;
  double rounds_per_us_;
};

}  // namespace

std::unique_ptr<Computation> host_computation() { return std::make_unique<HostComputation>(); }

}  // namespace gpucoll::perf
