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

ProgramMemory await_program_copies(const ProgramData& data) noexcept {
  ProgramMemory memory = {nullptr, false};
  const auto look = [&](const void* address, const gpu::PointerInfo& info) {
    gpu::await_program_copies(address, info);
    if (!memory.on_device && device_holding(info) >= 0) memory.on_device = address;
    memory.has_managed = memory.has_managed || info.kind == gpu::MemoryKind::managed;
  };
  auto platform = gpu::platform();
  if (!data.memory && platform) each_allocation(**platform, data, look);
  if (!memory.on_device) memory.on_device = moved(data.memory, data.runs[0].offset);
  return memory;
}

}  // namespace gpucoll::coll
