// Shows what the other processes see of this one.
#include "mpi/mpi_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "base/params.h"
#include "core/peer/heart.h"
#include "mpi/remote_boards.h"
#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/socket.h"

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

// Connects to a board that listens there: what a child ends with.
int connect_to_board(const proto::ListenAddress& at) {
  core::Heart::beat();
  if (!set_param("timeout", "12", "test")) return 2;  // a connection may take 3 s
  auto process = RemoteBoards::instance().process({{}, 4711, 0});
  if (!process) return 3;
  proto::NetworkAddress address = {};
  address.at = at;
  size_t failed = 0;
  const Status made = RemoteBoards::instance().connect(
      {{*process, address}}, [] {}, &failed);
  if (!made) std::fprintf(stderr, "%s\n", made.what());
  return made ? 0 : 4;
}

// A process that is stopped while it connects blames nobody for that time: others are not out of reach.
TEST(MpiProcess, ReachesABoardThoughItWasStopped) {
  net::Addresses at;
  const auto listeners = net::listen_on({net::parse_ip("127.0.0.1"), {}}, &at);
  ASSERT_TRUE(listeners.ok());
  ASSERT_TRUE(set_param("socket_ifname", "lo", "test").ok());
  const pid_t child = fork();
  if (child == 0) _exit(connect_to_board(net::to_format(at)));
  pollfd knock = {(*listeners)[0].get(), POLLIN, 0};
  ASSERT_EQ(poll(&knock, 1, 20'000), 1);
  const UniqueFd fd = net::accept_now((*listeners)[0].get());
  proto::BootstrapHello hello;
  ASSERT_TRUE(net::receive_all(fd.get(), &hello, sizeof hello, net::deadline_after(20)).ok());
  kill(child, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  kill(child, SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ASSERT_TRUE(net::send_all(fd.get(), &proto::kAdmitted, 1, net::deadline_after(20)).ok());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
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
