// Which calls are small: all that a queue moves counts.
#include "coll/request/request.h"

#include <gtest/gtest.h>

#include "mpi/staging/packing.h"

namespace gpucoll::coll {
namespace {

constexpr size_t kLarge = size_t{1} << 20;

struct PendingCallTest : testing::Test {
  alignas(16) char owner[64] = {};  // which no call looks at here
  Request call{reinterpret_cast<RequestQueue&>(owner)};
  core::TaskQueue& queue = call.call.part.queue;
  char from[16], to[16];  // only their addresses count
};

TEST_F(PendingCallTest, NothingIsSmall) { EXPECT_TRUE(call.is_small()); }

TEST_F(PendingCallTest, CopiesOfOneRankAloneCount) {
  add_copy(queue, &queue.spread, to, from, 8);
  EXPECT_TRUE(call.is_small());
  add_copy(queue, &queue.spread, to, from, kLarge);
  EXPECT_FALSE(call.is_small());
}

}  // namespace
}  // namespace gpucoll::coll
