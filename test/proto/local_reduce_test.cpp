// The kernel of local reductions: any number of ranks, blocks and threads, at all alignments, over several tiles.
#include "local_reduce_case.h"

namespace gpucoll {
namespace {

using test::LocalCase;

template <class Red>
void kernel(const gpu::EmuBlock& block, const proto::Plan& plan) {
  coll::device::run_local_reduce<proto::Family<Red>>(gpu::emu::Crew(block), static_cast<uint32_t>(block.block),
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
