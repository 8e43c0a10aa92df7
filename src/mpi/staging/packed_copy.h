// Copies elements with gaps between device memory and consecutive bytes of host memory: one packing kernel works for
// all of them.
//
// Thread safety: any thread. Ownership: nothing outlives the call.
#pragma once
#include "abi/abi.h"
#include "gpu/device.h"

namespace gpucoll::coll {

// Packs the first `bytes` bytes of data of the elements that begin at `memory` (a user address) into `packed`, or
// unpacks them from there; `bytes` may end within an element. Waits until the copy is done. Errors: unsupported, where
// kernels cannot count the map's runs; out_of_memory.
Status copy_packed(gpu::Device& device, const gc_type_map& map, const void* memory, void* packed, size_t bytes,
                   bool unpacks);

}  // namespace gpucoll::coll
