#include "mpi/datatype/type_layout.h"

#include <algorithm>
#include <bit>

#include "base/observe/causes.h"
#include "mpi/datatype/address.h"

namespace gpucoll::coll {
namespace {

using proto::PackLevel;

uint64_t bits_of(const gc_runs& runs, ptrdiff_t first) {
  const uint64_t bits = static_cast<uint64_t>(runs.offset - first) | runs.bytes;
  return runs.count > 1 ? bits | static_cast<uint64_t>(runs.stride) : bits;
}

bool same_runs(const gc_runs& a, const gc_runs& b) {
  return a.bytes == b.bytes && a.count == b.count && (a.count == 1 || a.stride == b.stride);
}

// How many entries from the first on lie equally far apart.
size_t equally_spaced(const gc_runs* runs, size_t n, size_t step, ptrdiff_t stride) {
  size_t length = 1;
  while (length * step < n && runs[length * step].offset - runs[(length - 1) * step].offset == stride) ++length;
  return length;
}

// The entries as up to two levels above their own runs. False where they are not regular.
bool add_levels(const gc_type_map& map, TypeLayout* layout) {
  const gc_runs* runs = map.runs;
  const size_t n = map.n_runs;
  for (size_t i = 1; i < n; ++i)
    if (!same_runs(runs[0], runs[i])) return false;
  PackLevel* next = layout->level;
  if (runs->count > 1) *next++ = {runs->count, runs->stride};
  if (n == 1) return true;
  const ptrdiff_t stride = runs[1].offset - runs[0].offset;
  const size_t inner = equally_spaced(runs, n, 1, stride);
  *next++ = {inner, stride};
  if (inner == n) return true;
  if (n % inner) return false;
  const ptrdiff_t outer = runs[inner].offset - runs[0].offset;
  for (size_t row = 0; row < n; row += inner)
    if (equally_spaced(runs + row, inner, 1, stride) != inner) return false;
  if (equally_spaced(runs, n, inner, outer) != n / inner) return false;
  *next = {n / inner, outer};
  return true;
}

// The last run that begins at a granule or before, for each, and the last of all.
void add_starts(TypeLayout* layout) {
  const auto& runs = layout->runs;
  // About as many granules as runs.
  while (layout->size >> layout->granule_bits > runs.size()) ++layout->granule_bits;
  const uint64_t granules = (layout->size >> layout->granule_bits) + 1;
  layout->starts.reserve(granules + 1);
  uint32_t run = 0;
  for (uint64_t g = 0; g < granules; ++g) {
    while (run + 1 < runs.size() && runs[run + 1].packed <= g << layout->granule_bits) ++run;
    layout->starts.push_back(run);
  }
  layout->starts.push_back(static_cast<uint32_t>(runs.size() - 1));
}

void add_list(const gc_type_map& map, TypeLayout* layout) {
  uint64_t packed = 0;
  layout->runs.reserve(map.n_runs);
  for (size_t i = 0; i < map.n_runs; ++i) {
    const gc_runs& runs = map.runs[i];
    layout->runs.push_back({packed, runs.offset - layout->first, runs.bytes, runs.stride});
    packed += runs.bytes * runs.count;
  }
  add_starts(layout);
}

}  // namespace

Result<TypeLayout> layout_of(const gc_type_map& map) {
  if (map.n_runs > UINT32_MAX / 2)
    return Status::error(Code::unsupported, "a type has %zu runs of data", map.n_runs)
        .because(Cause::type_of_many_runs);
  TypeLayout layout;
  layout.size = map.size;
  layout.extent = map.extent;
  layout.first = map.runs[0].offset;
  layout.run_bytes = map.runs[0].bytes;
  for (size_t i = 0; i < map.n_runs; ++i) layout.multiples |= bits_of(map.runs[i], layout.first);
  if (!add_levels(map, &layout)) add_list(map, &layout);
  return layout;
}

TypeLayout plain_layout(uint64_t bytes) {
  TypeLayout layout;
  layout.size = layout.run_bytes = layout.multiples = bytes;
  return layout;
}

proto::PackLayout told_layout(const TypeLayout& layout) {
  proto::PackLayout told = {layout.size, layout.extent, layout.run_bytes, {}, layout.multiples};
  std::copy(std::begin(layout.level), std::end(layout.level), told.level);
  return told;
}

TypeLayout layout_told(const proto::PackLayout& told) {
  TypeLayout layout;
  layout.size = told.element_bytes;
  layout.extent = told.extent;
  layout.run_bytes = told.run_bytes;
  std::copy(std::begin(told.level), std::end(told.level), layout.level);
  layout.multiples = told.multiples;
  return layout;
}

void join_items(proto::PackItem* to, proto::PackItem* from) {
  to->unit = from->unit = std::min(to->unit, from->unit);
  to->unpacks = proto::kMoves;
  from->unpacks = proto::kFrom;
}

proto::PackItem pack_item(const TypeLayout& layout, const proto::PackRuns* runs, const uint32_t* starts,
                          uint8_t* memory, uint8_t* packed, uint64_t bytes, bool unpacks) {
  constexpr int kWidest = 4;
  proto::PackItem item = {};
  item.memory = moved(memory, layout.first);
  item.packed = packed;
  item.bytes = bytes;
  item.element_bytes = layout.size;
  item.extent = layout.extent;
  item.runs = runs;
  item.starts = starts;
  item.run_bytes = layout.run_bytes;
  std::copy(std::begin(layout.level), std::end(layout.level), item.level);
  uint64_t bits = layout.multiples | reinterpret_cast<uintptr_t>(item.memory) | reinterpret_cast<uintptr_t>(packed);
  if (bytes % layout.size) bits |= bytes;
  if (bytes > layout.size) bits |= static_cast<uint64_t>(layout.extent);
  item.unit = static_cast<uint8_t>(std::min(std::countr_zero(bits), kWidest));
  item.unpacks = unpacks;
  item.granule_bits = layout.granule_bits;
  return item;
}

}  // namespace gpucoll::coll
