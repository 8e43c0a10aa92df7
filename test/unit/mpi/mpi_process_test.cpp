// Shows what the other processes see of this one.
#include "mpi/mpi_process.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

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

// Changes what a process tells of itself, and returns what this one says of that.
template <class Change>
std::string said_of(const gc_process_blob& blob, const Change& change) {
  ProcessInfo info;
  std::memcpy(&info, blob.bytes, sizeof info);
  change(&info);
  gc_process_blob changed = blob;
  std::memcpy(changed.bytes, &info, sizeof info);
  const auto peer = MpiProcess::instance().peer(&changed, 0);
  return peer ? "" : peer.status().what();
}

TEST(MpiProcess, NamesBothVersionsWhereTheyDiffer) {
  constexpr char kOther[] = "97.3.1-of-2097-x";  // as long as it may be
  gc_process_blob mine;
  ASSERT_TRUE(MpiProcess::instance().open(&mine).ok());
  ProcessInfo info;
  std::memcpy(&info, mine.bytes, sizeof info);
  const std::string version(info.version, strnlen(info.version, sizeof info.version));
  EXPECT_EQ(said_of(mine, [](ProcessInfo*) {}), "");
  EXPECT_EQ(said_of(mine, [&](ProcessInfo* its) { std::memcpy(its->version, kOther, sizeof its->version); }),
            std::string("runs gpucoll ") + kOther + ", and this process gpucoll " + version +
                ": install one version everywhere");
  // As the component gives for an entry of another size.
  EXPECT_EQ(said_of(mine, [](ProcessInfo* its) { *its = {}; }),
            "runs another version of gpucoll than " + version + ": install one everywhere");
  MpiProcess::instance().end();
}

}  // namespace
}  // namespace gpucoll::coll
