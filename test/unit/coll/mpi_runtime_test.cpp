// What becomes of a runtime communicator where something fails. The other rank is a process.
#include "coll/runtime/mpi_runtime.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "base/params.h"
#include "coll/match/board_line.h"
#include "coll/request/request_launcher.h"
#include "gpucoll/gpucoll.h"

namespace gpucoll::coll {
namespace {

gc_process_blob g_blobs[2];
int g_line;  // to the other rank

class Rank {
 public:
  explicit Rank(int rank) : description_{7, rank, 2, 0, &calls_, nullptr, "a communicator"} {
    calls_.peer = [](void*, int r) -> const gc_process_blob* { return &g_blobs[r]; };
    calls_.process_name = [](void*, int r) { return static_cast<uint64_t>(r); };
    calls_.progress = [] {};
    EXPECT_TRUE(matcher_.entries().open());
    int failed;
    EXPECT_TRUE(matcher_.entries().find_peers(&failed));
  }

  MpiRuntime& runtime() { return runtime_; }
  // A sum of `count` elements, which all ranks have come to.
  void plan(uint64_t number, size_t count, DeviceCall* planned) {
    gc_call call = {};
    void* memory = nullptr;
    ASSERT_EQ(gpucollMalloc(&memory, count * sizeof(int)), gpucollSuccess);
    call.function = GC_FUNCTION_allreduce;
    call.root = -1;
    call.reduces = 1;
    call.type = gpucollInt32;
    call.op = gpucollSum;
    call.recv = {1, memory, count * sizeof(int), nullptr, nullptr, nullptr, nullptr};
    planned->place = {GC_ORDER_BLOCKING, number, GC_FUNCTION_allreduce};
    auto can = runtime_.plan(call, planned);
    ASSERT_TRUE(can && *can);
    const gc_board_line line = line_of(call, description_.rank, 2, *planned->part.device);
    matcher_.publish(planned->place, GC_KIND_DEVICE, line);
    int refused_by = -1;
    const auto all = matcher_.all_on_device(planned->place, nullptr, true, &refused_by);
    ASSERT_TRUE(all && *all);
    planned->lines.assign(2, line);
  }

 private:
  gc_host_calls calls_ = {};
  gc_comm_description description_;
  CallMatcher matcher_{description_};
  MpiRuntime runtime_{description_, matcher_, GC_MEETING_FIRST, std::make_shared<CauseLog>("a communicator")};
};

// Without descriptors, on both ranks. Another thread may look at what it has got until finish().
void lose_connections(int rank_number) {
  Rank rank(rank_number);
  DeviceCall small, large;
  rank.plan(1, 4, &small);
  rank.plan(2, 1 << 20, &large);
  const auto made = rank.runtime().prepare(small, nullptr);
  ASSERT_TRUE(made && *made);
  core::Communicator* const seen = rank.runtime().get();
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &limit);
  std::thread([&] { EXPECT_FALSE(rank.runtime().prepare(large, nullptr)); }).join();
  ASSERT_EQ(rank.runtime().get(), seen);
  EXPECT_TRUE(seen->fault().raised());
  core::Closing closing;
  rank.runtime().finish(closing);
  EXPECT_EQ(rank.runtime().get(), nullptr);
}

// What prepares a call that is given up is waited for, though the other rank is late.
void give_up(int rank_number) {
  Rank rank(rank_number);
  alignas(16) char owner[64] = {};  // which no call looks at here
  Request call(reinterpret_cast<RequestQueue&>(owner)), other(reinterpret_cast<RequestQueue&>(owner));
  RequestLauncher runner(rank.runtime());
  rank.plan(1, 4, &call.call);
  if (rank_number == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto readiness = runner.prepare(call);
  ASSERT_TRUE(readiness && *readiness == RequestLauncher::Readiness::waiting);
  runner.let_go(other);
  runner.let_go(call);
  EXPECT_NE(rank.runtime().get(), nullptr);
  core::Closing closing;
  rank.runtime().finish(closing);
}

// A rank that stops where all are to make the runtime: the host would wait for it for ever.
void miss_a_rank(int rank_number) {
  Rank rank(rank_number);
  DeviceCall call;
  rank.plan(1, 4, &call);
  char over = 1;
  if (rank_number == 1) {
    ASSERT_EQ(recv(g_line, &over, 1, MSG_WAITALL), 1);
    return;
  }
  ASSERT_TRUE(set_param("timeout", "1", "test").ok());
  const auto made = rank.runtime().prepare(call, nullptr);
  EXPECT_FALSE(made) << "all go through the host";
  EXPECT_NE(std::string(made.status().what()).find("rank 1 (process"), std::string::npos) << made.status().what();
  EXPECT_FALSE(rank.runtime().staging().for_all());
  ASSERT_EQ(send(g_line, &over, 1, MSG_NOSIGNAL), 1);
}

void exchange_blobs(int rank, int line) {
  ASSERT_TRUE(MpiProcess::instance().open(&g_blobs[rank]));
  ASSERT_EQ(send(line, &g_blobs[rank], sizeof g_blobs[rank], MSG_NOSIGNAL), ssize_t{sizeof g_blobs[rank]});
  ASSERT_EQ(recv(line, &g_blobs[1 - rank], sizeof g_blobs[rank], MSG_WAITALL), ssize_t{sizeof g_blobs[rank]});
}

void on_two_ranks(void (*run)(int rank)) {
  int line[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
  const pid_t child = fork();
  const int rank = child == 0;
  g_line = line[rank];
  exchange_blobs(rank, g_line);
  run(rank);
  std::fflush(stdout);
  if (child == 0) _exit(testing::Test::HasFailure());
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Each by a program of its own: a process has one board.
TEST(MpiRuntime, StaysWithItsFaultUntilFinish) { on_two_ranks(lose_connections); }
TEST(MpiRuntime, IsNotMadeBehindACallThatIsGone) { on_two_ranks(give_up); }
TEST(MpiRuntime, FailsWhereARankDoesNotCome) { on_two_ranks(miss_a_rank); }

}  // namespace
}  // namespace gpucoll::coll
