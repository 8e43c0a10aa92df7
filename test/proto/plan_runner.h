// Makes plans by hand and runs them on every rank of a World, each block and thread a CPU thread; memory that tells
// when somebody has written beside it; values to fill it with.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "kernels/run_plan.h"
#include "thread_block.h"
#include "world.h"

namespace gpucoll::test {

// A mutant that has been caught need not go on: others of its tests wait in vain for seconds.
class EndAtFirstFailure : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed()) std::_Exit(1);  // printed by the listener before this one
  }
};
inline const bool kEndsAtFirstFailure =
    proto::kMutant != 0 && (testing::UnitTest::GetInstance()->listeners().Append(new EndAtFirstFailure), true);

// Memory of one operation on one rank, with room around it that nobody may touch.
class Buffer {
 public:
  explicit Buffer(size_t bytes = 0, size_t offset = 0)
      : bytes_(bytes), offset_(kRoom + offset), memory_(bytes / sizeof(proto::Pack) + 6) {
    std::memset(memory_.data(), kUntouched, memory_.size() * sizeof(proto::Pack));
  }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(memory_.data()) + offset_; }
  size_t bytes() const { return bytes_; }
  bool same_around() const {
    const auto* const all = reinterpret_cast<const uint8_t*>(memory_.data());
    for (size_t i = 0; i < memory_.size() * sizeof(proto::Pack); ++i) {
      if ((i < offset_ || i >= offset_ + bytes_) && all[i] != kUntouched) return false;
    }
    return true;
  }
  static constexpr uint8_t kUntouched = 0xa5;

 private:
  static constexpr size_t kRoom = 32;
  size_t bytes_, offset_;
  std::vector<proto::Pack> memory_;
};

// Values whose rounding shows the order of a sum, and zeros for logical operations.
template <class T>
void draw(T& value, std::mt19937_64& random) {
  if constexpr (std::is_integral_v<T>)
    value = random() % 4 == 0 ? T{0} : static_cast<T>(random());
  else
    value = static_cast<T>(static_cast<double>(random() % 2000) / 7.0 - 100.0);
}
template <class T>
requires proto::kNarrow<T>
void draw(T& value, std::mt19937_64& random) {
  float x;
  draw(x, random);
  value = from_float(std::is_same_v<T, proto::Bfloat16> ? x : x / 16, T{});
}
template <class T>
void draw(proto::Complex<T>& value, std::mt19937_64& random) {
  draw(value.re, random);
  draw(value.im, random);
}
template <class V, class I>
void draw(proto::Pair<V, I>& pair, std::mt19937_64& random) {
  pair.value = static_cast<V>(random() % 3);  // often equal
  pair.index = static_cast<I>(random() % 100);
}

// Where a value's members go, bit for bit; padding stays.
template <class T>
void write_members(uint8_t* p, const T& value) {
  std::memcpy(p, &value, sizeof value);
}
template <class V, class I>
void write_members(uint8_t* p, const proto::Pair<V, I>& pair) {
  std::memcpy(p, &pair.value, sizeof pair.value);
  std::memcpy(p + offsetof(std::remove_cvref_t<decltype(pair)>, index), &pair.index, sizeof pair.index);
}
template <class T>
void fill(uint8_t* at, const std::vector<T>& values) {
  for (const T& value : values) {
    write_members(at, value);
    at += sizeof(T);
  }
}

// One rank's part of a launch: operations one after another, each a batch in every channel that takes part.
class PlanMaker {
 public:
  explicit PlanMaker(uint64_t channel_mask) : mask_(channel_mask) {}

  void add(const proto::Batch& kind, std::vector<proto::WorkItem> items, uint64_t channels = ~uint64_t{0}) {
    operations_.push_back({kind, std::move(items), channels & mask_, {}});
  }
  // One item, and the addresses that it is to find.
  void add(const proto::Batch& kind, const proto::WorkItem& item, uint64_t channels,
           std::vector<proto::WorkItem> addresses) {
    operations_.push_back({kind, {item}, channels & mask_, std::move(addresses)});
  }
  int blocks() const { return __builtin_popcountll(mask_); }
  // in_fifo: items lie outside of the arguments. The plan lives no longer than this.
  proto::Plan make(bool in_fifo) {
    place_items();
    proto::Plan plan{};
    plan.channel_mask = mask_;
    lay_out_batches(plan);
    EXPECT_TRUE(proto::fits_plan(plan.n_batches, in_fifo ? 0 : items_.size()));
    plan.n_items = static_cast<uint32_t>(items_.size());
    if (in_fifo)
      plan.items = items_.data();
    else
      std::memcpy(plan.own_items(), items_.data(), items_.size() * sizeof(proto::WorkItem));
    return plan;
  }

 private:
  struct Operation {
    proto::Batch kind;
    std::vector<proto::WorkItem> items;
    uint64_t channels;
    std::vector<proto::WorkItem> behind;
  };

  // With a hole behind each item, of which nobody may take notice.
  void place_items() {
    items_.clear();
    for (Operation& operation : operations_) {
      operation.kind.base = static_cast<uint16_t>(items_.size());
      operation.kind.items = 0;
      EXPECT_LE(2 * operation.items.size(), size_t{proto::kItemsPerBatch});
      for (size_t i = 0; i < operation.items.size(); ++i) {
        operation.kind.items |= uint64_t{1} << (2 * i);
        items_.push_back(operation.items[i]);
        std::memset(&items_.emplace_back(), 0xee, sizeof(proto::WorkItem));
      }
      if (operation.behind.empty()) continue;
      items_[operation.kind.base].collective.addresses = static_cast<uint16_t>(items_.size());
      items_.insert(items_.end(), operation.behind.begin(), operation.behind.end());
    }
  }
  void lay_out_batches(proto::Plan& plan) {
    uint32_t block = 0;
    plan.n_batches = static_cast<uint32_t>(blocks());
    for (int channel = 0; channel < proto::kMaxChannels; ++channel) {
      if ((mask_ >> channel & 1) == 0) continue;
      proto::Batch* last = nullptr;
      for (const Operation& operation : operations_) {
        if ((operation.channels >> channel & 1) == 0) continue;
        const uint32_t index = last == nullptr ? block : plan.n_batches++;
        if (last != nullptr) last->next = static_cast<uint16_t>(index);
        last = &plan.batch(index);
        *last = operation.kind;
        last->next = 0;
      }
      EXPECT_NE(last, nullptr) << "nothing to do in channel " << channel;
      ++block;
    }
  }

  uint64_t mask_;
  std::vector<Operation> operations_;
  std::vector<proto::WorkItem> items_;
};

// Mutants may wait for ever, and soon do.
inline const std::chrono::seconds kPatience{proto::kMutant == 0 ? 100 : 3};

// Sets the latch when the ranks wait for ever.
class Watch {
 public:
  explicit Watch(World& world, std::chrono::seconds patience = kPatience)
      : latch_(world.latch()), patience_(patience), thread_([this] { watch(); }) {}
  ~Watch() {
    ended_ = true;
    thread_.join();
  }
  bool ran_out() const { return ran_out_; }

 private:
  void watch() {
    const auto until = std::chrono::steady_clock::now() + patience_;
    while (!ended_ && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (ended_) return;
    ran_out_ = true;
    proto::store_release(&latch_.abort, 1u);
  }
  proto::FaultLatch& latch_;
  const std::chrono::seconds patience_;
  std::atomic<bool> ended_{false}, ran_out_{false};
  std::thread thread_;
};

// One of kernels/dispatch.h.
template <class Way>
void kernel_of(const gpu::EmuBlock& block, const proto::Plan& plan) {
  coll::device::run_plan<Way>(gpu::emu::ThreadBlock(block), static_cast<uint32_t>(block.block),
                              static_cast<uint32_t>(block.n_blocks), plan, block.shared);
}
template <class Family>
void family_kernel(const gpu::EmuBlock& block, const proto::Plan& plan) {
  kernel_of<coll::device::ConnectionVariant<Family>>(block, plan);
}

// Of an item's buffers, as kernels of every rank know them.
inline std::vector<proto::WorkItem> addresses_of(const proto::CollectiveItem& item) {
  std::vector<proto::WorkItem> addresses(proto::kItemsOfAddresses);
  std::fill_n(addresses[0].addresses.at, proto::kZeroCopyRanks, static_cast<uint8_t*>(const_cast<void*>(item.send)));
  std::fill_n(addresses[1].addresses.at, proto::kZeroCopyRanks, static_cast<uint8_t*>(item.recv));
  return addresses;
}

// One launch on every rank.
using EmuKernel = void (*)(const gpu::EmuBlock&, const proto::Plan&);
inline void run_plans(EmuKernel kernel, World& world, std::vector<PlanMaker>& ranks, int threads, bool in_fifo = false,
                      std::chrono::seconds patience = kPatience) {
  std::vector<proto::Plan> plans;
  std::vector<uint64_t> done(ranks.size());
  int most_blocks = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    plans.push_back(ranks[r].make(in_fifo));
    plans[r].comm = &world.comm(static_cast<int>(r));
    plans[r].done_word = &done[r];
    world.comm(static_cast<int>(r)).counters.done = 76;
    most_blocks = std::max(most_blocks, ranks[r].blocks());
  }
  Watch watch(world, patience);
  run_grids(static_cast<int>(ranks.size()), most_blocks, threads, [&](int rank, gpu::EmuBlock block) {
    const auto r = static_cast<size_t>(rank);
    block.n_blocks = ranks[r].blocks();
    if (block.block < block.n_blocks) kernel(block, plans[r]);
  });
  ASSERT_FALSE(watch.ran_out()) << "ranks wait for ever";
  for (size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(done[r], 77u);
    EXPECT_EQ(world.blocks_done(static_cast<int>(r)), 0u);
  }
}

// Rank 0 of the world runs a plan alone, in two blocks: it can only end through the latch, and still reports its end.
inline void expect_latch_ends(World& world, proto::Plan plan, int threads, EmuKernel kernel) {
  uint64_t done = 0;
  plan.comm = &world.comm(0);
  plan.done_word = &done;
  world.comm(0).counters.done = 4;
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(proto::load_acquire(&done), 0u) << "ended without its peer";
    proto::store_release(&world.latch().abort, 1u);
  });
  run_grids(1, 2, threads, [&](int, const gpu::EmuBlock& block) { kernel(block, plan); });
  host.join();
  EXPECT_EQ(done, 5u);
}

}  // namespace gpucoll::test
