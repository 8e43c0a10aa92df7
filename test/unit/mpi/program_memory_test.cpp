// Shows how memory of the program is looked at that is page-locked in part, or lies in several allocations.
#include "mpi/staging/program_memory.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace gpucoll::coll {
namespace {

// Knows pieces of an array, and nothing else.
class Pieces final : public gpu::Platform {
 public:
  using Piece = std::pair<size_t, size_t>;  // begin, end
  Pieces(const char* array, std::vector<Piece> pieces) : array_(array), pieces_(std::move(pieces)) {}
  const char* name() const override { return "pieces"; }
  Result<int> device_count() override { return 0; }
  int current_device() override { return 0; }
  Status choose_device(int) override { return {}; }
  Result<gpu::Device*> open(int) override { return nullptr; }
  bool is_device(const void*) noexcept override { return false; }
  gpu::PointerInfo classify(const void* address) override {
    gpu::PointerInfo info;
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - array_);
    for (const auto& [begin, end] : pieces_) {
      if (offset < begin || offset >= end) continue;
      info.kind = gpu::MemoryKind::pinned;
      info.base = array_ + begin;
      info.bytes = end - begin;
    }
    return info;
  }
  bool is_partly_pinned(size_t begin, size_t bytes) {
    return coll::is_partly_pinned(*this, classify(array_ + begin), array_ + begin, bytes);
  }

 private:
  const char* array_;
  std::vector<Piece> pieces_;
};

TEST(ProgramMemory, IsPinnedOnlyAsAWhole) {
  static char array[1000];
  Pieces memory(array, {{0, 600}});
  EXPECT_FALSE(memory.is_partly_pinned(0, 600));
  EXPECT_TRUE(memory.is_partly_pinned(0, 601));
  EXPECT_FALSE(memory.is_partly_pinned(100, 500));
  EXPECT_TRUE(memory.is_partly_pinned(100, 501));
  EXPECT_FALSE(memory.is_partly_pinned(600, 400));  // nowhere
  gpu::PointerInfo unknown;
  unknown.kind = gpu::MemoryKind::pinned;
  EXPECT_FALSE(is_partly_pinned(memory, unknown, array, 1000));
}

TEST(ProgramMemory, IsPinnedPieceByPiece) {
  static char array[1000];
  Pieces memory(array, {{0, 200}, {200, 400}, {400, 600}, {700, 1000}});
  EXPECT_FALSE(memory.is_partly_pinned(100, 500));
  EXPECT_TRUE(memory.is_partly_pinned(100, 501));
  EXPECT_TRUE(memory.is_partly_pinned(100, 900));  // pageable in between
}

TEST(ProgramMemory, IsOfOneDeviceUnlessManaged) {
  gpu::PointerInfo info;
  info.device = 1;
  info.kind = gpu::MemoryKind::device;
  EXPECT_EQ(device_holding(info), 1);
  info.kind = gpu::MemoryKind::managed;
  EXPECT_EQ(device_holding(info), -1);
  info = {};
  EXPECT_EQ(device_holding(info), -1);
}

class Allocations {
 public:
  explicit Allocations(int n) {
    for (int i = 0; i < n; ++i) memory_.push_back(*device_.user_allocate(4096));
  }
  ~Allocations() {
    for (void* memory : memory_) device_.user_release(memory).ignore();
  }
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  const void* operator[](size_t i) const { return memory_[i]; }
  ptrdiff_t place(size_t i) const { return static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(memory_[i])); }

 private:
  gpu::Device& device_ = **gpu::emu_platform().open(0);
  std::vector<void*> memory_;
};

std::vector<const void*> bases_of(const ProgramData& data) {
  std::vector<const void*> bases;
  each_allocation(gpu::emu_platform(), data,
                  [&](const void*, const gpu::PointerInfo& info) { bases.push_back(info.base); });
  return bases;
}

using Bases = std::vector<const void*>;

TEST(ProgramMemory, IsSeenInEachAllocation) {
  const Allocations at(3);
  const gc_runs runs[] = {
      {at.place(0), 4, 1, 0}, {at.place(0) + 8, 4, 2, 8}, {at.place(1), 4, 1, 0}, {at.place(2) + 4, 4, 1, 0}};
  gc_type_map map = {};
  map.size = 20;
  map.runs = runs;
  map.n_runs = 4;
  map.extent = 64;
  EXPECT_EQ(bases_of(elements_of(map, nullptr, 20)), (Bases{at[0], at[1], at[2]}));
  EXPECT_EQ(bases_of(elements_of(map, nullptr, 21)),
            (Bases{at[0], at[1], at[2], at[0], at[1], at[2]}));  // two elements
}

// A run may lead from one allocation into the next by its stride.
TEST(ProgramMemory, IsSeenWhereStridesLead) {
  const Allocations at(2);
  const gc_runs run = {at.place(0), 4, 2, at.place(1) - at.place(0)};
  EXPECT_EQ(bases_of({nullptr, &run, 1, 1, 0}), (Bases{at[0], at[1]}));
}

TEST(ProgramMemory, IsCopiedByTheFirstDevice) {
  static char host[16];
  const Allocations at(1);
  const auto in_host = static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(host));
  const gc_runs runs[] = {{in_host, 4, 1, 0}, {at.place(0) + 8, 4, 1, 0}};
  EXPECT_EQ(await_program_copies({nullptr, runs, 2, 1, 0}).on_device, static_cast<const char*>(at[0]) + 8);
  EXPECT_EQ(await_program_copies({nullptr, runs, 1, 1, 0}).on_device, host);
  const gc_runs ahead = {4, 4, 1, 0};
  EXPECT_EQ(await_program_copies({at[0], &ahead, 1, 1, 0}).on_device, static_cast<const char*>(at[0]) + 4);
  EXPECT_FALSE(await_program_copies({nullptr, runs, 2, 1, 0}).has_managed);
}

TEST(ProgramMemory, IsSeenOnceInOneAllocation) {
  const Allocations at(1);
  const gc_runs run = {8, 4, 10, 16};
  EXPECT_EQ(bases_of({at[0], &run, 1, 5, 160}), (Bases{at[0]}));
}

}  // namespace
}  // namespace gpucoll::coll
