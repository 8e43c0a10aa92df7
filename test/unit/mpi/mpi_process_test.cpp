// Shows what the other processes see of this one.
#include "mpi/mpi_process.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gpucoll::coll {
namespace {

core::Board board_in(const gc_process_blob& blob) {
  ProcessInfo info;
  std::memcpy(&info, blob.bytes, sizeof info);
  auto board = core::Board::open(info.board);
  EXPECT_TRUE(board.ok());
  return *std::move(board);
}

// As where a session of MPI begins after another one, or after MPI_Finalize.
TEST(MpiProcess, EntersCollectivesAgain) {
  MpiProcess& process = MpiProcess::instance();
  gc_process_blob first, second;
  ASSERT_TRUE(process.open(&first).ok());
  const core::Board seen = board_in(first);
  EXPECT_FALSE(seen.has_ended());
  process.end();
  EXPECT_TRUE(seen.has_ended());
  ASSERT_TRUE(process.open(&second).ok());
  EXPECT_FALSE(seen.has_ended());
  EXPECT_EQ(std::memcmp(&first, &second, sizeof first), 0);  // the same board
  process.end();
  EXPECT_TRUE(seen.has_ended());
}

}  // namespace
}  // namespace gpucoll::coll
