// Copies between a device and pageable host memory, in pieces through page-locked memory: while the device copies one
// piece the processor copies the other one. The driver would do the same piece by piece, without the overlap.
//
// Thread safety: any thread. Ownership: nothing outlives the call.
#pragma once
#include <cstddef>

#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

// In order with the device's default stream, as Device::copy. One side is device memory, the other pageable. Answers in
// how many pieces: 1 where there is too little to gain, or no page-locked memory to be had.
Result<size_t> copy_pipelined(gpu::Device& device, void* dst, const void* src, size_t bytes, size_t piece_bytes);
// Returns the bytes of a piece: large enough to hide what starting a copy costs.
size_t usual_piece(const gpu::Device& device);

}  // namespace gpucoll::coll
