#include "mpi/staging/program_memory.h"

#include <algorithm>

#include "base/mutant.h"
#include "gpu/program_copies.h"
#include "mpi/datatype/address.h"
#include "mpi/staging/packing.h"

namespace gpucoll::coll {
namespace {

// Returns how much of an allocation there is from an address on, which may be in what is left of its last page.
size_t left_behind(const gpu::PointerInfo& info, const void* address) {
  const auto offset =
      static_cast<size_t>(static_cast<const uint8_t*>(address) - static_cast<const uint8_t*>(info.base));
  return info.bytes - std::min(offset, info.bytes);
}

// Returns whether a block, which begins in a device's allocation, goes on where there is no device memory. Allocations
// may follow each other: pieces that were mapped side by side.
bool runs_out(gpu::Platform& platform, const uint8_t* block_end, gpu::PointerInfo info) {
  while (info.kind == gpu::MemoryKind::device && info.device >= 0 && info.bytes) {
    const uint8_t* const end = static_cast<const uint8_t*>(info.base) + info.bytes;
    if (end >= block_end) return false;
    info = platform.classify(end);
    if (info.base && static_cast<const uint8_t*>(info.base) + info.bytes <= end) return true;  // what is left of a page
  }
  return info.kind == gpu::MemoryKind::host || info.device < 0;
}

}  // namespace

bool is_inside(const gpu::PointerInfo& info, const void* address, size_t bytes) noexcept {
  return info.device >= 0 && (!info.bytes || bytes <= left_behind(info, address));
}

Status check_allocated(gpu::Platform& platform, const gpu::PointerInfo& info, const void* address, size_t bytes) {
  if (info.kind != gpu::MemoryKind::device || is_inside(info, address, bytes) || gc_mutant(580)) return {};
  const auto* const begin = static_cast<const uint8_t*>(address);
  if (!runs_out(platform, begin + bytes, info)) return {};
  if (info.device < 0)
    return Status::error(
        Code::invalid_argument,
        "the buffer %p is in no allocation: it was freed before, or count and type reach beyond its end", address);
  return Status::error(Code::invalid_argument,
                       "%zu bytes at %p are needed, but the allocation ends after %zu: check count and type", bytes,
                       address, left_behind(info, address));
}

Status check_allocated(gpu::Platform& platform, const ProgramData& data) {
  Status checked;
  each_allocation(platform, data, [&](const void* address, const gpu::PointerInfo& info) {
    if (checked) checked = check_allocated(platform, info, address, 1);
  });
  return checked;
}

Status check_allocated(gpu::Platform& platform, const gc_type_map& map, const void* memory, size_t bytes) {
  const ProgramData data = elements_of(map, memory, bytes);
  if (data.elements == 0) return {};
  const Span span = span_of(map, data.elements * map.size);
  const uint8_t* const low = moved(memory, span.low);
  const gpu::PointerInfo info = platform.classify(low);
  if (info.kind == gpu::MemoryKind::device && is_inside(info, low, span.bytes)) return {};
  GC_TRY(check_allocated(platform, data));
  const uint8_t* const last = low + span.bytes - 1;
  return check_allocated(platform, platform.classify(last), last, 1);
}

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
