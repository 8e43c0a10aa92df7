#include "mpi/staging/scratch.h"

#include <algorithm>

#include "core/progress/quiescence.h"

namespace gpucoll::coll {

Result<uint8_t*> Scratch::get(gpu::Device& device, size_t bytes) {
  if (device_ == &device && bytes <= bytes_ && memory_) return memory_;
  release();
  const size_t wanted = std::max<size_t>(bytes, 4096);
  GC_TRY_AS(void* made, device.allocate(wanted));
  device_ = &device;
  memory_ = static_cast<uint8_t*>(made);
  bytes_ = wanted;
  return memory_;
}

void Scratch::release() noexcept {
  if (!memory_) return;
  try {
    core::Quiescence::instance().release_when_idle(
        {memory_, [device = device_](void* memory) { device->release(memory); }});
  } catch (...) {
    // No memory to keep it until then: it has been released.
  }
  memory_ = nullptr;
  bytes_ = 0;
}

}  // namespace gpucoll::coll
