#include "gpu/hint.h"

#include "gpu/device.h"

namespace gpucoll::gpu {
namespace {

#if defined(HAVE_CUDA)
constexpr int kMayHaveGpus = 1;  // the first question finds out whether there can be any
#else
constexpr int kMayHaveGpus = 0;
#endif

// An empty range, whose end is not 0: by the end alone the component tells a process without devices.
constexpr uintptr_t kEmptyRange = kMayHaveGpus;
PointerHint the_hint{kEmptyRange, kEmptyRange, kMayHaveGpus};

}  // namespace

const PointerHint& pointer_hint() noexcept { return the_hint; }

void set_device_range(uintptr_t lo, uintptr_t hi) noexcept {
  __atomic_store_n(&the_hint.device_lo, lo, __ATOMIC_RELAXED);
  // release: partner of the acquire of whoever reads device_hi first.
  __atomic_store_n(&the_hint.device_hi, hi, __ATOMIC_RELEASE);
}

void rule_out_gpus() noexcept {
  __atomic_store_n(&the_hint.ask, 0, __ATOMIC_RELAXED);
  uintptr_t empty = kEmptyRange;
  // A range that the emulated device has set meanwhile stays.
  __atomic_compare_exchange_n(&the_hint.device_hi, &empty, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

}  // namespace gpucoll::gpu
