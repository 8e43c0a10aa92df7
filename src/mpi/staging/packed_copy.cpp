#include "mpi/staging/packed_copy.h"

#include <map>
#include <mutex>

#include "core/plan/planner.h"
#include "kernels/kernels.h"
#include "mpi/datatype/address.h"
#include "mpi/datatype/type_cache.h"
#include "mpi/staging/local_launch.h"
#include "mpi/staging/packing.h"
#include "mpi/staging/pinned_pool.h"
#include "mpi/staging/pipelined_copy.h"
#include "mpi/staging/scratch.h"

namespace gpucoll::coll {
namespace {

struct DeviceScratch {
  std::mutex mutex;  // held while the memory is in use
  Scratch memory;
};

// Kept, as the device may be gone when the process ends.
DeviceScratch& scratch_of(const gpu::Device& device) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<int, DeviceScratch>;
  std::lock_guard lock(*mutex);
  return (*all)[device.index()];
}

// Takes the way over device memory, for host memory that kernels do not see.
Status copy_by_scratch(gpu::Device& device, proto::PackItem item, void* packed) {
  DeviceScratch& scratch = scratch_of(device);
  std::lock_guard lock(scratch.mutex);
  GC_TRY_AS(item.packed, scratch.memory.get(device, item.bytes));
  const size_t piece = usual_piece(device);
  if (item.unpacks) {
    GC_TRY(copy_pipelined(device, item.packed, packed, item.bytes, piece).status());
    GC_TRY(pack_and_wait(device, item));
  } else {
    GC_TRY(pack_and_wait(device, item));
    GC_TRY(copy_pipelined(device, packed, item.packed, item.bytes, piece).status());
  }
  scratch.memory.release_much();
  return {};
}

}  // namespace

Status pack_and_wait(gpu::Device& device, const proto::PackItem& item) {
  proto::Plan plan = {};
  const int blocks = core::put_pack_items(plan, {&item, 1}, device.defaults().threads);
  return launch_and_wait(device, *packing_kernel(), plan, blocks);
}

Status copy_packed(gpu::Device& device, const gc_type_map& map, const void* memory, void* packed, size_t bytes,
                   bool unpacks) {
  GC_TRY_AS(const TypeCache::Pointer known, TypeCache::instance().get(map, device));
  uint8_t* const origin = kernel_origin(device, memory, map.true_lb);
  auto* const pinned = static_cast<uint8_t*>(PinnedPool::instance().kernel_address(packed));
  const proto::PackItem item = pack_item(known->layout, known->runs, known->starts, origin, pinned, bytes, unpacks);
  return pinned ? pack_and_wait(device, item) : copy_by_scratch(device, item, packed);
}

Result<TypeCache::Pointer> append_packed_copy(std::vector<proto::PackItem>* items, gpu::Device& device,
                                              const gc_type_map* map, const void* memory, uint8_t* packed, size_t bytes,
                                              bool unpacks) {
  if (!map) {
    auto* const origin = static_cast<uint8_t*>(device.kernel_address(memory));
    append_copy(items, unpacks ? origin : packed, unpacks ? packed : origin, bytes);
    return TypeCache::Pointer();
  }
  GC_TRY_AS(TypeCache::Pointer known, TypeCache::instance().get(*map, device));
  uint8_t* const origin = kernel_origin(device, memory, map->true_lb);
  items->push_back(pack_item(known->layout, known->runs, known->starts, origin, packed, bytes, unpacks));
  return known;
}

}  // namespace gpucoll::coll
