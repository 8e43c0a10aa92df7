// When the ranks of a communicator came to a collective. The other rank is a process that takes its steps when told to.
#include "coll/match/call_matcher.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "coll/match/blocking_order.h"
#include "coll/match/board_bootstrap.h"
#include "mpi/remote_boards.h"
#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/socket.h"

namespace gpucoll::coll {
namespace {

constexpr CallId kCall = {GC_ORDER_BLOCKING, 1, GC_FUNCTION_allreduce};
constexpr CallId kCallOfSameLine = {GC_ORDER_BLOCKING, 1 + GC_BOARD_LINES, GC_FUNCTION_allreduce};
constexpr CallId kAfterThat = {GC_ORDER_BLOCKING, 1 + 2 * GC_BOARD_LINES, GC_FUNCTION_allreduce};

gc_process_blob g_blobs[2];

class Rank {
 public:
  explicit Rank(int rank) : description_{7, rank, 2, 0, &calls_, nullptr, "a communicator"}, matcher_(description_) {
    calls_.peer = [](void*, int r) -> const gc_process_blob* { return &g_blobs[r]; };
    calls_.process_name = [](void*, int r) { return static_cast<uint64_t>(r); };
    calls_.progress = [] {};
    EXPECT_TRUE(matcher_.entries().open());
    int failed;
    EXPECT_TRUE(matcher_.entries().find_peers(&failed));
  }
  CallMatcher& matcher() { return matcher_; }
  const gc_comm_description& description() const { return description_; }

 private:
  gc_host_calls calls_ = {};
  gc_comm_description description_;
  CallMatcher matcher_;
};

gc_board_line ready_line() {
  gc_board_line ready = {};
  ready.number = GC_NUMBER_COMING;
  return ready;
}

class NoCalls final : public ProgressClient {
 public:
  bool progress() override { return true; }
  bool progress_on_thread() override { return false; }
  uint64_t first_ready() const noexcept override { return 0; }
  uint64_t first_due() const noexcept override { return 0; }
  bool puts_behind(uint64_t) override { return true; }
};

// To the other process. Who waits for one that has ended ends, too.
class Line {
 public:
  Line() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0); }
  ~Line() { close(ends_[0]); }
  // Of each process, before anything else.
  void take(int side) {
    std::swap(ends_[0], ends_[side]);
    close(ends_[1]);
  }
  template <class T>
  void tell(const T& what) {
    if (send(ends_[0], &what, sizeof what, MSG_NOSIGNAL) != ssize_t{sizeof what}) end();
  }
  template <class T = char>
  T hear() {
    T what;
    if (recv(ends_[0], &what, sizeof what, MSG_WAITALL) != ssize_t{sizeof what}) end();
    return what;
  }

 private:
  [[noreturn]] static void end() {
    std::printf("the other process has ended\n");
    _exit(1);
  }
  int ends_[2];
};

[[noreturn]] void be_rank_1(Line& line) {
  line.take(1);
  if (!MpiProcess::instance().open(&g_blobs[1])) _exit(1);
  line.tell(g_blobs[1]);
  g_blobs[0] = line.hear<gc_process_blob>();
  Rank rank(1);
  line.hear();
  CallMatcher& matcher = rank.matcher();
  matcher.publish(kCall, GC_KIND_DEVICE, {});
  line.tell('x');
  line.hear();
  matcher.numbers().get_ready(kCall);
  line.tell('x');
  line.hear();
  line.tell(matcher.numbers().give_number(kCall));
  line.hear();
  matcher.publish(kCallOfSameLine, GC_KIND_DEVICE, ready_line());
  line.tell(matcher.numbers().give_number(kCallOfSameLine));
  line.hear();
  matcher.publish(kAfterThat, GC_KIND_DEVICE, ready_line());
  line.tell('x');
  line.hear();
  _exit(testing::Test::HasFailure());
}

// Makes the other process, and gives it this one's blob. REQUIRES: nothing was open in this process before.
void be_rank_0(Line& line, void (*be_other)(Line&), pid_t* child) {
  *child = fork();
  if (*child == 0) be_other(line);
  line.take(0);
  ASSERT_TRUE(MpiProcess::instance().open(&g_blobs[0]));
  line.tell(g_blobs[0]);
  g_blobs[1] = line.hear<gc_process_blob>();
}

// Ends once the other process has.
void expect_its_end(pid_t child) {
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// What has no number yet is put behind as long as a rank is not ready for it. Nobody takes another's number for that of
// all.
TEST(CallMatcher, ACallHasANumberOnceAllRanksHaveToldTheirs) {
  constexpr uint64_t kFar = 1000;
  Line line;
  pid_t child;
  ASSERT_NO_FATAL_FAILURE(be_rank_0(line, be_rank_1, &child));
  Rank rank(0);
  CallMatcher& matcher = rank.matcher();
  CallWait wait = {kCall, nullptr};
  int missing = -1;
  matcher.publish(kCall, GC_KIND_DEVICE, ready_line());
  const uint64_t mine = matcher.numbers().give_number(kCall);
  EXPECT_EQ(*matcher.look(wait), CallMatcher::Verdict::waiting);
  EXPECT_TRUE(matcher.numbers().puts_behind(kCall, mine));  // the other has not come

  line.tell('x');
  line.hear();
  EXPECT_EQ(*matcher.look(wait), CallMatcher::Verdict::device);
  EXPECT_EQ(matcher.numbers().number_of(kCall, &missing), 0u);
  EXPECT_EQ(missing, 1);
  EXPECT_TRUE(matcher.numbers().puts_behind(kCall, kFar));  // the other is not ready

  line.tell('x');
  line.hear();
  EXPECT_FALSE(matcher.numbers().puts_behind(kCall, kFar));
  EXPECT_FALSE(matcher.numbers().catches_up(&kCall));
  EXPECT_EQ(matcher.numbers().number_of(kCall, &missing), 0u);

  line.tell('x');
  const auto theirs = line.hear<uint64_t>();
  EXPECT_GT(theirs, kFar);
  EXPECT_EQ(matcher.numbers().number_of(kCall, &missing), theirs);
  EXPECT_TRUE(matcher.numbers().catches_up(&kCall));
  EXPECT_GT(MpiProcess::instance().board().take_number(), theirs);

  // Another thread asks between enter() and publish(): this rank's line still has the number of the call before.
  line.tell('x');
  line.hear<uint64_t>();
  wait = {kCallOfSameLine, nullptr};
  EXPECT_EQ(*matcher.look(wait), CallMatcher::Verdict::device);
  EXPECT_EQ(matcher.numbers().number_of(kCallOfSameLine, &missing), 0u);
  EXPECT_EQ(missing, 0);
  matcher.publish(kCallOfSameLine, GC_KIND_DEVICE, ready_line());
  EXPECT_EQ(matcher.numbers().number_of(kCallOfSameLine, &missing), 0u);
  const uint64_t last = matcher.numbers().give_number(kCallOfSameLine);
  EXPECT_EQ(matcher.numbers().number_of(kCallOfSameLine, &missing), last);

  // Another thread asks when this rank knows the number, but has not launched, and the other has gone on by 16 calls.
  NoCalls others;
  ProgressThread::instance().register_client(&others, &others, 1);
  BlockingOrder order(rank.description(), matcher);
  order.enter(kCallOfSameLine);
  ASSERT_TRUE(order.set_number(kCallOfSameLine, nullptr));
  line.tell('x');
  line.hear();
  EXPECT_TRUE(order.progress());
  EXPECT_TRUE(order.puts_behind(last + kFar));
  EXPECT_EQ(order.first_due(), last);
  order.leave();
  order.leave_thread();
  ProgressThread::instance().remove(&others);

  line.tell('x');
  expect_its_end(child);
}

[[noreturn]] void be_rank_1_that_finalizes(Line& line) {
  line.take(1);
  if (!MpiProcess::instance().open(&g_blobs[1])) _exit(1);
  line.tell(g_blobs[1]);
  g_blobs[0] = line.hear<gc_process_blob>();
  Rank rank(1);
  rank.matcher().publish(kCall, GC_KIND_DEVICE, {});
  line.tell('x');
  line.hear();
  MpiProcess::instance().board().end();
  line.tell('x');
  line.hear();
  _exit(testing::Test::HasFailure());
}

// A rank that dials others asks now and then: it has to remember whom it has seen to have ended.
TEST(BoardBootstrap, SaysThatARankWillNotCome) {
  Line line;
  pid_t child;
  ASSERT_NO_FATAL_FAILURE(be_rank_0(line, be_rank_1_that_finalizes, &child));
  Rank rank(0);
  line.hear();
  CallWait wait = {kCall, nullptr};
  ASSERT_EQ(*rank.matcher().look(wait), CallMatcher::Verdict::device);
  BoardBootstrap bootstrap(rank.description(), rank.matcher(), GC_MEETING_FIRST, kCall, nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bootstrap.look().ok());
  line.tell('x');
  line.hear();
  EXPECT_TRUE(bootstrap.look().ok()) << "it may have come before";
  const Status ended = bootstrap.look();
  EXPECT_EQ(ended.code(), Code::remote);
  EXPECT_NE(std::string(ended.what()).find("has called MPI_Finalize"), std::string::npos) << ended.what();
  line.tell('x');
  expect_its_end(child);
}

// ---- the other rank is on another node ----

// Returns whether the condition comes true: a message over the network takes a while.
template <class Condition>
bool eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::getenv("GC_MUTANT") ? 1 : 20);
  while (!condition())
    if (std::chrono::steady_clock::now() > end) return false;
  return true;
}

constexpr CallId call(uint64_t number) { return {GC_ORDER_BLOCKING, number, GC_FUNCTION_bcast}; }

[[noreturn]] void be_rank_1_far_away(Line& line) {
  line.take(1);
  if (!set_param("host_id", "elsewhere", "test") || !MpiProcess::instance().open(&g_blobs[1])) _exit(1);
  line.tell(g_blobs[1]);
  g_blobs[0] = line.hear<gc_process_blob>();
  {
    Rank rank(1);
    CallMatcher& matcher = rank.matcher();
    line.hear();  // as the component does it: nobody is told
    __atomic_store_n(&matcher.entries().own_lines(GC_ORDER_BLOCKING)[1].arrival,
                     gc_arrival(1, GC_FUNCTION_bcast, GC_KIND_HOST), __ATOMIC_RELEASE);
    line.hear();
    matcher.publish(call(2), GC_KIND_DEVICE, {.count = 77});
    line.hear();
    matcher.numbers().get_ready(call(2));
    line.tell('x');
    line.hear();
    line.tell(matcher.numbers().give_number(call(2)));
    line.hear();
    matcher.failures().fail(call(3), {}, Status::error(Code::internal, "it is a test"));
    line.hear();
  }
  line.hear();
  _exit(testing::Test::HasFailure());
}

[[noreturn]] void be_far_away(Line& line) {
  line.take(1);
  if (!set_param("host_id", "elsewhere", "test") || !MpiProcess::instance().open(&g_blobs[1])) _exit(1);
  line.tell(g_blobs[1]);
  line.hear<gc_process_blob>();
  line.hear();
  _exit(0);
}

// A process may be out of reach for a while.
TEST(RemoteBoards, WatchAgainAProcessThatTheyCouldNotReach) {
  Line line;
  pid_t child;
  ASSERT_NO_FATAL_FAILURE(be_rank_0(line, be_far_away, &child));
  ProcessInfo info;
  std::memcpy(&info, g_blobs[1].bytes, sizeof info);
  const ProcessId id = {info.node, info.pid, info.board.inode};
  proto::NetworkAddress closed = info.address;
  net::Addresses at;
  EXPECT_TRUE(net::listen_on({net::loopback_addresses().ipv4, {}}, &at).ok());  // and stops at once
  closed.at = net::to_format(at);
  const RemoteProcess* const process = RemoteBoards::instance().watch(id, closed);
  ASSERT_NE(process, nullptr);
  EXPECT_FALSE(process->has_channel());
  EXPECT_TRUE(process->alive());
  EXPECT_TRUE(eventually([&] { return RemoteBoards::instance().watch(id, info.address)->has_channel(); }));
  EXPECT_TRUE(process->alive());
  line.tell('x');
  expect_its_end(child);
  EXPECT_TRUE(eventually([&] { return !process->alive(); }));
}

TEST(CallMatcher, ARankOfAnotherNodeIsSeenAsOneOfThisNode) {
  constexpr uint64_t kFar = 1000;
  Line line;
  pid_t child;
  ASSERT_NO_FATAL_FAILURE(be_rank_0(line, be_rank_1_far_away, &child));
  Rank rank(0);
  CallMatcher& matcher = rank.matcher();
  const auto verdict_of = [&](uint64_t number) {
    CallWait wait = {call(number), nullptr};
    auto verdict = matcher.look(wait);
    return verdict ? *verdict : CallMatcher::Verdict::refused;
  };
  const auto publish = [&](uint64_t number) {
    matcher.publish(call(number), GC_KIND_DEVICE, ready_line());
    matcher.numbers().give_number(call(number));
  };

  publish(1);
  EXPECT_TRUE(eventually([&] { return matcher.numbers().puts_behind(call(1), kFar); }));  // the other has not come
  EXPECT_EQ(verdict_of(1), CallMatcher::Verdict::waiting);
  line.tell('x');
  EXPECT_TRUE(eventually([&] { return verdict_of(1) == CallMatcher::Verdict::host; }));

  publish(2);
  line.tell('x');
  EXPECT_TRUE(eventually([&] { return verdict_of(2) == CallMatcher::Verdict::device; }));
  std::vector<gc_board_line> lines;
  matcher.read_lines(call(2), &lines);
  EXPECT_EQ(lines[1].count, 77u);
  int missing = -1;
  EXPECT_EQ(matcher.numbers().number_of(call(2), &missing), 0u);
  EXPECT_TRUE(eventually([&] { return matcher.numbers().puts_behind(call(2), 2 * kFar); }));  // the other is not ready

  line.tell('x');
  line.hear();
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(matcher.numbers().puts_behind(call(2), 3 * kFar));  // it is
    usleep(1000);
  }
  line.tell('x');
  const auto theirs = line.hear<uint64_t>();
  EXPECT_GT(theirs, 2 * kFar);
  EXPECT_TRUE(eventually([&] { return matcher.numbers().number_of(call(2), &missing) == theirs; }));
  EXPECT_TRUE(eventually([&] { return matcher.numbers().catches_up(nullptr); }));
  EXPECT_GT(MpiProcess::instance().board().take_number(), theirs);

  line.tell('x');
  EXPECT_TRUE(eventually([&] { return !matcher.failures().usable(1); }));
  EXPECT_NE(std::string(matcher.failures().usable(1).what()).find("it is a test"), std::string::npos);
  line.tell('x');
  EXPECT_TRUE(eventually([&] { return matcher.entries().has_left(1); }));
  EXPECT_TRUE(matcher.entries().alive(1));
  line.tell('x');
  expect_its_end(child);
  EXPECT_TRUE(eventually([&] { return !matcher.entries().alive(1); }));
}

}  // namespace
}  // namespace gpucoll::coll
