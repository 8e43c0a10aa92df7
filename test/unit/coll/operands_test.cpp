// A reduction between groups as one rank's tasks: whose operands land where, and in which order they are reduced.
#include "coll/call/operands.h"

#include <gtest/gtest.h>

#include <vector>

#include "gpucoll/gpucoll.h"
#include "mpi/staging/packing.h"

namespace gpucoll::coll {
namespace {

gpu::Device& device() { return **gpu::emu_platform().open(0); }

// Of int32, by rank 2 of 5, whose own group are ranks 2 to 4.
class Operands : public testing::Test {
 protected:
  Operands() {
    call_.root = -1;
    call_.reduces = call_.combines = 1;
    call_.type = gpucollInt32;
    call_.op = gpucollSum;
    call_.sources = call_.destinations = ranks_.data();
    call_.n_sources = call_.n_destinations = 2;
  }
  ~Operands() override {
    for (void* memory : memory_) device().user_release(memory).ignore();
  }
  gc_buffer buffer(size_t elements) {
    memory_.push_back(*device().user_allocate(elements * 4));
    gc_buffer made = {};
    made.given = 1;
    made.address = memory_.back();
    made.bytes = elements * 4;
    return made;
  }
  // Elements of the buffers and of each operand.
  void describe(uint32_t function, size_t send, size_t recv, size_t operand) {
    call_.function = function;
    call_.send = buffer(send);
    call_.recv = buffer(recv);
    call_.operand_elements = operand;
  }
  Status add() { return add_operands(call_, {2, 5, device(), false, false, scratch_, queue_}); }
  static const uint8_t* at(const gc_buffer& buffer, size_t element = 0) {
    return static_cast<const uint8_t*>(device().kernel_address(buffer.address)) + 4 * element;
  }

  const std::vector<int> ranks_ = {0, 1};
  gc_call call_ = {};
  Scratch scratch_;
  core::TaskQueue queue_;
  std::vector<void*> memory_;
};

TEST_F(Operands, AreReducedInTheOrderOfTheirRanks) {
  describe(GC_FUNCTION_reduce_scatter, 12, 4, 12);
  call_.first_element = 5;
  const Status added = add();
  ASSERT_TRUE(added.ok()) << added.what();
  ASSERT_EQ(queue_.sends.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(queue_.sends[static_cast<size_t>(i)].peer, i);
    EXPECT_EQ(queue_.sends[static_cast<size_t>(i)].buffer, at(call_.send));
    EXPECT_EQ(queue_.sends[static_cast<size_t>(i)].bytes, 48u);
  }
  ASSERT_EQ(queue_.recvs.size(), 2u);
  EXPECT_EQ(queue_.recvs[0].peer, 0);
  EXPECT_EQ(queue_.recvs[1].peer, 1);
  EXPECT_EQ(queue_.recvs[0].bytes, 48u);
  const auto* const first = static_cast<const uint8_t*>(queue_.recvs[0].buffer);
  const auto* const second = static_cast<const uint8_t*>(queue_.recvs[1].buffer);
  EXPECT_GE(second, first + 48);
  ASSERT_EQ(queue_.late_reductions.size(), 1u);
  const proto::LocalReduction& made = queue_.late_reductions[0].reduction;
  EXPECT_EQ(made.rank, 0u);
  EXPECT_EQ(made.n_ranks, 2u);
  EXPECT_EQ(made.own, first + 20);
  EXPECT_EQ(made.others, second + 20);
  EXPECT_EQ(made.result, at(call_.recv));
  EXPECT_EQ(made.count, 4u);
}

TEST_F(Operands, GoInPartsWhereEachRankWantsOne) {
  describe(GC_FUNCTION_reduce_scatter_block, 12, 4, 4);
  const Status added = add();
  ASSERT_TRUE(added.ok()) << added.what();
  ASSERT_EQ(queue_.sends.size(), 2u);
  EXPECT_EQ(queue_.sends[1].buffer, at(call_.send, 6));
  EXPECT_EQ(queue_.sends[1].bytes, 24u);
  EXPECT_EQ(queue_.recvs[1].bytes, 16u);
}

// The only operand is the result: nothing adds it to itself.
TEST_F(Operands, OfOneRankAreTheResult) {
  describe(GC_FUNCTION_allreduce, 6, 6, 6);
  call_.n_sources = 1;
  const Status added = add();
  ASSERT_TRUE(added.ok()) << added.what();
  ASSERT_EQ(queue_.recvs.size(), 1u);
  EXPECT_EQ(queue_.recvs[0].buffer, at(call_.recv));
  EXPECT_TRUE(queue_.late_reductions.empty() && queue_.after.empty());

  queue_.clear();
  call_.function = GC_FUNCTION_reduce_scatter;
  call_.operand_elements = 9;
  call_.first_element = 3;
  const Status again = add();
  ASSERT_TRUE(again.ok()) << again.what();
  EXPECT_TRUE(queue_.late_reductions.empty());
  ASSERT_EQ(queue_.after.size(), 1u);
  EXPECT_EQ(queue_.after[0].bytes, 24u);
}

TEST_F(Operands, OfNobodyAreNotThere) {
  call_.function = GC_FUNCTION_reduce;
  call_.n_sources = call_.n_destinations = 0;
  call_.reduces = 0;
  const Status added = add();
  ASSERT_TRUE(added.ok()) << added.what();
  EXPECT_TRUE(queue_.sends.empty() && queue_.recvs.empty() && queue_.late_reductions.empty());
}

}  // namespace
}  // namespace gpucoll::coll
