// A local reduction, run and compared bit for bit with a plain loop in the order of ranks.
#pragma once
#include "kernels/local_reduce.h"
#include "plan_runner.h"

namespace gpucoll::test {

struct LocalCase {
  uint32_t n_ranks, rank;
  uint64_t count;
  int blocks = 1, threads = 1;
  size_t own_offset = 0, others_offset = 0;  // bytes from a multiple of 16
  bool in_place = false;
  proto::Reduction reduction = {};
  bool waited = true, given_up = false;   // whether the latch matters, and is set
  uint8_t more = 0;                       // results beside the first
  bool reduced = false, partial = false;  // the first operand is a result already; others are to come
};

// The operands and their result, as bytes: all that must be compiled for each reduction.
class LocalValues {
 public:
  virtual ~LocalValues() = default;
  virtual size_t element_bytes() const = 0;
  virtual void write_operand(uint32_t rank, uint8_t* at) const = 0;
  virtual void write_result(uint8_t* at) const = 0;
};

template <class Red>
class LocalValuesOf : public LocalValues {
  using T = typename Red::Element;

 public:
  explicit LocalValuesOf(const LocalCase& c)
      : reduction_(c.reduction), reduced_(c.reduced), partial_(c.partial), values_(c.n_ranks, std::vector<T>(c.count)) {
    std::mt19937_64 random(c.count + c.n_ranks * 100 + c.rank);
    for (auto& of_rank : values_)
      for (T& value : of_rank) draw(value, random);
  }
  size_t element_bytes() const override { return sizeof(T); }
  void write_operand(uint32_t rank, uint8_t* at) const override { fill(at, values_[rank]); }
  void write_result(uint8_t* at) const override {
    std::vector<T> result(values_[0].size());
    for (size_t i = 0; i < result.size(); ++i) {
      const auto operand = [&](size_t r) {
        if constexpr (!proto::kHasPre<Red>) return values_[r][i];
        if constexpr (proto::kHasPre<Red>)
          return r == 0 && reduced_ ? values_[r][i] : Red::pre(values_[r][i], reduction_);
      };
      result[i] = operand(0);
      for (size_t r = 1; r < values_.size(); ++r) result[i] = Red::apply(result[i], operand(r));
      if constexpr (proto::kHasPost<Red>)
        if (!partial_) result[i] = Red::post(result[i], reduction_);
    }
    fill(at, result);
  }

 private:
  const proto::Reduction reduction_;
  const bool reduced_, partial_;
  std::vector<std::vector<T>> values_;
};

inline void run_local_case(void (*kernel)(const gpu::EmuBlock&, const proto::Plan&), const LocalCase& c,
                           const LocalValues& values) {
  SCOPED_TRACE(testing::Message() << c.count << " elements, rank " << c.rank << " of " << c.n_ranks << ", " << c.blocks
                                  << " x " << c.threads << " threads, offsets " << c.own_offset << " "
                                  << c.others_offset << (c.in_place ? ", in place" : ""));
  const size_t bytes = c.count * values.element_bytes(), stride = (bytes + 16 + 127) / 128 * 128;
  Buffer own(bytes, c.own_offset), others((c.n_ranks - 1) * stride, c.others_offset), result(bytes, c.own_offset);
  for (uint32_t r = 0; r < c.n_ranks; ++r)
    values.write_operand(r, r == c.rank ? own.data() : others.data() + (r < c.rank ? r : r - 1) * stride);
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
                                  c.reduced,
                                  c.partial,
                                  {},
                                  {more[0].data(), more[1].data()}};
  run_grids(1, c.blocks, c.threads, [&](int, const gpu::EmuBlock& block) { kernel(block, plan); });
  Buffer want(bytes, c.own_offset), untouched(bytes);
  if (c.waited && c.given_up)
    std::memcpy(want.data(), before.data(), bytes);
  else
    values.write_result(want.data());
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
    values.write_operand(c.rank, want.data());
    EXPECT_EQ(std::memcmp(own.data(), want.data(), bytes), 0) << "wrote into the input";
  }
  EXPECT_EQ(done, 7u);
  EXPECT_EQ(comm.blocks_done, 0u);
}
template <class Red>
void run_local_case(void (*kernel)(const gpu::EmuBlock&, const proto::Plan&), const LocalCase& c) {
  run_local_case(kernel, c, LocalValuesOf<Red>(c));
}

}  // namespace gpucoll::test
