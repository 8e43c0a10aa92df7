#include "gpu/hint.h"

#include "gpu/device.h"

namespace gpucoll::gpu {
namespace {

#if defined(HAVE_CUDA)
constexpr int kMayHaveGpus = 1;  // the first question finds out whether there can be any
#else
constexpr int kMayHaveGpus = 0;
#endif

PointerHint the_hint{0, 0, kMayHaveGpus};

}  // namespace

const PointerHint& pointer_hint() noexcept { return the_hint; }

void set_device_range(uintptr_t lo, uintptr_t hi) noexcept {
  __atomic_store_n(&the_hint.device_lo, lo, __ATOMIC_RELAXED);
  // release: partner of the acquire of whoever reads device_hi first.
  __atomic_store_n(&the_hint.device_hi, hi, __ATOMIC_RELEASE);
}

void rule_out_gpus() noexcept { __atomic_store_n(&the_hint.ask, 0, __ATOMIC_RELAXED); }

}  // namespace gpucoll::gpu
