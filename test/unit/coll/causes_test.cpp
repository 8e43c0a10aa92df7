// Causes of slow calls that no MPI program can bring about here, as it would need too much memory, too many ranks, or a
// build without some kernels. test/mpi/causes.cpp has the others.
#include "base/observe/causes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "coll/match/component.h"
#include "gpucoll/gpucoll.h"
#include "mpi/datatype/type_layout.h"
#include "task/collective_task.h"

namespace gpucoll::coll {
namespace {

TEST(Causes, ATypeMayHaveTooManyRuns) {
  gc_type_map map = {};
  map.n_runs = size_t{std::numeric_limits<uint32_t>::max()} / 2 + 1;
  const auto layout = layout_of(map);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.status().cause(Cause::unsuitable), Cause::type_of_many_runs) << layout.status().what();
}

TEST(Causes, ACommunicatorMayBeTooLargeForItsNeighbors) {
  const gc_comm_description description = {1, 0, GC_BOARD_NEIGHBORS + 1, 0, nullptr, nullptr, "a communicator", 0};
  const BoardEntries entries(description);
  Component component;
  const Status told = tell_neighbors(entries, {}, &component);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.cause(Cause::unsuitable), Cause::many_neighbors) << told.what();
}

// What has no meaning in any build is an error of the program.
TEST(Causes, ABuildMayHaveNoKernelForATypeAndOperation) {
  const Status missing = no_kernel("the op sum", gpucollFloat32, proto::RedOp::sum);
  EXPECT_EQ(missing.code(), Code::unsupported);
  EXPECT_EQ(missing.cause(Cause::unsuitable), Cause::kernel_left_out) << missing.what();
  const Status senseless = no_kernel("the op band", gpucollFloat32, proto::RedOp::band);
  EXPECT_EQ(senseless.code(), Code::invalid_argument);
  EXPECT_EQ(senseless.cause(Cause::none), Cause::none) << senseless.what();
}

}  // namespace
}  // namespace gpucoll::coll
