#include "coll/staged_runs.h"

#include <map>
#include <mutex>

#include "coll/address.h"
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

// As a type that is used once.
gc_type_map map_of(const gc_runs* runs, size_t n) {
  gc_type_map map = {};
  for (size_t i = 0; i < n; ++i) map.size += runs[i].bytes * runs[i].count;
  map.runs = runs;
  map.n_runs = n;
  return map;
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
  GC_TRY_AS(const TypeLayouts::Pointer known, TypeLayouts::instance().make(map, device));
  pieces.load();
  uint8_t* const memory = kernel_origin(device, on_device, runs[0].offset);
  GC_TRY(launch(device, pack_item(known->layout, known->runs, known->starts, memory, place, map.size, to_device)));
  pieces.store();
  return {};
}

}  // namespace gpucoll::coll
