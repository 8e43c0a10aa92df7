#include "mpi/staging/program_memory.h"

#include "base/mutant.h"
#include "gpu/program_copies.h"
#include "mpi/datatype/address.h"

namespace gpucoll::coll {

bool is_partly_pinned(gpu::Platform& platform, gpu::PointerInfo info, const void* address, size_t bytes) noexcept {
  const uintptr_t end = reinterpret_cast<uintptr_t>(address) + bytes;
  bool begins_pinned = false;
  while (info.kind == gpu::MemoryKind::pinned && info.bytes) {
    begins_pinned = true;
    const uintptr_t next = reinterpret_cast<uintptr_t>(info.base) + info.bytes;
    if (next >= end) return false;
    info = platform.classify(reinterpret_cast<const void*>(next));
    if (info.base && reinterpret_cast<uintptr_t>(info.base) + info.bytes <= next) return true;  // the rest of a page
    if (gc_mutant(441)) return true;
  }
  return begins_pinned && info.kind == gpu::MemoryKind::host;
}

ProgramData elements_of(const gc_type_map& map, const void* memory, size_t bytes) noexcept {
  return {memory, map.runs, map.n_runs, (bytes + map.size - 1) / map.size, map.extent};
}

int device_holding(const gpu::PointerInfo& info) noexcept {
  return info.kind == gpu::MemoryKind::device || gc_mutant(440) ? info.device : -1;
}

const void* address_on_device(const ProgramData& data) noexcept {
  const void* const first = moved(data.memory, data.runs[0].offset);
  const void* found = nullptr;
  auto platform = gpu::platform();
  if (data.memory || !platform) return first;
  each_allocation(**platform, data, [&](const void* address, const gpu::PointerInfo& info) {
    if (!found && device_holding(info) >= 0) found = address;
  });
  return found ? found : first;
}

bool are_partly_managed(const ProgramData& data) noexcept {
  bool found = false;
  auto platform = gpu::platform();
  if (data.memory || !platform) return false;
  each_allocation(**platform, data, [&](const void*, const gpu::PointerInfo& info) {
    found = found || info.kind == gpu::MemoryKind::managed;
  });
  return found;
}

void await_program_copies(const ProgramData& data) noexcept {
  if (data.memory) return;
  if (auto platform = gpu::platform())
    each_allocation(**platform, data, [](const void* address, const gpu::PointerInfo& info) {
      gpu::await_program_copies(address, info);
    });
}

}  // namespace gpucoll::coll
