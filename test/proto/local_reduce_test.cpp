// The kernel of local reductions: any number of ranks, blocks and threads, at all alignments, over several tiles.
#include <algorithm>
#include <vector>

#include "local_reduce_case.h"

namespace gpucoll {
namespace {

using test::LocalCase;

template <class Red>
void kernel(const gpu::EmuBlock& block, const proto::Plan& plan) {
  coll::device::run_local_reduce<proto::Family<Red>>(gpu::emu::ThreadBlock(block), static_cast<uint32_t>(block.block),
                                                     static_cast<uint32_t>(block.n_blocks), plan, block.shared);
}

template <class Red>
void run(LocalCase c) {
  c.reduction = {0, c.n_ranks, 0};
  test::run_local_case<Red>(kernel<Red>, c);
}

TEST(LocalReduce, TakesOperandsInTheOrderOfRanks) {
  for (uint32_t n : {2u, 3u, 4u, 5u, 8u})
    for (uint32_t rank = 0; rank < n; ++rank)
      for (bool in_place : {false, true})
        for (int threads : {1, 3}) run<proto::Sum<float>>({n, rank, 1003, 2, threads, 0, 0, in_place});
}

TEST(LocalReduce, SharesTilesAmongBlocks) {
  constexpr uint64_t tile = proto::kLocalTile / sizeof(float);
  for (uint64_t count : {uint64_t{1}, tile - 1, tile, tile + 1, 3 * tile + 5, 7 * tile})
    for (int blocks : {1, 2, 5}) run<proto::Avg<float>>({4, 2, count, blocks, 2});
}

TEST(LocalReduce, WorksAtAnyAlignment) {
  for (size_t own : {0u, 2u, 6u, 14u})
    for (size_t others : {0u, 2u, 8u, 14u})
      for (uint32_t n : {2u, 5u}) {
        run<proto::Sum<proto::Half>>({n, 1, 777, 2, 3, own, others, own == 6});
        run<proto::Max<int8_t>>({n, 0, 777, 2, 3, own + 1, others + 1, own == 6});
      }
}

// A rank's part of a ring: what comes has been prepared and reduced by the ranks before, and goes on to the next one.
TEST(LocalReduce, PreparesEachOperandOnceAndCompletesTheResultOnce) {
  for (bool reduced : {false, true})
    for (bool partial : {false, true})
      for (uint32_t n : {2u, 5u}) {
        LocalCase c = {n, 1, 1003, 2, 3};
        c.reduced = reduced;
        c.partial = partial;
        run<proto::Avg<proto::Half>>(c);  // prepares and completes
        run<proto::Avg<float>>(c);
        run<proto::Sum<float>>(c);
      }
}

// A stream that is let go after a fault: its kernels tell that they are done, and touch nothing.
TEST(LocalReduce, WritesNothingOnceTheFaultLatchIsSet) {
  constexpr uint64_t tile = proto::kLocalTile / sizeof(float);
  for (uint32_t n : {1u, 2u, 5u})
    for (bool in_place : {false, true})
      for (int threads : {1, 3}) {
        LocalCase c = {n, 0, 3 * tile + 5, 2, threads, 0, 0, in_place};
        c.given_up = true;
        run<proto::Sum<float>>(c);
        c.waited = false;  // it is not the latch's business
        run<proto::Sum<float>>(c);
      }
}

// The launch after six others, of which one block runs by itself, on the second tile where it is not the first; returns
// whether it has reduced. latch: what it says. seen: what was left, or will be, for other blocks.
bool block_reduces(uint32_t index, bool latch, uint64_t* seen) {
  constexpr uint64_t tile = proto::kLocalTile / sizeof(float);
  std::vector<float> own(2 * tile, 1), others(2 * tile, 2), result(2 * tile, 0);
  proto::FaultLatch abort{};
  abort.abort = latch;
  proto::DeviceComm comm{};
  comm.channel[0].latch = &abort;
  comm.counters.done = 6;
  comm.latch_seen = *seen;
  uint64_t done = 0;
  proto::Plan plan{};
  plan.comm = &comm;
  plan.done_word = &done;
  proto::LocalReduction& r = proto::local_reduction(plan);
  const auto bytes = [](std::vector<float>& of) { return reinterpret_cast<uint8_t*>(of.data()); };
  r = {bytes(own), bytes(others), bytes(result), 0, 2 * tile, 0, 0, 2, 0, 1, 0, 0, 0, {}, {}};
  test::run_grids(1, 2, 3, [&](int, const gpu::EmuBlock& block) {
    if (static_cast<uint32_t>(block.block) == index) kernel<proto::Sum<float>>(block, plan);
  });
  *seen = comm.latch_seen;
  const float *first = &result[index * tile], *other = &result[(1 - index) * tile];
  EXPECT_TRUE(std::all_of(other, other + tile, [](float x) { return x == 0; })) << "a tile of another block";
  EXPECT_TRUE(std::all_of(first, first + tile, [&](float x) { return x == *first; }));
  return *first == 3;
}

TEST(LocalReduce, LooksAtTheFaultLatchOnceForAllBlocks) {
  constexpr uint64_t kThis = 2 * 7, kEarlier = 2 * 6;
  for (bool latch : {false, true}) {
    uint64_t seen = 0;
    EXPECT_EQ(block_reduces(0, latch, &seen), !latch);
    EXPECT_EQ(seen, kThis + latch);
    EXPECT_EQ(block_reduces(1, !latch, &seen), !latch) << "as the first block has seen it";
    EXPECT_EQ(seen, kThis + latch);
    for (uint64_t earlier : {uint64_t{0}, kEarlier, kEarlier + 1})
      EXPECT_EQ(block_reduces(1, latch, &earlier), !latch) << "by itself, where the first block does not come";
  }
}

// Runs the launch after six others, with nothing to reduce; returns its done word.
uint64_t done_word_after(proto::DeviceComm& comm, uint8_t tells_seldom) {
  comm.counters.done = 6;
  uint64_t done = 0;
  proto::Plan plan{};
  plan.comm = &comm;
  plan.done_word = &done;
  plan.tells_seldom = tells_seldom;
  test::run_grids(1, 2, 3, [&](int, const gpu::EmuBlock& block) { kernel<proto::Sum<float>>(block, plan); });
  EXPECT_EQ(comm.counters.done, 7u);
  return done;
}

TEST(LocalReduce, TellsSeldomWhereThePlanSaysSo) {
  proto::DeviceComm comm{};
  EXPECT_EQ(done_word_after(comm, 0), 7u);
  EXPECT_EQ(comm.counters.told_ns, 0u);
  const uint64_t begin = proto::now_ns();
  EXPECT_EQ(done_word_after(comm, 1), 7u) << "the last word is long ago";
  EXPECT_GE(comm.counters.told_ns, begin);
  for (int tries = 0; tries < 200; ++tries) {  // until a launch is fast enough
    const uint64_t told = comm.counters.told_ns = proto::now_ns();
    const uint64_t word = done_word_after(comm, 1);
    if (proto::now_ns() - told >= proto::kTellNs) continue;
    EXPECT_EQ(word, 0u);
    EXPECT_EQ(comm.counters.told_ns, told);
    break;
  }
  comm.counters.told_ns = proto::now_ns() - proto::kTellNs;
  EXPECT_EQ(done_word_after(comm, 1), 7u);
}

TEST(LocalReduce, StoresTheResultInSeveralPlaces) {
  constexpr uint64_t tile = proto::kLocalTile / sizeof(float);
  for (uint32_t n : {1u, 2u, 3u, 4u, 5u})
    for (uint8_t more : {1, 2})
      for (bool in_place : {false, true})
        for (size_t offset : {0u, 4u}) {
          LocalCase c = {n, n - 1, 2 * tile + 7, 2, 3, offset, 0, in_place};
          c.more = more;
          run<proto::Sum<float>>(c);
          c.given_up = n == 3;
          c.count = 501;
          run<proto::Maxloc<proto::DoubleInt>>(c);
        }
}

TEST(LocalReduce, LeavesPaddingAlone) {
  for (uint32_t n : {2u, 4u, 6u}) run<proto::Maxloc<proto::DoubleInt>>({n, n - 1, 501, 2, 3, 8, 0, n == 4});
}

}  // namespace
}  // namespace gpucoll
