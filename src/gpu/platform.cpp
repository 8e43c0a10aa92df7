// The choice of the platform, and the quick question what a pointer is.
#include "base/log.h"
#include "base/params.h"
#include "gpu/device.h"
#include "gpu/hint.h"
#include "gpu/program_copies.h"

namespace gpucoll::gpu {
namespace {

Result<Platform*> choose() {
  const int64_t wish = params().device;
  if (wish == kDeviceEmu) {
    rule_out_gpus();
    return &emu_platform();
  }
  Platform* cuda = cuda_platform();
  Status why;
  if (cuda == nullptr) {
    why = Status::error(Code::unsupported, "gpucoll was built without CUDA; configure it with --with-cuda");
  } else if (auto count = cuda->device_count()) {
    log::write(log::Level::info, "collectives run on GPUs (%d visible)", *count);
    return cuda;
  } else {
    why = count.status();
  }
  if (wish == kDeviceCuda) return why;
  log::write(log::Level::info, "collectives run on the emulated device, as there is no GPU to use: %s", why.what());
  rule_out_gpus();
  return &emu_platform();
}

// Before a platform is chosen a GPU pointer may already be there: asking the driver initialises nothing.
bool is_gpu_pointer(const void* address) noexcept {
  Platform* cuda = params().device == kDeviceEmu ? nullptr : cuda_platform();
  if (cuda == nullptr) rule_out_gpus();
  return cuda != nullptr && cuda->is_device(address);
}

}  // namespace

#if !defined(HAVE_CUDA)
Platform* cuda_platform() { return nullptr; }
void await_program_copies(const void*, const PointerInfo&) noexcept {}
#endif

Result<Platform*> platform() {
  // Never destroyed: threads of the emulated device may outlive main().
  static const auto* const choice = new Result<Platform*>(choose());
  if (*choice) return **choice;  // without a copy of its status
  return *choice;
}

bool is_device_pointer(const void* user_address) noexcept {
  const PointerHint& hint = pointer_hint();
  const uintptr_t p = reinterpret_cast<uintptr_t>(user_address);
  const uintptr_t hi = __atomic_load_n(&hint.device_hi, __ATOMIC_ACQUIRE);
  if (p < hi && p >= __atomic_load_n(&hint.device_lo, __ATOMIC_RELAXED)) return true;
  return __atomic_load_n(&hint.ask, __ATOMIC_RELAXED) != 0 && is_gpu_pointer(user_address);
}

}  // namespace gpucoll::gpu
