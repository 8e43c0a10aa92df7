#include "gpu/cuda/imports.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "gpu/cuda/driver.h"

namespace gpucoll::gpu::cuda {
namespace {

// In its owner.
uint64_t start_of(const CudaHandle& handle) { return handle.address - handle.offset; }

bool same_allocation(const CudaHandle& a, const CudaHandle& b) {
  return a.buffer_id == b.buffer_id && std::memcmp(&a.ipc, &b.ipc, sizeof a.ipc) == 0;
}

bool overlap(const CudaHandle& a, const CudaHandle& b) {
  return a.process_id == b.process_id && a.device == b.device && start_of(a) < start_of(b) + b.bytes &&
         start_of(b) < start_of(a) + a.bytes;
}

}  // namespace

// The one opened last.
Imports::Entry* Imports::overlapped_by(const CudaHandle& handle) {
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(),
                                  [&](const Entry& entry) { return overlap(entry.handle, handle); });
  return found == entries_.rend() ? nullptr : &*found;
}

Result<void*> Imports::open(const CudaHandle& handle, int device) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (!same_allocation(entry.handle, handle)) continue;
    ++entry.uses;
    return static_cast<void*>(entry.base);
  }
  void* base = nullptr;
  const cudaError_t error = cudaIpcOpenMemHandle(&base, handle.ipc, cudaIpcMemLazyEnablePeerAccess);
  if (error == cudaSuccess) {
    entries_.push_back({handle, static_cast<char*>(base), 1, nullptr, 0});
    return base;
  }
  if (Entry* freed = error == cudaErrorAlreadyMapped ? overlapped_by(handle) : nullptr) {
    cudaGetLastError();
    base = freed->base + static_cast<int64_t>(start_of(handle) - start_of(freed->handle));
    Entry* const mapping = freed->mapping ? freed->mapping : freed;
    entries_.push_back({handle, static_cast<char*>(base), 1, mapping, 0});
    ++mapping->used_in_place;
    return base;
  }
  char call[160];
  std::snprintf(call, sizeof call,
                "cudaIpcOpenMemHandle of memory of process %d (it must be alive, and in containers share the IPC "
                "namespace; the parameter transport=shm does without)",
                handle.pid);
  return failure(error, device, call);
}

// Returns an import that contains the address: one that begins there, if any, since all that overlap are of one block.
Imports::Entry* Imports::find(const void* address) {
  Entry* found = nullptr;
  const auto* at = static_cast<const char*>(address);
  for (Entry& entry : entries_) {
    if (entry.uses == 0 || at < entry.base || at >= entry.base + entry.handle.bytes) continue;
    if (entry.base == at) return &entry;
    found = &entry;
  }
  return found;
}

void Imports::close(const void* address) noexcept {
  std::lock_guard lock(mutex_);
  Entry* const entry = find(address);
  if (!entry) return;
  --entry->uses;
  close_unused(entry);
}

void Imports::close_unused(Entry* entry) noexcept {
  if (entry->uses > 0 || entry->used_in_place > 0) return;
  Entry* const mapping = entry->mapping;
  // A failure means that the driver is shutting down: nothing is left to close then.
  if (!mapping && cudaIpcCloseMemHandle(entry->base) != cudaSuccess) cudaGetLastError();
  entries_.remove_if([entry](const Entry& other) { return &other == entry; });
  if (!mapping) return;
  --mapping->used_in_place;
  close_unused(mapping);
}

}  // namespace gpucoll::gpu::cuda
