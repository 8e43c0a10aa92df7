// The socket bootstrap: allgathers of any size of group, and ranks that contradict each other.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../resources.h"
#include "base/params.h"
#include "net/bootstrap/door.h"
#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/rendezvous.h"
#include "net/bootstrap/socket.h"
#include "net/bootstrap/socket_bootstrap.h"
#include "silent_port.h"

using namespace gpucoll;
using namespace gpucoll::net;

namespace {

Address root_of(const proto::UniqueId& id) { return from_format(id.root.at).ipv4; }

// Listens at an address of IPv4 of this host alone.
Result<std::vector<UniqueFd>> listen_at(const char* ip, Addresses* at) { return listen_on({parse_ip(ip), {}}, at); }

// Runs body(rank) in a thread for each rank.
template <class Body>
void on_ranks(int n, Body body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) threads.emplace_back([=] { body(r); });
  for (auto& t : threads) t.join();
}

}  // namespace

class SocketBootstrapTest : public testing::TestWithParam<int> {};

TEST_P(SocketBootstrapTest, GathersFromAllRanks) {
  int n = GetParam();
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(n, [&](int rank) {
    auto bootstrap = SocketBootstrap::create(*id, rank, n, 20);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
    for (size_t words : {1, 3, 5000}) {
      std::vector<uint32_t> mine(words), all(words * static_cast<size_t>(n));
      for (size_t i = 0; i < words; ++i) mine[i] = static_cast<uint32_t>(rank) * 1000003u + static_cast<uint32_t>(i);
      ASSERT_TRUE((*bootstrap)->allgather(mine.data(), all.data(), words * 4).ok());
      for (size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i], static_cast<uint32_t>(i / words) * 1000003u + static_cast<uint32_t>(i % words));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Sizes, SocketBootstrapTest, testing::Values(1, 2, 3, 4, 5, 7, 8, 13));

TEST(SocketBootstrap, MeetsOverTheInterfaceThatIsNamed) {
  ASSERT_TRUE(set_param("socket_ifname", "lo", "test").ok());
  auto on_loopback = make_unique_id();
  ASSERT_TRUE(on_loopback.ok()) << on_loopback.status().what();
  const std::string address = to_string(root_of(*on_loopback));
  EXPECT_EQ(address.rfind("127.0.0.1:", 0), 0u) << address;
  ASSERT_TRUE(set_param("socket_ifname", "no_such_one", "test").ok());
  auto id = make_unique_id();
  ASSERT_FALSE(id.ok());
  EXPECT_NE(std::string(id.status().what()).find("'no_such_one' fits no network interface"), std::string::npos)
      << id.status().what();
  ASSERT_TRUE(set_param("socket_ifname", "", "test").ok());
  EXPECT_TRUE(make_unique_id().ok());
}

TEST(SocketBootstrap, RefusesTwoOfTheSameRank) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(2, [&](int) {
    auto bootstrap = SocketBootstrap::create(*id, 0, 2, 20);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::invalid_usage);
    EXPECT_NE(std::string(bootstrap.status().what()).find("rank 0"), std::string::npos);
  });
}

TEST(SocketBootstrap, RefusesMoreRanksThanThereCanBe) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  auto bootstrap = SocketBootstrap::create(*id, 1, 2'000'000'000, 20);
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.status().code(), Code::invalid_argument);
  EXPECT_NE(std::string(bootstrap.status().what()).find("at most"), std::string::npos);
}

TEST(SocketBootstrap, RefusesDifferingSizes) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(2, [&](int rank) {
    auto bootstrap = SocketBootstrap::create(*id, rank, 2 + rank, 20);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::invalid_usage);
  });
}

TEST(SocketBootstrap, GivesUpWhenARankDoesNotCome) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(2, [&](int rank) {  // of 13; the less patient of the two speaks for both
    auto bootstrap = SocketBootstrap::create(*id, rank, 13, rank == 0 ? 1 : 60);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::timed_out);
    const std::string told = bootstrap.status().what();
    EXPECT_NE(told.find("ranks 2, 3, 4, 5, 6, 7, 8, 9 and 3 more of 13 did not come"), std::string::npos) << told;
    EXPECT_NE(told.find("within 1 s"), std::string::npos) << told;
  });
}

TEST(SocketBootstrap, RefusesAnIdThatWasUsed) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  for (bool again : {false, true}) {
    auto bootstrap = SocketBootstrap::create(*id, 0, 1, 20);
    ASSERT_EQ(bootstrap.ok(), !again);
    if (!again) continue;
    EXPECT_EQ(bootstrap.status().code(), Code::remote);
    EXPECT_NE(std::string(bootstrap.status().what()).find("used before"), std::string::npos)
        << bootstrap.status().what();
  }
}

// As a rendezvous that is over does to those who came before its port was closed.
TEST(SocketBootstrap, AsksWhetherTheIdWasUsedWhenItsMakerHangsUp) {
  Addresses own;
  auto listeners = listen_at("127.0.0.1", &own);
  ASSERT_TRUE(listeners.ok());
  UniqueFd& listener = listeners->front();
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  id->root = {to_format(own), getpid(), "node5"};
  std::thread maker([&] {
    PollSet set;
    set.add(listener.get(), POLLIN);
    EXPECT_TRUE(set.wait(deadline_after(20)).ok());
    EXPECT_TRUE(accept_now(listener.get()));
    listener = UniqueFd();
  });
  auto bootstrap = SocketBootstrap::create(*id, 0, 1, 20);
  maker.join();
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.status().code(), Code::remote);
  const std::string said = bootstrap.status().what();
  EXPECT_NE(said.find("used before"), std::string::npos) << said;
  EXPECT_EQ(said.find("process " + std::to_string(getpid()) + " on host node5, which made the unique id, does not"), 0u)
      << said;
}

TEST(SocketBootstrap, RefusesAnIdThatIsNone) {
  proto::UniqueId id = {};
  auto bootstrap = SocketBootstrap::create(id, 0, 1, 1);
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.status().code(), Code::invalid_argument);
}

TEST(SocketBootstrap, RefusesAnIdOfAnotherVersion) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  id->magic -= 1;
  auto bootstrap = SocketBootstrap::create(*id, 0, 1, 1);
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.status().code(), Code::invalid_argument);
  EXPECT_NE(std::string(bootstrap.status().what()).find("another version of gpucoll"), std::string::npos)
      << bootstrap.status().what();
}

TEST(SocketBootstrap, SurvivesAStranger) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  Address root = root_of(*id);
  auto stranger = connect_to(root, deadline_after(5));
  ASSERT_TRUE(stranger.ok());
  char noise[40] = "GET / HTTP/1.1";
  ASSERT_TRUE(send_all(stranger->get(), noise, sizeof noise, deadline_after(5)).ok());
  on_ranks(2, [&](int rank) {
    auto bootstrap = SocketBootstrap::create(*id, rank, 2, 20);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
  });
}

// A rank that goes away, before or after all have met, is noticed at once: not only at the end of the timeout.
TEST(SocketBootstrap, NoticesARankThatLeavesTheRendezvous) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  auto start = std::chrono::steady_clock::now();
  on_ranks(2, [&](int rank) {  // of 3
    if (rank == 1) {
      auto bootstrap = SocketBootstrap::create(*id, rank, 3, 60);
      ASSERT_FALSE(bootstrap);
      EXPECT_EQ(bootstrap.status().code(), Code::remote);
      EXPECT_NE(std::string(bootstrap.status().what()).find("rank 0 (process 4711 at "), std::string::npos)
          << bootstrap.status().what();
    } else {
      auto root = connect_to(root_of(*id), deadline_after(5));
      ASSERT_TRUE(root.ok());
      const proto::BootstrapHello hello = {proto::kBootstrapMagic, id->nonce, 0, 3, -1, 60, 0, 4711, 0};
      ASSERT_TRUE(send_all(root->get(), &hello, sizeof hello, deadline_after(5)).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(SocketBootstrap, NoticesARankThatLeavesBeforeAnAllgather) {
  for (auto [n, late] : {std::pair(2, false), {3, false}, {4, false}, {7, false}, {7, true}}) {
    // late: those that wait for no connection of rank 0 have sent to it by then, and wait for others.
    auto id = make_unique_id();
    ASSERT_TRUE(id.ok());
    auto start = std::chrono::steady_clock::now();
    on_ranks(n, [&](int rank) {
      auto bootstrap = SocketBootstrap::create(*id, rank, n, 15);
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
      if (rank == 0 && late) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (rank == 0) return;
      std::vector<int> all(static_cast<size_t>(n));
      Status status = (*bootstrap)->allgather(&rank, all.data(), sizeof rank);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.code(), Code::remote) << status.what();
      EXPECT_NE(std::string(status.what()).find("rank 0"), std::string::npos) << status.what();
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << n;
  }
}

// A rank that waits for something else learns by look() what an allgather would have ended with.
TEST(SocketBootstrap, TellsARankThatWaitsForSomethingElse) {
  constexpr int kRanks = 5;
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  std::atomic<int> gathered{0};
  on_ranks(kRanks, [&](int rank) {
    auto bootstrap = SocketBootstrap::create(*id, rank, kRanks, 20);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
    std::vector<int> all(kRanks);
    ASSERT_TRUE((*bootstrap)->allgather(&rank, all.data(), sizeof rank).ok());
    EXPECT_TRUE((*bootstrap)->look().ok());
    for (++gathered; gathered < kRanks;) std::this_thread::yield();
    if (rank == 2) return (*bootstrap)->give_up(Status::error(Code::system, "rank 2 has no memory left"));
    Status status;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((status = (*bootstrap)->look()) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(std::string(status.what()), "rank 2 has no memory left");
  });
}

TEST(SocketBootstrap, AsksItsWatchForARankThatWaitsForSomethingElse) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  std::atomic<bool> aborted{false};
  std::atomic<int> gathered{0};
  on_ranks(2, [&](int rank) {
    const auto watch = [&] { return aborted ? Status::error(Code::aborted, "it was aborted") : Status(); };
    auto bootstrap = SocketBootstrap::create(*id, rank, 2, 20, rank == 0 ? watch : SocketBootstrap::Watch());
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
    int all[2];
    ASSERT_TRUE((*bootstrap)->allgather(&rank, all, sizeof rank).ok());
    for (++gathered; gathered < 2;) std::this_thread::yield();
    if (rank == 0) {
      EXPECT_TRUE((*bootstrap)->look().ok());
      aborted = true;
      EXPECT_EQ((*bootstrap)->look().code(), Code::aborted);
    }
    EXPECT_NE(std::string((*bootstrap)->allgather(&rank, all, sizeof rank).what()).find("it was aborted"),
              std::string::npos);
  });
}

// A rank of two that a test plays by hand.
class PlayedRank {
 public:
  // Comes to the rendezvous as rank 1.
  explicit PlayedRank(const proto::UniqueId& id) : id_(id) {
    auto root = connect_to(root_of(id), in_time());
    EXPECT_TRUE(root.ok());
    root_ = *std::move(root);
    say_hello(root_, -1);
  }
  // Says that it listens there, and learns where rank 0 does.
  void listen_at(const Address& address) {
    proto::BootstrapWord word;
    hear(root_, &word, sizeof word);
    EXPECT_EQ(word.kind, proto::WordKind::kAllCome);
    word = {};
    word.kind = proto::WordKind::kReady;
    word.listener = {to_format({address, {}}), 4711, "node7"};
    EXPECT_TRUE(send_all(root_.get(), &word, sizeof word, in_time()).ok());
    hear(root_, &word, sizeof word);
    EXPECT_EQ(word.kind, proto::WordKind::kAddresses);
    hear(root_, addresses_, sizeof addresses_);
  }
  // Tells the maker that it needs the others no more.
  void leave() const {
    proto::BootstrapWord word = {};
    word.kind = proto::WordKind::kDone;
    EXPECT_TRUE(send_all(root_.get(), &word, sizeof word, in_time()).ok());
  }
  UniqueFd dial() const { return *connect_to(from_format(addresses_[0].at).ipv4, in_time()); }
  void say_hello(const UniqueFd& fd, int level) const {
    const proto::BootstrapHello hello = {proto::kBootstrapMagic, id_.nonce, 1, 2, level, 60, 0, 4711, 0};
    EXPECT_TRUE(send_all(fd.get(), &hello, sizeof hello, in_time()).ok());
  }
  static void hear(const UniqueFd& fd, void* to, size_t bytes) {
    const Status heard = receive_all(fd.get(), to, bytes, in_time());
    EXPECT_TRUE(heard.ok()) << heard.what();
  }
  static Deadline in_time() { return deadline_after(20); }

 private:
  const proto::UniqueId id_;
  UniqueFd root_;
  proto::BootstrapAddress addresses_[2];
};

UniqueFd accept_soon(const UniqueFd& listener) {
  pollfd knock = {listener.get(), POLLIN, 0};
  EXPECT_EQ(poll(&knock, 1, 10'000), 1);
  return accept_now(listener.get());
}

TEST(Backoff, GrowsUpToASecond) {
  using std::chrono::milliseconds;
  const auto now = Clock::now();
  Backoff backoff;
  EXPECT_FALSE(backoff.lasts(now));
  for (const int pause : {20, 40, 80, 160, 320, 640, 1000, 1000}) {
    backoff.begin(now);
    EXPECT_TRUE(backoff.lasts(now + milliseconds(pause - 1))) << pause;
    EXPECT_FALSE(backoff.lasts(now + milliseconds(pause))) << pause;
  }
}

// Who dials several others may not stand still for one of them.
TEST(Dial, ComesAgainAfterAPauseInWhichItReturnsAtOnce) {
  Addresses at;
  const auto listeners = listen_at("127.0.0.1", &at);
  ASSERT_TRUE(listeners.ok());
  auto dial = Dial::start(at.ipv4);
  ASSERT_TRUE(dial.ok());
  for (int i = 0; i < 10; ++i) dial->again();  // now it pauses for a second
  auto made = dial->finish();
  ASSERT_TRUE(made.ok()) << made.status().what();
  EXPECT_FALSE(*made);
  EXPECT_FALSE(dial->is_under_way());
  PollSet set;
  dial->watch(&set);
  for (int i = 0; i < 20'000 && made.ok() && !*made; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    made = dial->finish();
  }
  ASSERT_TRUE(made.ok()) << made.status().what();
  EXPECT_TRUE(*made);
}

// A connection may be hung up on before it has said who it is, as its process was stopped: then it is made again.
TEST(SocketBootstrap, DialsAgainWhereItWasTakenForAStranger) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  on_ranks(2, [&](int rank) {
    int mine = 7 + rank, all[2] = {};
    if (rank == 0) {
      auto bootstrap = SocketBootstrap::create(*id, 0, 2, 20);
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
      const Status gathered = (*bootstrap)->allgather(&mine, all, sizeof mine);
      EXPECT_TRUE(gathered.ok()) << gathered.what();
      EXPECT_EQ(all[1], 8);
      return;
    }
    PlayedRank self(*id);
    Addresses at;
    const auto listeners = listen_at("127.0.0.1", &at);
    ASSERT_TRUE(listeners.ok());
    self.listen_at(at.ipv4);
    UniqueFd slow = self.dial();
    accept_soon((*listeners)[0]).reset();  // before it says Hello, or after
    const UniqueFd from = accept_soon((*listeners)[0]);
    ASSERT_TRUE(from) << "rank 0 has not dialed again";
    proto::BootstrapHello hello;
    PlayedRank::hear(from, &hello, sizeof hello);
    EXPECT_EQ(hello.rank, 0);
    ASSERT_TRUE(send_all(from.get(), &proto::kAdmitted, 1, PlayedRank::in_time()).ok());
    char nothing;
    EXPECT_EQ(receive_all(slow.get(), &nothing, 1, PlayedRank::in_time()).code(), Code::remote) << "said nothing";
    const UniqueFd to = self.dial();
    self.say_hello(to, 0);
    uint8_t answer = 0;
    PlayedRank::hear(to, &answer, 1);
    EXPECT_EQ(answer, proto::kAdmitted);
    ASSERT_TRUE(send_all(to.get(), &mine, sizeof mine, PlayedRank::in_time()).ok());
    PlayedRank::hear(from, &all[0], sizeof all[0]);
    EXPECT_EQ(all[0], 7);
    const proto::BootstrapFarewell farewell = {1, 0, ""};
    ASSERT_TRUE(send_all(from.get(), &farewell, sizeof farewell, PlayedRank::in_time()).ok());
    self.leave();
  });
}

// A rank whose process is killed hangs up without a farewell: one end, or the other, is seen first.
TEST(SocketBootstrap, NamesTheProcessOfARankThatHasLeft) {
  for (const bool hangs_up_what_it_sends : {false, true}) {
    auto id = make_unique_id();
    ASSERT_TRUE(id.ok());
    std::promise<void> told;
    std::thread other([&] {
      PlayedRank self(*id);
      Addresses at;
      const auto listeners = listen_at("127.0.0.1", &at);
      ASSERT_TRUE(listeners.ok());
      self.listen_at(at.ipv4);
      UniqueFd from = accept_soon((*listeners)[0]), to = self.dial();
      proto::BootstrapHello hello;
      PlayedRank::hear(from, &hello, sizeof hello);
      ASSERT_TRUE(send_all(from.get(), &proto::kAdmitted, 1, PlayedRank::in_time()).ok());
      self.say_hello(to, 0);
      uint8_t answer = 0;
      PlayedRank::hear(to, &answer, 1);
      int theirs = 0;
      PlayedRank::hear(from, &theirs, sizeof theirs);
      (hangs_up_what_it_sends ? to : from).reset();
      told.get_future().wait();
    });
    auto bootstrap = SocketBootstrap::create(*id, 0, 2, 20);
    int mine = 5, all[2] = {};
    const Status status = bootstrap ? (*bootstrap)->allgather(&mine, all, sizeof mine) : bootstrap.status();
    told.set_value();
    other.join();
    EXPECT_EQ(status.code(), Code::remote);
    EXPECT_NE(std::string(status.what()).find("rank 1 (process 4711 on host node7) has left; it has failed"),
              std::string::npos)
        << status.what();
  }
}

// The name of a rank's host is known once the rank has told where it listens.
TEST(SocketBootstrap, NamesTheHostOfARankThatLeavesBeforeAllHaveMet) {
  for (const bool is_known : {false, true}) {
    auto id = make_unique_id();
    ASSERT_TRUE(id.ok());
    std::thread other([&] {
      PlayedRank self(*id);
      if (!is_known) return;
      Addresses at;
      const auto listeners = listen_at("127.0.0.1", &at);
      ASSERT_TRUE(listeners.ok());
      self.listen_at(at.ipv4);
    });
    auto bootstrap = SocketBootstrap::create(*id, 0, 2, 20);
    int mine = 5, all[2] = {};
    const Status status = bootstrap ? (*bootstrap)->allgather(&mine, all, sizeof mine) : bootstrap.status();
    other.join();
    EXPECT_EQ(status.code(), Code::remote);
    const std::string where = is_known ? "on host node7" : "at " + ip_text(root_of(*id));
    EXPECT_EQ(std::string(status.what()).find("rank 1 (process 4711 " + where + ") left before all ranks"), 0u)
        << status.what();
  }
}

TEST(SocketBootstrap, NamesARankThatDoesNotAnswer) {
  const gpucoll_test::SilentPort silent;
  ASSERT_TRUE(set_param("report_after", "1", "test").ok());
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  std::promise<void> told;
  std::thread other([&] {
    PlayedRank self(*id);
    self.listen_at(silent.address());
    told.get_future().wait();
  });
  testing::internal::CaptureStderr();
  auto bootstrap = SocketBootstrap::create(*id, 0, 2, 6);
  int mine = 0, all[2];
  const std::string said =
      bootstrap ? (*bootstrap)->allgather(&mine, all, sizeof mine).what() : bootstrap.status().what();
  const std::string log = testing::internal::GetCapturedStderr();
  told.set_value();
  other.join();
  const std::string whom = "rank 1 (process 4711 on host node7), which does not answer at " +
                           to_string(silent.address()) + ": let the firewalls";
  EXPECT_NE(said.find("rank 0 of 2 has waited 6 s (parameter timeout) for " + whom), std::string::npos) << said;
  EXPECT_NE(log.find("rank 0 of 2 has waited 1 s (parameter report_after) for " + whom), std::string::npos) << log;
}

TEST(SocketBootstrap, NamesAMakerThatDoesNotAnswer) {
  const gpucoll_test::SilentPort silent;
  ASSERT_TRUE(set_param("report_after", "1", "test").ok());
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  id->root = {to_format({silent.address(), {}}), 4711, "node7"};
  testing::internal::CaptureStderr();
  const std::string said = SocketBootstrap::create(*id, 1, 2, 2).status().what();
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string whom =
      "process 4711 on host node7, which made the unique id, which does not answer at " + to_string(silent.address());
  EXPECT_NE(said.find("rank 1 of 2 has waited 2 s (parameter timeout) for " + whom), std::string::npos) << said;
  EXPECT_NE(log.find("rank 1 of 2 has waited 1 s (parameter report_after) for " + whom), std::string::npos) << log;
}

// A rank whose process is stopped when all have met is named: by the maker of the id, or where it is the maker itself.
TEST(SocketBootstrap, NamesARankThatIsStopped) {
  for (const bool makes_id : {false, true}) {
    proto::UniqueId id = {};
    int line[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
    if (!makes_id) id = *make_unique_id();
    const pid_t child = fork();
    if (child == 0) {
      if (makes_id) id = *make_unique_id();
      if (write(line[1], &id, sizeof id) != sizeof id) _exit(1);
      const auto bootstrap = SocketBootstrap::create(id, 1, 2, 60);
      raise(SIGSTOP);
      _exit(bootstrap ? 0 : 1);
    }
    close(line[1]);  // so that the end of the child is seen
    ASSERT_EQ(recv(line[0], &id, sizeof id, MSG_WAITALL), ssize_t{sizeof id});
    auto bootstrap = SocketBootstrap::create(id, 0, 2, 4);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(state));
    int mine = 0, all[2];
    const Status status = (*bootstrap)->allgather(&mine, all, sizeof mine);
    EXPECT_EQ(status.code(), Code::timed_out);
    const std::string name = "rank 1 (process " + std::to_string(child) + " on host ";
    EXPECT_NE(std::string(status.what()).find(name), std::string::npos) << status.what();
    kill(child, SIGCONT);
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_EQ(state, 0);
    close(line[0]);
  }
}

// A maker elsewhere may have the number of a process that is stopped here.
TEST(SocketBootstrap, TakesNoProcessOfThisHostForAMakerElsewhere) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(state));
  Addresses elsewhere;  // no interface that ranks use has this address
  auto silent = listen_at("127.0.0.2", &elsewhere);
  ASSERT_TRUE(silent.ok()) << silent.status().what();
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  id->root = {to_format(elsewhere), child, ""};
  const auto bootstrap = SocketBootstrap::create(*id, 1, 2, 1);
  EXPECT_FALSE(bootstrap.ok());
  EXPECT_EQ(std::string(bootstrap.status().what()).find("is stopped"), std::string::npos) << bootstrap.status().what();
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &state, 0), child);
}

namespace {

using gpucoll_test::open_descriptors;
using gpucoll_test::said_in_child;
namespace fs = std::filesystem;

constexpr auto kNeverHang = std::chrono::seconds(20);

// Reads what a file of /proc/self/net has of an address: words of 32 bits, as they lie in memory.
Address address_of_proc(const std::string& ip, unsigned port) {
  Address address;
  address.family = ip.size() == 8 ? Family::ipv4 : Family::ipv6;
  address.port = static_cast<uint16_t>(port);
  for (size_t word = 0; word < ip.size() / 8; ++word) {
    const auto value = static_cast<uint32_t>(std::stoul(ip.substr(word * 8, 8), nullptr, 16));
    std::memcpy(&address.bytes[word * 4], &value, sizeof value);
  }
  return address;
}

// Returns what /proc/self/net/tcp and tcp6 have of this process's listening sockets.
std::vector<Address> listening() {
  std::set<std::string> own;
  std::error_code gone;  // others come and go meanwhile
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) own.insert(fs::read_symlink(entry, gone).string());
  std::vector<Address> found;
  for (const char* const name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(name);
    for (std::string line; std::getline(file, line);) {
      char ip[33];
      unsigned port, state;
      unsigned long inode;
      if (std::sscanf(line.c_str(), " %*d: %32[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu", ip, &port,
                      &state, &inode) == 4 &&
          state == 10 && own.count("socket:[" + std::to_string(inode) + "]"))
        found.push_back(address_of_proc(ip, port));
    }
  }
  return found;
}

int meeting_threads() {
  int n = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    n += name == "gpucoll-meet";
  }
  return n;
}

bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kNeverHang;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Knocks wherever this process listens, all the time: silent, as a browser, or hanging up at once.
class Strangers {
 public:
  Strangers() : thread_([this] { run(); }) {}
  ~Strangers() {
    over_ = true;
    thread_.join();
  }
  int knocked() const { return knocked_; }
  // Waits until so many silent ones stand at every place that listens now that they take longer than kPatienceS where
  // each is waited for.
  void crowd() const {
    const int before = rounds_;
    while (rounds_ <= before + kRounds) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  static constexpr int kRounds = 8;  // of four silent ones, who may take Door::kBudget each
  static constexpr size_t kMostHeld = 300;

  void run() {
    for (; !over_; ++rounds_)
      for (const Address& address : listening()) knock(address);
  }
  void knock(const Address& address) {
    for (int i = 0; i < 10; ++i) {
      auto fd = connect_to(address, deadline_after(1));
      if (!fd) return;
      ++knocked_;
      const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
      if (i % 3 == 1) send_all(fd->get(), request.data(), request.size(), deadline_after(1)).ignore();
      if (i % 3 == 2) continue;
      if (held_.size() < kMostHeld) held_.push_back(*std::move(fd));
    }
  }
  std::atomic<bool> over_{false};
  std::atomic<int> knocked_{0}, rounds_{0};
  std::vector<UniqueFd> held_;
  std::thread thread_;
};

constexpr int kPatienceS = 60;  // ranks meet in milliseconds

void meet(const proto::UniqueId& id, int n, const std::function<void(int)>& before_gathering) {
  on_ranks(n, [&](int rank) {
    auto bootstrap = SocketBootstrap::create(id, rank, n, kPatienceS);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
    before_gathering(rank);
    std::vector<int> all(static_cast<size_t>(n));
    const Status status = (*bootstrap)->allgather(&rank, all.data(), sizeof rank);
    ASSERT_TRUE(status.ok()) << status.what();
    for (int r = 0; r < n; ++r) ASSERT_EQ(all[static_cast<size_t>(r)], r);
  });
}

}  // namespace

TEST(Strangers, DoNotHoldUpTheRanks) {
  const Strangers strangers;
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  strangers.crowd();
  meet(*id, 5, [&](int rank) {
    if (rank == 2) strangers.crowd();  // the others wait for this one, and listen meanwhile
  });
  std::printf("%d strangers knocked\n", strangers.knocked());
}

TEST(Strangers, DoNotPutOffTheDeadline) {
  const Strangers strangers;
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  strangers.crowd();
  auto bootstrap = SocketBootstrap::create(*id, 0, 2, 1);
  ASSERT_FALSE(bootstrap);
  EXPECT_NE(std::string(bootstrap.status().what()).find("rank 1 of 2 did not come within 1 s"), std::string::npos)
      << bootstrap.status().what();
}

namespace {

// A door at which twice as many strangers knock as there is room for.
class CrowdedDoor {
 public:
  CrowdedDoor(size_t most, size_t room) : room_(room) {
    Addresses at;
    auto listeners = listen_at("127.0.0.1", &at);
    EXPECT_TRUE(listeners.ok());
    door_ = Door(*std::move(listeners), most);
    for (size_t i = 0; i < 2 * room; ++i) {
      auto fd = connect_to(at.ipv4, deadline_after(20));
      EXPECT_TRUE(fd.ok()) << fd.status().what();
      silent_.push_back(*std::move(fd));
    }
  }
  void serve() {
    PollSet set;
    door_.watch(&set);
    EXPECT_TRUE(set.wait(deadline_after(20), std::chrono::milliseconds(20)).ok());
    std::vector<Door::Guest> guests;
    EXPECT_TRUE(door_
                    .serve(
                        set, [](const auto&) { return true; }, &guests)
                    .ok());
    most_seen_ = std::max(most_seen_, door_.strangers());
  }
  // The oldest go first, and those who say nothing for long go.
  void expect_room() {
    EXPECT_TRUE(comes_true([&] { return serve(), has_gone(room_ - 1); }));
    EXPECT_EQ(most_seen_, room_);
    EXPECT_TRUE(comes_true([&] { return serve(), has_gone(2 * room_ - 1); }));
  }

 private:
  bool has_gone(size_t stranger) const {
    char byte;
    return recv(silent_[stranger].get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  const size_t room_;
  Door door_;
  std::vector<UniqueFd> silent_;
  size_t most_seen_ = 0;
};

}  // namespace

TEST(Strangers, OfThemOnlySoManyAreKept) { CrowdedDoor(20, 20).expect_room(); }

TEST(Strangers, HaveAQuarterOfTheDescriptors) {
  constexpr rlim_t kLimit = 240;
  rlimit before = {}, low = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  low = before;
  low.rlim_cur = kLimit;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  CrowdedDoor(Door::kMostRanks, kLimit / 4).expect_room();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// The ranks of a large job may all have connected before the first of them says who it is.
TEST(Strangers, MayAllBeRanks) {
  constexpr int kRanks = 200;
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  std::vector<UniqueFd> ranks;
  for (int r = 0; r < kRanks; ++r) {
    auto fd = connect_to(root_of(*id), deadline_after(20));
    ASSERT_TRUE(fd.ok()) << fd.status().what();
    ranks.push_back(*std::move(fd));
  }
  for (int r = 0; r < kRanks; ++r) {
    const proto::BootstrapHello hello = {proto::kBootstrapMagic, id->nonce, r, kRanks, -1, 60, 0, 4711, 0};
    ASSERT_TRUE(send_all(ranks[static_cast<size_t>(r)].get(), &hello, sizeof hello, deadline_after(20)).ok());
  }
  for (const UniqueFd& rank : ranks) {
    proto::BootstrapWord word;
    ASSERT_TRUE(receive_all(rank.get(), &word, sizeof word, deadline_after(20)).ok());
    ASSERT_EQ(word.kind, proto::WordKind::kAllCome) << word.text;
  }
}

TEST(Strangers, ThatHangUpAtOnceMayBeThousands) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(connect_to(root_of(*id), deadline_after(20)).ok()) << i;
  meet(*id, 3, [](int) {});
}

// Strangers come over other interfaces, too.
TEST(SocketBootstrap, ListensOnlyWhereTheRanksMeet) {
  for (const char* const interface : {"lo", ""}) {
    ASSERT_TRUE(set_param("socket_ifname", interface, "test").ok());
    std::set<std::string> before;  // of ids of other tests
    for (const Address& address : listening()) before.insert(to_string(address));
    auto* const rendezvous = new Rendezvous();  // its thread ends when it has nothing to do any more
    auto id = rendezvous->make_id();
    ASSERT_TRUE(id.ok());
    auto own = local_addresses();
    ASSERT_TRUE(own.ok());
    EXPECT_TRUE(root_of(*id).is_same_ip(own->ipv4));
    std::atomic<int> most{0};
    meet(*id, 3, [&](int rank) {
      if (rank) return;
      EXPECT_TRUE(comes_true([&] {
        auto sockets = listening();
        std::erase_if(sockets, [&](const Address& address) { return before.count(to_string(address)); });
        for (const Address& address : sockets)
          EXPECT_TRUE(address.is_same_ip(own->ipv4) || address.is_same_ip(own->ipv6) || address.is_loopback())
              << to_string(address);
        most = std::max(most.load(), static_cast<int>(sockets.size()));
        return most >= 3;
      }));
    });
    EXPECT_GE(most, 3) << "the maker and the two ranks that have come as far";
  }
}

// Uses the loopback's addresses of a family alone, or of both, as long as it lives.
class LoopbackOf {
 public:
  explicit LoopbackOf(const char* family) { choose(family); }
  ~LoopbackOf() {
    set_param("socket_ifname", "", "test").ignore();
    set_param("socket_family", "auto", "test").ignore();
  }
  void choose(const char* family) {
    EXPECT_TRUE(set_param("socket_ifname", "lo", "test").ok());
    EXPECT_TRUE(set_param("socket_family", family, "test").ok());
  }
};

bool has_ipv6() {
  const auto host = list_interfaces();
  const auto is_it = [](const InterfaceAddress& each) { return each.address.is_same_ip(loopback_addresses().ipv6); };
  return host && std::any_of(host->begin(), host->end(), is_it);
}

// maker: the family at whose addresses the id's maker listens. The ranks have IPv6 alone.
TEST(SocketBootstrap, MeetsOverIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "skipped: this machine has no IPv6";
  for (const char* const maker : {"ipv6", "auto"}) {
    LoopbackOf loopback(maker);
    std::set<std::string> before;
    for (const Address& address : listening()) before.insert(to_string(address));
    auto* const rendezvous = new Rendezvous();
    auto id = rendezvous->make_id();
    ASSERT_TRUE(id.ok()) << id.status().what();
    const Addresses root = from_format(id->root.at);
    EXPECT_EQ(to_string(root.ipv6).rfind("[::1]:", 0), 0u) << to_string(root);
    EXPECT_EQ(static_cast<bool>(root.ipv4), std::string(maker) == "auto") << to_string(root);
    loopback.choose("ipv6");
    meet(*id, 5, [&](int) {
      for (const Address& address : listening())
        EXPECT_TRUE(before.count(to_string(address)) || address.is_same_ip(root.ipv6) ||
                    to_string(address) == to_string(root.ipv4))
            << to_string(address);
    });
  }
}

TEST(SocketBootstrap, SaysWhereFamiliesHaveNothingInCommon) {
  if (!has_ipv6()) GTEST_SKIP() << "skipped: this machine has no IPv6";
  LoopbackOf loopback("ipv6");
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok()) << id.status().what();
  loopback.choose("ipv4");
  auto bootstrap = SocketBootstrap::create(*id, 0, 1, 5);
  ASSERT_FALSE(bootstrap);
  const std::string said = bootstrap.status().what();
  EXPECT_NE(said.find("rank 0 of 1 cannot reach process "), std::string::npos) << said;
  EXPECT_NE(said.find(", which made the unique id: it listens at "), std::string::npos) << said;
  EXPECT_NE(said.find("listens at [::1]:"), std::string::npos) << said;
  EXPECT_NE(said.find("this process has no IPv6 address"), std::string::npos) << said;
}

TEST(UniqueIds, ThatNobodyUsesCostNoThreadsAndSockets) {
  ASSERT_TRUE(make_unique_id().ok());
  const int threads = meeting_threads(), descriptors = open_descriptors();
  proto::UniqueId last;
  for (int i = 0; i < 500; ++i) {
    auto id = make_unique_id();
    ASSERT_TRUE(id.ok());
    last = *id;
  }
  EXPECT_LE(meeting_threads(), threads);
  EXPECT_LE(open_descriptors(), descriptors);
  meet(last, 2, [](int) {});
}

TEST(UniqueIds, EndAndLeaveNothing) {
  const int threads = meeting_threads(), descriptors = open_descriptors();
  auto* const rendezvous = new Rendezvous({3, std::chrono::seconds(5), std::chrono::seconds(5)});
  std::vector<proto::UniqueId> ids;
  for (int i = 0; i < 4; ++i) {
    auto id = rendezvous->make_id();
    ASSERT_TRUE(id.ok());
    ids.push_back(*id);
  }
  auto late = SocketBootstrap::create(ids[0], 0, 2, 20);
  ASSERT_FALSE(late) << "three newer ones are there";
  EXPECT_EQ(late.status().code(), Code::remote);
  EXPECT_NE(std::string(late.status().what()).find("3 newer ones have been made"), std::string::npos)
      << late.status().what();
  meet(ids[1], 3, [](int) {});
  SocketBootstrap::decline(ids[2], 0, 2, Status::error(Code::system, "no wish to come"));
  // Of these one was used, one was not, and one rank of one never came.
  EXPECT_TRUE(comes_true([&] { return meeting_threads() <= threads && open_descriptors() <= descriptors; }));
  auto gone = SocketBootstrap::create(ids[3], 0, 2, 20);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.status().code(), Code::remote) << gone.status().what();
}

// Also where the id is of another process, and its maker learns of it over a connection.
TEST(SocketBootstrap, ARankThatCannotComeTellsTheOthersWhy) {
  auto* const elsewhere = new Rendezvous();
  for (Rendezvous* rendezvous : {&Rendezvous::instance(), elsewhere}) {
    auto id = rendezvous->make_id();
    ASSERT_TRUE(id.ok());
    const auto start = std::chrono::steady_clock::now();
    on_ranks(4, [&](int rank) {
      if (rank == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        return SocketBootstrap::decline(*id, 2, 4, Status::error(Code::out_of_memory, "no room on its device"));
      }
      if (rank == 3) std::this_thread::sleep_for(std::chrono::milliseconds(300));  // comes behind it
      auto bootstrap = SocketBootstrap::create(*id, rank, 4, 60);
      ASSERT_FALSE(bootstrap);
      EXPECT_EQ(bootstrap.status().code(), Code::out_of_memory);
      EXPECT_NE(std::string(bootstrap.status().what()).find("rank 2 of 4"), std::string::npos);
      EXPECT_NE(std::string(bootstrap.status().what()).find("no room on its device"), std::string::npos);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, kNeverHang);
  }
}

TEST(SocketBootstrap, ARankThatFailsAmongTheOthersTellsThemWhy) {
  for (int rounds : {0, 1}) {
    auto id = make_unique_id();
    ASSERT_TRUE(id.ok());
    const auto start = std::chrono::steady_clock::now();
    on_ranks(5, [&](int rank) {
      auto bootstrap = SocketBootstrap::create(*id, rank, 5, 60);
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().what();
      int all[5];
      Status status = rounds ? (*bootstrap)->allgather(&rank, all, sizeof rank) : Status();
      if (rank == 3) return (*bootstrap)->give_up(Status::error(Code::device, "rank 3 has a broken device"));
      if (status) status = (*bootstrap)->allgather(&rank, all, sizeof rank);
      EXPECT_EQ(status.code(), Code::device) << status.what();
      EXPECT_STREQ(status.what(), "rank 3 has a broken device");
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, kNeverHang);
  }
}

// The others wait for nobody then.
TEST(SocketBootstrap, ARankThatIsTurnedAwayTellsTheMaker) {
  auto id = make_unique_id();
  ASSERT_TRUE(id.ok());
  Addresses deaf;
  auto listeners = listen_at("127.0.0.1", &deaf);
  ASSERT_TRUE(listeners.ok());
  const int listener = listeners->front().get();
  std::atomic<bool> over{false};
  std::thread hangs_up([&] {
    while (!over) {
      pollfd knock = {listener, POLLIN, 0};
      if (poll(&knock, 1, 10) > 0) accept_now(listener);
    }
  });
  const auto start = std::chrono::steady_clock::now();
  on_ranks(2, [&](int rank) {
    proto::UniqueId seen = *id;
    if (rank == 1) seen.root.at = to_format(deaf);
    auto bootstrap = SocketBootstrap::create(seen, rank, 2, 60);
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.status().code(), Code::remote);
    EXPECT_NE(std::string(bootstrap.status().what()).find("hung up on rank 1 of 2"), std::string::npos)
        << bootstrap.status().what();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, kNeverHang);
  over = true;
  hangs_up.join();
}

// Without a descriptor left accept4 fails as if somebody knocked.
TEST(FewDescriptors, NobodyIsDroppedWhereNobodyKnocks) {
  const std::string said = said_in_child([]() -> std::string {
    Addresses at;
    auto listeners = listen_at("127.0.0.1", &at);
    auto caller = connect_to(at.ipv4, deadline_after(5));
    if (!listeners || !caller) return "no sockets";
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(UniqueFd(dup(0)).get()) + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
    Door door(*std::move(listeners));
    std::vector<Door::Guest> guests;
    const proto::BootstrapHello hello = {proto::kBootstrapMagic, 7, 0, 2, -1, 60, 0, 4711, 0};
    for (const bool says : {false, true}) {
      if (says && !send_all(caller->get(), &hello, sizeof hello, deadline_after(5))) return "hung up on";
      PollSet set;
      door.watch(&set);
      if (Status status = set.wait(deadline_after(5)); !status) return status.what();
      if (Status status = door.serve(
              set, [](const auto&) { return true; }, &guests);
          !status)
        return status.what();
    }
    return guests.size() == 1 ? "let in" : "dropped";
  });
  EXPECT_EQ(said, "let in");
}

// Nobody else takes it meanwhile, and it is taken back afterwards.
TEST(FewDescriptors, ASpareOneIsForWhoSpendsIt) {
  const std::string said = said_in_child([]() -> std::string {
    const Spare spare, another;
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(UniqueFd(dup(0)).get());
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto is_one_left = [] { return static_cast<bool>(UniqueFd(dup(0))); };
    std::string left(is_one_left() ? "kept not, " : "kept, ");
    {
      const Spare::Spent spent = Spare::spend();
      Spare::restore();
      left += spent && is_one_left() && !Spare::spend() ? "spent, " : "taken, ";
    }
    return left + (is_one_left() ? "gone" : "kept");
  });
  EXPECT_EQ(said, "kept, spent, kept");
}

// All of them, or none, and with the sentence of one that found no descriptor; wherever that was.
TEST(FewDescriptors, FailAtOnceForAllRanksAndSayWhatToRaise) {
  int failed = 0;
  for (rlim_t most = 0; most < 48; most += most < 20 ? 1 : 3) {
    const std::string said = said_in_child([most]() -> std::string {
      constexpr size_t kRanks = 6;
      const auto start = std::chrono::steady_clock::now();
      rlimit limit = {};
      getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = static_cast<rlim_t>(UniqueFd(dup(0)).get()) + most;
      setrlimit(RLIMIT_NOFILE, &limit);
      auto id = make_unique_id();
      if (!id) return std::string("no id: ") + id.status().what();
      std::vector<std::string> sentences(kRanks);
      on_ranks(kRanks, [&](int rank) {
        int all[kRanks];
        auto bootstrap = SocketBootstrap::create(*id, rank, kRanks, 60);
        Status status = bootstrap ? (*bootstrap)->allgather(&rank, all, sizeof rank) : bootstrap.status();
        sentences[static_cast<size_t>(rank)] = status ? "fine" : status.what();
      });
      if (std::chrono::steady_clock::now() - start > kNeverHang) return "slow";
      const bool fine = std::all_of(sentences.begin(), sentences.end(), [](auto& s) { return s == "fine"; });
      if (fine) return "all are fine";
      std::string text;
      for (const auto& s : sentences)
        if (s.find("raise `ulimit -n`") == std::string::npos) text += s + "\n";
      return text.empty() ? "told: " + sentences[0] : "wrong: " + text;
    });
    std::printf("%2d: %s\n", static_cast<int>(most), said.c_str());
    EXPECT_TRUE(said == "all are fine" || said.find("raise `ulimit -n`") != std::string::npos) << said;
    EXPECT_EQ(said.find("wrong"), std::string::npos) << said;
    failed += said.rfind("told", 0) == 0;
  }
  EXPECT_GT(failed, 3);
}
