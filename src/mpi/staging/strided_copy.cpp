#include "mpi/staging/strided_copy.h"

#include "mpi/datatype/address.h"
#include "mpi/staging/packed_copy.h"
#include "mpi/staging/pinned_copies.h"

namespace gpucoll::coll {
namespace {

// As a type that is used once.
gc_type_map map_of(const gc_runs* runs, size_t n) {
  gc_type_map map = {};
  for (size_t i = 0; i < n; ++i) map.size += runs[i].bytes * runs[i].count;
  map.runs = runs;
  map.n_runs = n;
  return map;
}

}  // namespace

Status copy_strided(gpu::Device& device, void* host, void* on_device, const gc_runs* runs, size_t n, bool to_device) {
  const gc_type_map map = map_of(runs, n);
  PinnedCopies pieces;
  GC_TRY_AS(uint8_t* const place, pieces.reserve(device, map.size));
  pieces.add(static_cast<uint8_t*>(host), &map, place, map.size, !to_device);
  GC_TRY_AS(const TypeCache::Pointer known, TypeCache::instance().make(map, device));
  pieces.load();
  uint8_t* const memory = kernel_origin(device, on_device, runs[0].offset);
  GC_TRY(
      pack_and_wait(device, pack_item(known->layout, known->runs, known->starts, memory, place, map.size, to_device)));
  pieces.store();
  return {};
}

}  // namespace gpucoll::coll
