#include "coll/staged_runs.h"

#include <atomic>
#include <map>
#include <mutex>

#include "coll/host_pieces.h"
#include "coll/kernels.h"
#include "coll/type_layouts.h"
#include "core/planner.h"

namespace gpucoll::coll {
namespace {

// Kept, as the device may be gone when the process ends.
Result<gpu::Stream> stream_of(gpu::Device& device) {
  static auto* const mutex = new std::mutex;
  static auto* const streams = new std::map<int, gpu::Stream>;
  std::lock_guard lock(*mutex);
  if (auto known = streams->find(device.index()); known != streams->end()) return known->second;
  GC_TRY_AS(const gpu::Stream made, device.create_stream());
  return streams->emplace(device.index(), made).first->second;
}

// As a type that is used once. The component's count up from 0.
gc_type_map map_of(const gc_runs* runs, size_t n) {
  static std::atomic<uint64_t> last_id{~uint64_t{0}};
  gc_type_map map = {};
  map.id = last_id.fetch_sub(1, std::memory_order_relaxed);
  for (size_t i = 0; i < n; ++i) map.size += runs[i].bytes * runs[i].count;
  map.runs = runs;
  map.n_runs = n;
  return map;
}

// The kernel address that the runs' offsets count from; only those of data have one.
uint8_t* origin(gpu::Device& device, void* address, ptrdiff_t first) {
  const auto number = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  const auto offset = static_cast<uintptr_t>(first);
  const void* const data = reinterpret_cast<const void*>(number(address) + offset);
  return reinterpret_cast<uint8_t*>(number(device.kernel_address(data)) - offset);
}

Status launch(gpu::Device& device, const proto::PackItem& item) {
  const gpu::Kernel& kernel = *packing_kernel();
  GC_TRY_AS(const gpu::Stream stream, stream_of(device));
  GC_TRY(device.prepare(kernel));
  proto::Plan plan = {};
  plan.n_items = proto::kItemsOfPacking;
  *proto::pack_items(plan) = item;
  const int threads = device.defaults().threads;
  GC_TRY(device.launch(kernel, plan, core::packing_blocks(item.bytes, threads), threads, stream));
  return device.synchronize(stream);
}

}  // namespace

Status copy_runs(gpu::Device& device, void* host, void* on_device, const gc_runs* runs, size_t n, bool to_device) {
  const gc_type_map map = map_of(runs, n);
  HostPieces pieces;
  GC_TRY_AS(uint8_t* const place, pieces.reserve(device, map.size));
  pieces.add(static_cast<uint8_t*>(host), &map, place, map.size, !to_device);
  GC_TRY_AS(const TypeLayouts::Pointer known, TypeLayouts::instance().get(map, device));
  TypeLayouts::instance().forget(map.id);
  pieces.load();
  GC_TRY(launch(device, pack_item(known->layout, known->runs, known->starts, origin(device, on_device, runs[0].offset),
                                  place, map.size, to_device)));
  pieces.store();
  return {};
}

}  // namespace gpucoll::coll
