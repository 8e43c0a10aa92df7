// How the data of a type with gaps lie, as packing kernels are told (proto/format/packing.h): by levels where they are
// regular, else as a list of runs.
//
// Thread safety: plain data and pure functions. Ownership: a layout owns its list.
#pragma once
#include <cstdint>
#include <vector>

#include "abi/abi.h"
#include "base/status.h"
#include "proto/format/packing.h"

namespace gpucoll::coll {

struct TypeLayout {
  uint64_t size = 0;
  int64_t extent = 0;
  int64_t first = 0;  // of the first run, from the element's origin: all else counts from there
  uint64_t run_bytes = 0;
  proto::PackLevel level[proto::kPackLevels] = {{1, 0}, {1, 0}, {1, 0}};
  std::vector<proto::PackRuns> runs;  // empty: by levels
  std::vector<uint32_t> starts;
  uint8_t granule_bits = 0;
  uint64_t multiples = 0;  // all offsets, lengths and strides within an element, by OR
};

// Errors: unsupported, where the list has more entries than kernels can count.
Result<TypeLayout> layout_of(const gc_type_map& map);
// Bytes one after another, as one element.
TypeLayout plain_layout(uint64_t bytes);

// Returns what this process tells another one of a layout, but for a list.
proto::PackLayout told_layout(const TypeLayout& layout);
TypeLayout layout_told(const proto::PackLayout& told);
// Turns an item that unpacks and one that packs, of as many bytes, into one that moves and its partner.
void join_items(proto::PackItem* to, proto::PackItem* from);

// `bytes` of packed data, of elements the first of which begins at `memory`; the other way round with `unpacks`.
// Kernel addresses; `runs` and `starts` are the layout's list in device memory, null where it has levels.
proto::PackItem pack_item(const TypeLayout& layout, const proto::PackRuns* runs, const uint32_t* starts,
                          uint8_t* memory, uint8_t* packed, uint64_t bytes, bool unpacks);

}  // namespace gpucoll::coll
