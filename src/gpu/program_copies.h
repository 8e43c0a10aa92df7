// Waits for copies that the program has made by calls that return before their copy is done. cudaMemcpy from pageable
// memory returns once the data are in a buffer of the driver's, and cudaMemset at once: what MPI does with the memory
// next, on other streams or in other processes, must find it as the program has left it.
//
// Thread safety: any thread.
#pragma once
#include "gpu/device.h"

namespace gpucoll::gpu {

// Makes sure that such copies from and to an allocation have ended, and that from now on they end before their calls
// return (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), where it is no pool's (cudaMallocAsync). Waits for a few milliseconds at
// most, where the default stream has more to do than a copy, and only at the first call for an allocation. Has no
// effect on memory that is no GPU's. address: in the allocation that `info` tells of.
void await_program_copies(const void* address, const PointerInfo& info) noexcept;

}  // namespace gpucoll::gpu
