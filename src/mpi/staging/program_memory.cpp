#include "mpi/staging/program_memory.h"

#include "base/mutant.h"
#include "gpu/program_copies.h"
#include "mpi/datatype/address.h"

namespace gpucoll::coll {

bool is_partly_pinned(const gpu::PointerInfo& info, const void* address, size_t bytes) noexcept {
  if (info.kind != gpu::MemoryKind::pinned || info.bytes == 0) return false;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.base);
  return offset >= info.bytes || bytes > info.bytes - offset;
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
