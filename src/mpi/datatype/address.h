// Addresses as numbers: a buffer's may lie outside of any object (MPI_BOTTOM, negative lower bounds, displacements),
// where pointer arithmetic has no meaning.
//
// Thread safety: pure functions.
#pragma once
#include <cstddef>
#include <cstdint>

#include "gpu/device.h"

namespace gpucoll::coll {

inline uint8_t* moved(const void* address, ptrdiff_t by) {
  return reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(by));
}

// The kernel address that stands for `address`. Only data have one: there are some `data` bytes from it.
inline uint8_t* kernel_origin(const gpu::Device& device, const void* address, ptrdiff_t data) {
  return moved(device.kernel_address(moved(address, data)), -data);
}

}  // namespace gpucoll::coll
