// A local reduction, run and compared bit for bit with a plain loop in the order of ranks.
#pragma once
#include "coll/device/local_reduce.h"
#include "plan_runner.h"

namespace gpucoll::test {

struct LocalCase {
  uint32_t n_ranks, rank;
  uint64_t count;
  int blocks = 1, threads = 1;
  size_t own_offset = 0, others_offset = 0;  // bytes from a multiple of 16
  bool in_place = false;
  proto::Reduction reduction = {};
  bool waited = true, given_up = false;  // whether the latch matters, and is set
  uint8_t more = 0;                      // results beside the first
};

template <class Red>
std::vector<typename Red::Element> in_order_of_ranks(const std::vector<std::vector<typename Red::Element>>& values,
                                                     const proto::Reduction& reduction) {
  std::vector<typename Red::Element> result = values[0];
  for (size_t i = 0; i < result.size(); ++i) {
    for (size_t r = 1; r < values.size(); ++r) result[i] = Red::apply(result[i], values[r][i]);
    if constexpr (proto::kHasPost<Red>) result[i] = Red::post(result[i], reduction);
  }
  return result;
}

template <class Red>
void run_local_case(void (*kernel)(const gpu::EmuBlock&, const proto::Plan&), const LocalCase& c) {
  using T = typename Red::Element;
  SCOPED_TRACE(testing::Message() << c.count << " elements, rank " << c.rank << " of " << c.n_ranks << ", " << c.blocks
                                  << " x " << c.threads << " threads, offsets " << c.own_offset << " "
                                  << c.others_offset << (c.in_place ? ", in place" : ""));
  const size_t bytes = c.count * sizeof(T), stride = (bytes + 16 + 127) / 128 * 128;
  std::mt19937_64 random(c.count + c.n_ranks * 100 + c.rank);
  std::vector<std::vector<T>> values(c.n_ranks, std::vector<T>(c.count));
  Buffer own(bytes, c.own_offset), others((c.n_ranks - 1) * stride, c.others_offset), result(bytes, c.own_offset);
  for (uint32_t r = 0; r < c.n_ranks; ++r) {
    for (T& value : values[r]) draw(value, random);
    fill(r == c.rank ? own.data() : others.data() + (r < c.rank ? r : r - 1) * stride, values[r]);
  }
  std::vector<Buffer> more;
  for (int i = 0; i < proto::kMoreResults; ++i) more.emplace_back(bytes, c.own_offset);
  Buffer& to = c.in_place ? own : result;
  const std::vector<uint8_t> before(to.data(), to.data() + bytes);
  proto::FaultLatch latch{};
  latch.abort = c.given_up;
  proto::DeviceComm comm{};
  comm.channel[0].latch = &latch;
  uint64_t done = 0;
  comm.counters.done = 6;
  proto::Plan plan{};
  plan.comm = &comm;
  plan.done_word = &done;
  proto::local_reduction(plan) = {own.data(),
                                  others.data(),
                                  to.data(),
                                  stride,
                                  c.count,
                                  c.reduction.argument,
                                  c.rank,
                                  c.n_ranks,
                                  c.reduction.op,
                                  c.waited,
                                  c.more,
                                  {},
                                  {more[0].data(), more[1].data()}};
  run_grids(1, c.blocks, c.threads, [&](int, const gpu::EmuBlock& block) { kernel(block, plan); });
  Buffer want(bytes, c.own_offset), untouched(bytes);
  if (c.waited && c.given_up)
    std::memcpy(want.data(), before.data(), bytes);
  else
    fill(want.data(), in_order_of_ranks<Red>(values, c.reduction));
  EXPECT_EQ(std::memcmp(to.data(), want.data(), bytes), 0) << "the result differs";
  for (int i = 0; i < proto::kMoreResults; ++i) {
    Buffer& other = more[static_cast<size_t>(i)];
    const bool stored = i < c.more && !(c.waited && c.given_up);
    EXPECT_EQ(std::memcmp(other.data(), stored ? want.data() : untouched.data(), bytes), 0)
        << "result " << i << " beside the first";
    EXPECT_TRUE(other.same_around());
  }
  EXPECT_TRUE(own.same_around() && result.same_around() && others.same_around());
  if (!c.in_place) {
    fill(want.data(), values[c.rank]);
    EXPECT_EQ(std::memcmp(own.data(), want.data(), bytes), 0) << "wrote into the input";
  }
  EXPECT_EQ(done, 7u);
  EXPECT_EQ(comm.blocks_done, 0u);
}

}  // namespace gpucoll::test
