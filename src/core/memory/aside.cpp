#include "core/memory/aside.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "core/progress/quiescence.h"

namespace gpucoll::core {

Status Aside::reserve(gpu::Device& device, size_t bytes, bool in_graphs) {
  constexpr size_t kLeast = size_t{64} << 10;
  if (bytes <= bytes_) return {};
  const size_t wanted = std::max(bytes, kLeast);
  GC_TRY_AS(void* const made, device.allocate(wanted));
  std::shared_ptr<void> more(made, [&device](void* memory) { device.release(memory); });
  if (memory_ && in_graphs && !gc_mutant(221))
    in_graphs_.push_back(memory_);
  else if (memory_)
    Quiescence::instance().release_when_idle(std::move(memory_));
  memory_ = std::move(more);
  bytes_ = wanted;
  return {};
}

}  // namespace gpucoll::core
