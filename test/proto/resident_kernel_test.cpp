// Kernels that stay after their operation for those that the host rings in: every rank, thread and host a CPU thread.
#include "plan_runner.h"
#include "proto/format/doorbell.h"

namespace gpucoll {
namespace {

using Red = proto::Sum<float>;
constexpr uint32_t kBound = 2'000'000'000;  // ns
constexpr size_t kMostCount = 700;

// A rank's kernel and the host that posts to it. The same buffers again and again, written anew by the host.
class Rank {
 public:
  Rank(test::World& world, int rank, int n_ranks, int blocks, uint32_t resident_ns)
      : n_(n_ranks), rank_(rank), blocks_(blocks), maker_((uint64_t{1} << blocks) - 1) {
    proto::DeviceComm& comm = world.comm(rank);
    comm.counters = {kBefore, 7, {}};
    for (proto::ChannelComm& channel : comm.channel) channel.doorbell = &doorbell_;
    for (uint64_t old : {kBefore - 1, kBefore})
      for (uint64_t& word : comm.relay[old % 2]) word = proto::doorbell_word(0, old);
    maker_.add({0, proto::Function::all_reduce, proto::Algorithm::one_shot, proto::Protocol::ll, 0, 0, 0},
               {{.collective = item(write(0))}});
    plan_ = maker_.make(false);
    plan_.comm = &comm;
    plan_.done_word = &done_;
    plan_.resident_ns = resident_ns;
  }
  const proto::Plan& plan() const { return plan_; }
  uint64_t left() const { return proto::load_acquire(&doorbell_.left); }

  // As the host: the operation of the plan itself, then so many more.
  void post_and_check(uint64_t rings) {
    await_done(kBefore + 1);
    check(0);
    for (uint64_t i = 1; i <= rings; ++i) {
      const proto::CollectiveItem next = item(write(i));
      post(next, kBefore + 1 + i);
      await_done(kBefore + 1 + i);
      check(i);
    }
    last_ = kBefore + 1 + rings;
  }
  void post_alone() { post(plan_.own_items()->collective, last_ + 1); }
  void dismiss() {
    proto::CollectiveItem leave{};
    leave.function = proto::kLeave;
    post(leave, last_ + 1);
  }
  uint64_t last() const { return last_; }

 private:
  // As in a process that has made so many launches: the numbers' lower halves wrap round.
  static constexpr uint64_t kBefore = (uint64_t{5} << 32) - 3;

  static uint64_t count(uint64_t i) { return i * 131 % kMostCount + 1; }
  static float value(uint64_t i, int rank, uint64_t k) { return static_cast<float>(rank + 1) / 3 + float(i * k % 97); }

  uint64_t write(uint64_t i) {
    for (uint64_t k = 0; k < count(i); ++k) in_[k] = value(i, rank_, k);
    return i;
  }
  proto::CollectiveItem item(uint64_t i) {
    proto::CollectiveItem item{};
    item.function = proto::Function::all_reduce;
    item.send = in_;
    item.recv = out_;
    item.count = count(i);
    item.n_channels = static_cast<uint16_t>(1 + i % static_cast<uint64_t>(blocks_));
    item.next_rank = static_cast<uint8_t>((rank_ + 1) % n_);
    return item;
  }
  void post(const proto::CollectiveItem& item, uint64_t number) {
    uint32_t data[proto::kDoorbellWords];
    std::memcpy(data, &item, sizeof data);
    for (uint32_t w = 0; w < proto::kDoorbellWords; ++w) {
      const uint32_t mixed = (w * 7 + static_cast<uint32_t>(number)) % proto::kDoorbellWords;
      proto::store_release(&doorbell_.word[mixed], proto::doorbell_word(data[mixed], number));
      if (number % 5 == 0) proto::pause();
    }
  }
  void await_done(uint64_t number) {
    while (proto::load_acquire(&done_) != number && left() <= kBefore) proto::pause();
  }
  void check(uint64_t i) {
    for (uint64_t k = 0; k < count(i); ++k) {
      float want = value(i, 0, k);
      for (int r = 1; r < n_; ++r) want += value(i, r, k);
      ASSERT_EQ(out_[k], want) << "operation " << i << ", rank " << rank_ << ", element " << k;
    }
  }

  int n_, rank_, blocks_;
  test::PlanMaker maker_;
  proto::Plan plan_{};
  proto::Doorbell doorbell_{};
  uint64_t done_ = 0, last_ = 0;
  alignas(16) float in_[kMostCount], out_[kMostCount];
};

void run(const gpu::EmuBlock& block, const proto::Plan& plan) {
  coll::device::run_one_shots<Red>(gpu::emu::ThreadBlock(block), static_cast<uint32_t>(block.block),
                                   static_cast<uint32_t>(block.n_blocks), plan, block.shared);
}

struct Shape {
  int blocks, threads;
};
class ResidentKernel : public testing::TestWithParam<Shape> {
 protected:
  // Ranks whose kernels stay for so long: by default as long as it takes.
  void make(int n_ranks, std::vector<uint32_t> resident_ns = {}) {
    ranks.clear();
    world = std::make_unique<test::World>(n_ranks, 1, 128);
    world->add_mesh();
    resident_ns.resize(static_cast<size_t>(n_ranks), resident_ns.empty() ? kBound : resident_ns[0]);
    for (int r = 0; r < n_ranks; ++r)
      ranks.push_back(
          std::make_unique<Rank>(*world, r, n_ranks, GetParam().blocks, resident_ns[static_cast<size_t>(r)]));
  }
  void run_kernels() {
    test::run_grids(
        static_cast<int>(ranks.size()), GetParam().blocks, GetParam().threads,
        [&](int rank, const gpu::EmuBlock& block) { run(block, ranks[static_cast<size_t>(rank)]->plan()); });
  }

  std::unique_ptr<test::World> world;
  std::vector<std::unique_ptr<Rank>> ranks;
};

TEST_P(ResidentKernel, RunsWhatIsPostedAndLeavesWhenAsked) {
  for (int n : {1, 2, 3}) {
    make(n);
    test::Watch watch(*world);
    std::vector<std::thread> hosts;
    for (auto& rank : ranks) {
      hosts.emplace_back([&rank] {
        rank->post_and_check(60);
        rank->dismiss();
      });
    }
    run_kernels();
    for (std::thread& host : hosts) host.join();
    ASSERT_FALSE(watch.ran_out()) << "ranks wait for ever";
    for (int r = 0; r < n; ++r) {
      const Rank& rank = *ranks[static_cast<size_t>(r)];
      EXPECT_EQ(rank.left(), rank.last());
      EXPECT_EQ(world->comm(r).counters.done, rank.last());
      EXPECT_EQ(world->comm(r).counters.mesh_flag, 7 + 1 + 60u);
    }
  }
}

TEST_P(ResidentKernel, LeavesAfterItsTime) {
  make(2, {1'000'000});
  run_kernels();
  for (auto& rank : ranks) {
    rank->post_and_check(0);
    EXPECT_EQ(rank->left(), rank->last());
  }
}

// A peer that never comes: the latch ends the operation that was posted, and the kernel leaves.
TEST_P(ResidentKernel, LeavesWithTheLatch) {
  make(2, {kBound, 0});
  std::thread host([&] {
    ranks[0]->post_and_check(0);
    ranks[0]->post_alone();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    proto::store_release(&world->latch().abort, 1u);
  });
  run_kernels();
  host.join();
  EXPECT_EQ(ranks[0]->left(), ranks[0]->last() + 1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ResidentKernel, testing::Values(Shape{1, 1}, Shape{1, 3}, Shape{3, 1}, Shape{3, 3}));

}  // namespace
}  // namespace gpucoll
