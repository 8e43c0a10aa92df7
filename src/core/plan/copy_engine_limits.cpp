#include "core/plan/copy_engine_limits.h"

#include "base/mutant.h"
#include "base/params.h"
#include "core/plan/tuning_file.h"

namespace gpucoll::core {
namespace {

uint64_t of_ranks(const gpu::Device::CopyBytes& bytes, int n_ranks) { return n_ranks > 2 ? bytes.more : bytes.two; }

// Returns a limit that no parameter sets: the measured one, or else `usually`.
uint64_t usual(const TuningTable* measured, Limit which, uint64_t usually) {
  return measured && measured->limit(which) ? measured->limit(which) : usually;
}

}  // namespace

CopyEngineLimits copy_engine_limits(const gpu::Device::Defaults& defaults, int n_ranks, const TuningTable* measured,
                                    bool stream_ordered) {
  const Params& p = params();
  const uint64_t messages = param_or(
      p.copy_engine_bytes, usual(measured, Limit::copy_engine_bytes, of_ranks(defaults.copy_engine_bytes, n_ranks)));
  if (!messages || n_ranks < 2) return {};
  const auto exchange = [&](const gpu::Device::CopyBytes& bytes) {
    const uint64_t least =
        param_or(p.copy_exchange_bytes, usual(measured, Limit::copy_exchange_bytes, of_ranks(bytes, n_ranks)));
    return least == gpu::Device::kAsMessages ? messages : least;
  };
  const uint64_t reductions = param_or(p.copy_reduction_bytes, usual(measured, Limit::copy_reduction_bytes,
                                                                     of_ranks(defaults.copy_reduction_bytes, n_ranks)));
  CopyEngineLimits limits = {messages, exchange(defaults.copy_exchange_bytes), exchange(defaults.copy_all_gather_bytes),
                             reductions,
                             param_or(p.copy_reduction_piece, of_ranks(defaults.copy_reduction_piece, n_ranks))};
  if (stream_ordered && p.copy_engine_bytes == kAuto && !gc_mutant(620))
    limits.messages = limits.exchanges = limits.all_gathers = 0;
  return limits;
}

uint64_t least_zero_copy(const gpu::Device::Defaults& defaults, int n_ranks, const TuningTable* measured) {
  if (n_ranks < 2 || n_ranks > proto::kZeroCopyRanks) return 0;
  return param_or(params().zero_copy_bytes,
                  usual(measured, Limit::zero_copy_bytes, of_ranks(defaults.zero_copy_bytes, n_ranks)));
}

}  // namespace gpucoll::core
