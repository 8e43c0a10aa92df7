// Copies elements with gaps between device memory and consecutive bytes: one packing kernel works for all of them.
//
// Thread safety: any thread. Ownership: nothing outlives copy_packed(); what append_packed_copy() needs longer it
// returns.
#pragma once
#include <vector>

#include "abi/abi.h"
#include "gpu/device.h"
#include "mpi/datatype/type_cache.h"

namespace gpucoll::coll {

// Packs the first `bytes` bytes of data of the elements that begin at `memory` (a user address) into `packed`, or
// unpacks them from there; `bytes` may end within an element. Waits until the copy is done. Errors: unsupported, where
// kernels cannot count the map's runs; out_of_memory.
Status copy_packed(gpu::Device& device, const gc_type_map& map, const void* memory, void* packed, size_t bytes,
                   bool unpacks);

// Moves the bytes of one item of a packing kernel, and waits until that is done.
Status pack_and_wait(gpu::Device& device, const proto::PackItem& item);
// Adds the same copy to the items of a packing kernel, where `packed` is a kernel address; without a map, the data have
// no gaps on either side. Hold the result until the copy is done.
Result<TypeCache::Pointer> append_packed_copy(std::vector<proto::PackItem>* items, gpu::Device& device,
                                              const gc_type_map* map, const void* memory, uint8_t* packed, size_t bytes,
                                              bool unpacks);

}  // namespace gpucoll::coll
