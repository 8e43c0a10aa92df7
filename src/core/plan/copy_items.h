// Copies on this device, as items of the packing kernel (proto/format/packing.h).
//
// Thread safety: pure functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/task.h"
#include "proto/format/packing.h"

namespace gpucoll::core {

// Adds the items that copy consecutive bytes. Kernel addresses.
void append_copy(std::vector<proto::PackItem>* items, void* to, const void* from, size_t bytes);

// Returns how much memory put_aside() needs: 0 where the queue has no all-to-all in place. n_ranks: of the
// communicator.
size_t bytes_aside(const TaskQueue& queue, int n_ranks);
// Makes each all-to-all in place one with two buffers: it sends from `memory`, into which `packing` copies its blocks
// before. Kernel address.
void put_aside(TaskQueue* queue, int n_ranks, uint8_t* memory, const gpu::Kernel* packing);

}  // namespace gpucoll::core
