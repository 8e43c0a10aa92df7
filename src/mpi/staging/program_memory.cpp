#include "mpi/staging/program_memory.h"

#include "gpu/program_copies.h"

namespace gpucoll::coll {

bool is_partly_pinned(const gpu::PointerInfo& info, const void* address, size_t bytes) noexcept {
  if (info.kind != gpu::MemoryKind::pinned || info.bytes == 0) return false;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.base);
  return offset >= info.bytes || bytes > info.bytes - offset;
}

ProgramData elements_of(const gc_type_map& map, const void* memory, size_t bytes) noexcept {
  return {memory, map.runs, map.n_runs, (bytes + map.size - 1) / map.size, map.extent};
}

void await_program_copies(const ProgramData& data) noexcept {
  if (data.memory) return;
  if (auto platform = gpu::platform())
    each_allocation(**platform, data, [](const void* address, const gpu::PointerInfo& info) {
      gpu::await_program_copies(address, info);
    });
}

}  // namespace gpucoll::coll
