// Memory of other processes that one GPU of this process has opened.
//
// CUDA refuses to open a handle twice in one context, and closing it ends all uses of the mapping; so each handle is
// opened once and counted. Memory that its owner has allocated anew may have an old handle: the buffer id tells.
//
// Small allocations of a process share a block of memory, which is mapped as a whole, but counted by allocation: CUDA
// refuses one that overlaps what was freed in its block and is still open here (cudaErrorAlreadyMapped). Closing that
// would wait for the GPU. But it is mapped, at the distance from what was freed that it has in its owner; so it is used
// there, and what was freed stays open as long. Where several have been at its place, the one opened last is of its
// block, as blocks at one place follow each other. By kernels only: copies know the size of what was freed, and what
// goes beyond its end they refuse (cudaErrorInvalidValue).
//
// Thread safety: every function may be called from any thread; the caller has made the GPU's context current.
// Ownership: whoever opens closes. Invariant: entries that overlap are of one block.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include "base/status.h"
#include "gpu/cuda/handle.h"

namespace gpucoll::gpu::cuda {

class Imports {
 public:
  // The start of the peer's allocation in this process.
  Result<void*> open(const CudaHandle& handle, int device);
  // `address`: anywhere in an opened allocation; others are not ours and nothing happens.
  void close(const void* address) noexcept;

 private:
  struct Entry {
    CudaHandle handle;
    char* base;
    int uses;
    Entry* mapping;     // what was freed, where CUDA refused this one; else null
    int used_in_place;  // by how many that is this one
  };

  Entry* find(const void* address);
  Entry* overlapped_by(const CudaHandle& handle);
  void close_unused(Entry* entry) noexcept;

  std::mutex mutex_;
  std::list<Entry> entries_;  // in the order in which they were opened
};

}  // namespace gpucoll::gpu::cuda
