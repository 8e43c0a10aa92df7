// The packing kernel: types with gaps of all shapes, drawn at random, against a plain loop over their runs; both ways,
// at all alignments, by several blocks of one and of three threads. Memory around the data must stay as it was.
#include "kernels/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "mpi/datatype/type_layout.h"
#include "thread_block.h"

namespace gpucoll {
namespace {

using Random = std::mt19937_64;

struct Type {
  std::vector<gc_runs> runs;
  ptrdiff_t extent = 0;

  // Offsets of all bytes of data, in order.
  std::vector<ptrdiff_t> bytes(size_t elements) const {
    std::vector<ptrdiff_t> all;
    for (size_t e = 0; e < elements; ++e)
      for (const gc_runs& r : runs)
        for (size_t i = 0; i < r.count; ++i)
          for (size_t b = 0; b < r.bytes; ++b)
            all.push_back(static_cast<ptrdiff_t>(e) * extent + r.offset + static_cast<ptrdiff_t>(i) * r.stride +
                          static_cast<ptrdiff_t>(b));
    return all;
  }
  gc_type_map map() const {
    gc_type_map map = {};
    map.id = 1;
    map.size = bytes(1).size();
    map.extent = extent;
    map.runs = runs.data();
    map.n_runs = runs.size();
    return map;
  }
};

// The runs of nested vectors: each level repeats what is below it.
Type nested(size_t run_bytes, ptrdiff_t first, const std::vector<std::pair<size_t, ptrdiff_t>>& levels,
            ptrdiff_t extent) {
  Type type;
  type.extent = extent;
  type.runs = {{first, run_bytes, levels[0].first, levels[0].second}};
  for (size_t l = 1; l < levels.size(); ++l) {
    const std::vector<gc_runs> below = type.runs;
    for (size_t i = 1; i < levels[l].first; ++i)
      for (gc_runs runs : below) {
        runs.offset += static_cast<ptrdiff_t>(i) * levels[l].second;
        type.runs.push_back(runs);
      }
  }
  return type;
}

// Runs of all lengths, now and then several alike, each somewhere behind the one before in a shuffled order.
Type irregular(Random& random, size_t n, size_t unit) {
  Type type;
  ptrdiff_t at = -40;
  for (size_t i = 0; i < n; ++i) {
    gc_runs runs = {at, unit * (1 + random() % 5), 1 + random() % 3, 0};
    runs.stride = static_cast<ptrdiff_t>(runs.bytes + unit * (1 + random() % 3));
    at += runs.stride * static_cast<ptrdiff_t>(runs.count) + static_cast<ptrdiff_t>(unit * (random() % 4));
    type.runs.push_back(runs);
  }
  std::shuffle(type.runs.begin(), type.runs.end(), random);
  type.extent = at + 48;
  return type;
}

// What a kernel works on: memory with room on both sides, its address `shift` beyond a multiple of 16.
struct Bytes {
  std::vector<proto::Pack> room;
  uint8_t* data;
  ptrdiff_t low, high;  // of the room, around data
  Bytes(ptrdiff_t least, ptrdiff_t most, size_t shift)
      : room(static_cast<size_t>(most - least) / sizeof(proto::Pack) + 8),
        data(reinterpret_cast<uint8_t*>(room.data()) + 64 - least / 16 * 16 + shift),
        low(least - 16),
        high(most + 16) {}
  void fill(Random& random) {
    for (ptrdiff_t i = low; i < high; ++i) data[i] = static_cast<uint8_t>(random());
  }
  std::vector<uint8_t> image() const { return {data + low, data + high}; }
};

struct Shape {
  int blocks, threads;
};

// One launch: several items, of the same type, at different places of the packed side.
void launch(const std::vector<proto::PackItem>& items, const Shape& shape) {
  static proto::DeviceComm comm;
  uint64_t done = 0;
  comm.counters = {6, 5, {}};
  proto::Plan plan = {};
  plan.comm = &comm;
  plan.done_word = &done;
  plan.n_items = static_cast<uint32_t>(items.size()) * proto::kItemsOfPacking;
  std::copy(items.begin(), items.end(), proto::pack_items(plan));
  test::run_grids(1, shape.blocks, shape.threads, [&](int, const gpu::EmuBlock& block) {
    coll::device::run_packing<void>(gpu::emu::ThreadBlock(block), static_cast<uint32_t>(block.block),
                                    static_cast<uint32_t>(block.n_blocks), plan, block.shared);
  });
  EXPECT_EQ(done, 7u);
  EXPECT_EQ(comm.blocks_done, 0u);
  EXPECT_EQ(comm.counters.mesh_flag, 5u);
}

void check(const Type& type, size_t elements, size_t shift, size_t packed_shift, const Shape& shape, Random& random) {
  const std::vector<ptrdiff_t> places = type.bytes(elements);
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  Bytes memory(*least, *most + 1, shift), packed(0, static_cast<ptrdiff_t>(places.size()), packed_shift);
  auto made = coll::layout_of(type.map());
  ASSERT_TRUE(made);
  const coll::TypeLayout& layout = *made;
  const auto* const runs = layout.runs.empty() ? nullptr : layout.runs.data();
  for (bool unpacks : {false, true}) {
    memory.fill(random);
    packed.fill(random);
    std::vector<uint8_t> memory_after = memory.image(), packed_after = packed.image();
    for (size_t i = 0; i < places.size(); ++i) {
      uint8_t& in_memory = memory_after[static_cast<size_t>(places[i] - memory.low)];
      uint8_t& in_packed = packed_after[static_cast<size_t>(static_cast<ptrdiff_t>(i) - packed.low)];
      (unpacks ? in_memory : in_packed) = unpacks ? in_packed : in_memory;
    }
    // In two items where there are several elements.
    const size_t size = places.size() / elements, first = elements / 2 * size;
    std::vector<proto::PackItem> items;
    if (first > 0)
      items.push_back(coll::pack_item(layout, runs, layout.starts.data(), memory.data, packed.data, first, unpacks));
    items.push_back(coll::pack_item(layout, runs, layout.starts.data(),
                                    memory.data + static_cast<ptrdiff_t>(elements / 2) * type.extent,
                                    packed.data + first, places.size() - first, unpacks));
    launch(items, shape);
    ASSERT_EQ(memory.image() == memory_after, true) << "memory, " << (unpacks ? "unpacking" : "packing");
    ASSERT_EQ(packed.image() == packed_after, true) << "packed, " << (unpacks ? "unpacking" : "packing");
  }
}

class Packing : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  Shape shape() const { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
  void check_at_all_alignments(const Type& type) {
    for (size_t elements : {1, 2, 3})
      for (size_t shift : {0, 8, 4, 2, 1})
        for (size_t packed_shift : {0, 4, 1}) check(type, elements, shift, packed_shift, shape(), random_);
  }
  Random random_{17};
};
INSTANTIATE_TEST_SUITE_P(Blocks, Packing, testing::Combine(testing::Values(1, 3), testing::Values(1, 3)));

TEST_P(Packing, OneRunAnElement) { check_at_all_alignments(nested(20, 4, {{1, 0}}, 32)); }
TEST_P(Packing, StructsOfOddLength) {
  for (size_t run : {1, 3, 21, 31}) {
    check(nested(run, 0, {{1, 0}}, 32), 50, 0, 0, shape(), random_);
    check(nested(run, 8, {{2, 80}}, 168), 20, 3, 5, shape(), random_);
  }
}
TEST_P(Packing, Vectors) {
  for (size_t run : {1, 6, 8, 16, 48}) check_at_all_alignments(nested(run, 0, {{5, 80}}, 400));
}
TEST_P(Packing, NegativeStridesAndExtents) {
  check_at_all_alignments(nested(8, 64, {{5, -16}}, 96));
  check_at_all_alignments(nested(8, 0, {{3, 16}}, -64));
  check_at_all_alignments(nested(12, -100, {{2, 40}, {3, -160}}, 450));
}
TEST_P(Packing, NestedVectors) {
  check_at_all_alignments(nested(4, 16, {{3, 12}, {4, 100}}, 400));
  check_at_all_alignments(nested(16, 0, {{3, 32}, {4, 112}, {2, 512}}, 1024));
  check_at_all_alignments(nested(2, 2, {{1, 0}, {3, 6}, {5, 30}}, 152));
}
TEST_P(Packing, FourLevelsAreAList) {
  const Type type = nested(4, 0, {{2, 8}, {2, 24}, {2, 60}, {3, 200}}, 700);
  auto layout = coll::layout_of(type.map());
  ASSERT_TRUE(layout);
  EXPECT_FALSE(layout->runs.empty());
  check_at_all_alignments(type);
}
TEST_P(Packing, Irregular) {
  for (size_t unit : {1, 2, 4, 8, 16})
    for (size_t n : {2, 3, 50}) check_at_all_alignments(irregular(random_, n, unit));
}
TEST_P(Packing, ThousandsOfRuns) { check(irregular(random_, 5000, 4), 3, 0, 0, shape(), random_); }
// One long run among many short ones: the search is as short as runs are long on average, not here.
TEST_P(Packing, RunsOfVeryDifferentLengths) {
  Type type = irregular(random_, 200, 1);
  type.runs.push_back({type.extent, 100'000, 1, 0});
  type.runs.push_back({-1000, 1, 7, 3});
  type.extent += 200'000;
  check(type, 2, 0, 0, shape(), random_);
}
// Only the second and the last run break the rule.
TEST_P(Packing, NearlyRegular) {
  for (size_t broken : {1, 11}) {
    Type type = nested(4, 0, {{2, 8}, {4, 40}, {3, 200}}, 600);
    ASSERT_EQ(type.runs.size(), 12u);
    type.runs[broken].offset += 4;
    check(type, 2, 0, 0, shape(), random_);
    type = nested(4, 0, {{2, 8}, {4, 40}, {3, 200}}, 600);
    type.runs[broken].stride += 4;
    check(type, 2, 0, 0, shape(), random_);
  }
}

TEST(TypeLayout, RegularTypesHaveNoList) {
  for (const Type& type :
       {nested(4, 0, {{1, 0}}, 8), nested(4, 0, {{9, 8}}, 80), nested(4, 0, {{9, 8}, {3, 100}}, 300),
        nested(4, 0, {{1, 0}, {9, 8}, {3, 100}}, 300), nested(4, 8, {{2, 8}, {9, 20}, {3, -200}}, 600)}) {
    auto layout = coll::layout_of(type.map());
    ASSERT_TRUE(layout);
    EXPECT_TRUE(layout->runs.empty());
  }
}

// As wide as addresses, strides and lengths allow; of one element the extent does not matter.
TEST(TypeLayout, UnitsAreAsWideAsPossible) {
  const auto unit = [](const Type& type, uintptr_t memory, uintptr_t packed, size_t elements) {
    auto layout = coll::layout_of(type.map());
    return int{coll::pack_item(*layout, nullptr, nullptr, reinterpret_cast<uint8_t*>(memory),
                               reinterpret_cast<uint8_t*>(packed), elements * layout->size, false)
                   .unit};
  };
  const Type packs = nested(32, 16, {{3, 48}}, 160);
  EXPECT_EQ(unit(packs, 4096, 8192, 4), 4);
  EXPECT_EQ(unit(packs, 4104, 8192, 4), 3);
  EXPECT_EQ(unit(packs, 4096, 8196, 4), 2);
  EXPECT_EQ(unit(packs, 4097, 8192, 4), 0);
  EXPECT_EQ(unit(nested(32, 4, {{3, 48}}, 164), 4092, 8192, 1), 4);
  EXPECT_EQ(unit(nested(32, 4, {{3, 48}}, 164), 4092, 8192, 2), 2);
  EXPECT_EQ(unit(nested(8, 0, {{3, 48}}, 160), 4096, 8192, 2), 3);
  EXPECT_EQ(unit(nested(32, 0, {{3, 50}}, 160), 4096, 8192, 2), 1);
}

}  // namespace
}  // namespace gpucoll
