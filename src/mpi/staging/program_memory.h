// Looks at memory of the program where data need not lie in one allocation of one kind.
//
// Thread safety: any thread.
#pragma once
#include "abi/abi.h"
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

// Returns whether a block begins in page-locked host memory and goes on in host memory that is not, as where the
// program has registered a part of an array (cudaHostRegister): kernels and copy engines do not reach all of it. Pieces
// that were registered side by side are one. info: of the first byte.
bool is_partly_pinned(gpu::Platform& platform, gpu::PointerInfo info, const void* address, size_t bytes) noexcept;

// Returns whether a block lies in the one allocation of its first byte, of which `info` tells; also where the size of
// that is unknown.
bool is_inside(const gpu::PointerInfo& info, const void* address, size_t bytes) noexcept;

// Looks whether a block lies in memory of devices, in one allocation or in several that follow each other. info: of the
// first byte. Ok where that is other memory, too. Errors: invalid_argument, for memory that is not allocated.
Status check_allocated(gpu::Platform& platform, const gpu::PointerInfo& info, const void* address, size_t bytes);

// Data of elements that follow each other by `extent`, the first of which begins at `memory`.
struct ProgramData {
  const void* memory;
  const gc_runs* runs;
  size_t n_runs;
  size_t elements;
  ptrdiff_t extent;
};
// Returns the elements of a type that hold `bytes` bytes of data.
ProgramData elements_of(const gc_type_map& map, const void* memory, size_t bytes) noexcept;

// Looks whether each run begins in allocated memory, and for elements with gaps, of which the first `bytes` bytes are
// data, whether the last one ends there. Errors: as those of a block.
Status check_allocated(gpu::Platform& platform, const ProgramData& data);
Status check_allocated(gpu::Platform& platform, const gc_type_map& map, const void* memory, size_t bytes);

// Calls see(address, info) where data go on in another allocation, and for the first: at least once for each.
template <class See>
void each_allocation(gpu::Platform& platform, const ProgramData& data, const See& see);

// Returns the number of the device that memory is of; -1 where the kernels of all devices see it, and where there is
// none.
int device_holding(const gpu::PointerInfo& info) noexcept;

struct ProgramMemory {
  const void* on_device;  // in the first memory that one device holds, by which to choose the device that copies the
                          // data; else their first address
  bool has_managed;
};
// Waits for what the program has just copied to or from any allocation of the data (gpu/program_copies.h), and returns
// what they lie in. Looks only through data at absolute addresses, whose `memory` is null: others lie in one
// allocation, for which callers wait themselves.
ProgramMemory await_program_copies(const ProgramData& data) noexcept;

// ---- implementation ----

template <class See>
void each_allocation(gpu::Platform& platform, const ProgramData& data, const See& see) {
  gpu::PointerInfo known;
  bool seen = false;
  // Numbers, as elements at absolute addresses begin at 0.
  auto element = reinterpret_cast<uintptr_t>(data.memory);
  for (size_t e = 0; e < data.elements; ++e, element += static_cast<uintptr_t>(data.extent)) {
    for (size_t i = 0; i < data.n_runs; ++i) {
      const gc_runs& runs = data.runs[i];
      uintptr_t run = element + static_cast<uintptr_t>(runs.offset);
      for (size_t r = 0; r < runs.count; ++r, run += static_cast<uintptr_t>(runs.stride)) {
        if (seen && run - reinterpret_cast<uintptr_t>(known.base) < known.bytes) continue;
        known = platform.classify(reinterpret_cast<const void*>(run));
        see(reinterpret_cast<const void*>(run), known);
        seen = true;
      }
    }
  }
}

}  // namespace gpucoll::coll
