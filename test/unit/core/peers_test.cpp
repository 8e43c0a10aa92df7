// Ranks that meet: what keeps them from working together is said on all of them, with who and what.
#include "core/peer/peers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../net/silent_port.h"
#include "base/params.h"
#include "net/bootstrap/socket.h"
#include "topo/node.h"
#include "wireup_ranks.h"

namespace gpucoll_test {
namespace {

using namespace gpucoll;

// Tells when its rank has said who it is.
class TellingBootstrap final : public ThreadsBootstrap {
 public:
  TellingBootstrap(ThreadsExchange& exchange, std::function<void()> told)
      : ThreadsBootstrap(exchange, 0, 2), told_(std::move(told)) {}
  Status allgather(const void* mine, void* all, size_t bytes) override {
    if (told_) std::exchange(told_, nullptr)();
    return ThreadsBootstrap::allgather(mine, all, bytes);
  }

 private:
  std::function<void()> told_;
};

// What two ranks say, of which rank 1 meets with another value of a parameter.
std::string said_with(const char* name, const char* value0, const char* value1) {
  EXPECT_TRUE(set_param(name, value0, "test").ok());
  auto device = gpu::emu_platform().open(0);
  if (!device) return "no device";
  ThreadsExchange exchange(2);
  std::promise<void> told;
  std::string said[2];
  std::thread other([&] {
    told.get_future().wait();
    ThreadsBootstrap bootstrap(exchange, 1, 2);
    said[1] = core::Peers::exchange(bootstrap, **device, Status()).status().what();
  });
  TellingBootstrap bootstrap(exchange, [&] {
    EXPECT_TRUE(set_param(name, value1, "test").ok());
    told.set_value();
  });
  said[0] = core::Peers::exchange(bootstrap, **device, Status()).status().what();
  other.join();
  EXPECT_EQ(said[0], said[1]);
  return said[0];
}

TEST(Peers, SayWhichParameterDiffers) {
  EXPECT_EQ(said_with("channels", "8", "4"),
            "rank 1 has the parameter channels 4, but rank 0 has 8: set it equal on all ranks, e.g. with mpirun -x "
            "GPUCOLL_CHANNELS=... or --mca coll_gpucoll_channels ...");
  EXPECT_EQ(said_with("channels", "auto", "auto"), "");
  EXPECT_NE(said_with("protocol", "ll", "simple").find("rank 1 has the parameter protocol simple, but rank 0 has ll:"),
            std::string::npos);
  EXPECT_EQ(said_with("protocol", "auto", "auto"), "");
  EXPECT_EQ(said_with("verbose", "0", "1"), "");
}

// Says that its rank speaks older formats, if `older`.
class AgedBootstrap final : public ThreadsBootstrap {
 public:
  AgedBootstrap(ThreadsExchange& exchange, int rank, bool older) : ThreadsBootstrap(exchange, rank, 2), older_(older) {}
  Status allgather(const void* mine, void* all, size_t bytes) override {
    proto::PeerInfo info;
    if (bytes != sizeof info || !older_) return ThreadsBootstrap::allgather(mine, all, bytes);
    std::memcpy(&info, mine, sizeof info);
    --info.magic;
    return ThreadsBootstrap::allgather(&info, all, bytes);
  }

 private:
  const bool older_;
};

// Both may be called 0.1.0. Whichever rank is older, all say the same.
TEST(Peers, NameTheFormatsOfVersionsThatDiffer) {
  auto device = gpu::emu_platform().open(0);
  ASSERT_TRUE(device.ok());
  for (const int older : {0, 1}) {
    ThreadsExchange exchange(2);
    std::string said[2];
    const auto meet = [&](int rank) {
      AgedBootstrap bootstrap(exchange, rank, rank == older);
      said[rank] = core::Peers::exchange(bootstrap, **device, Status()).status().what();
    };
    std::thread other([&] { meet(1); });
    meet(0);
    other.join();
    const auto runs = [&](int rank) {
      const uint32_t magic = proto::kPeerMagic - (rank == older);
      return "rank " + std::to_string(rank) + " runs gpucoll " + library_version() + " (formats " +
             std::to_string(magic % 16) + ")";
    };
    for (const std::string& text : said)
      EXPECT_EQ(text, runs(1) + " and " + runs(0) + ": install one version everywhere") << older;
  }
}

// Learns of a failure while the ranks agree, when all others may have heard what they need.
class FailingBootstrap final : public ThreadsBootstrap {
 public:
  explicit FailingBootstrap(ThreadsExchange& exchange) : ThreadsBootstrap(exchange, 1, 2) {}
  Status allgather(const void* mine, void* all, size_t bytes) override {
    if (Status status = ThreadsBootstrap::allgather(mine, all, bytes); !status || ++calls_ < 2) return status;
    return Status::error(Code::remote, "rank 2 has left");
  }

 private:
  int calls_ = 0;
};

TEST(Peers, HearWhyARankDidNotComeAlong) {
  auto device = gpu::emu_platform().open(0);
  ASSERT_TRUE(device);
  ThreadsExchange exchange(2);
  std::thread other([&] {
    FailingBootstrap bootstrap(exchange);
    EXPECT_EQ(core::Peers::exchange(bootstrap, **device, Status()).status().code(), Code::remote);
  });
  ThreadsBootstrap bootstrap(exchange, 0, 2);
  auto peers = core::Peers::exchange(bootstrap, **device, Status());
  other.join();
  ASSERT_TRUE(peers) << peers.status().what();
  EXPECT_NE(std::string(peers->check().what()).find("gave up: "), std::string::npos) << peers->check().what();
  EXPECT_NE(std::string(peers->check().what()).find("rank 2 has left"), std::string::npos);
}

// Hears from rank 1 as if it was a process that has ended since.
class LateBootstrap final : public ThreadsBootstrap {
 public:
  LateBootstrap(ThreadsExchange& exchange, pid_t ended) : ThreadsBootstrap(exchange, 0, 2), ended_(ended) {}
  Status allgather(const void* mine, void* all, size_t bytes) override {
    Status status = ThreadsBootstrap::allgather(mine, all, bytes);
    if (std::exchange(first_, false)) static_cast<proto::PeerInfo*>(all)[1].pid = ended_;
    return status;
  }

 private:
  const pid_t ended_;
  bool first_ = true;
};

TEST(Peers, NameARankThatDiesBeforeItsMemoryIsOpened) {
  auto device = gpu::emu_platform().open(0);
  ASSERT_TRUE(device);
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  ThreadsExchange exchange(2);
  std::string said;
  std::thread other([&] {
    ThreadsBootstrap bootstrap(exchange, 1, 2);
    said = core::Peers::exchange(bootstrap, **device, Status()).status().what();
  });
  LateBootstrap bootstrap(exchange, ended);
  const auto peers = core::Peers::exchange(bootstrap, **device, Status());
  other.join();
  waitpid(ended, nullptr, 0);
  ASSERT_FALSE(peers);
  EXPECT_TRUE(peers.status().blames());
  EXPECT_EQ(said, peers.status().what());
  EXPECT_EQ(said.find("rank 1 (process " + std::to_string(ended) + ") died while the ranks met"), 0u) << said;
}

// Lets each rank be on a node of its own. change: what a rank learns of where the others listen; look: the
// bootstrap's.
class NodesBootstrap final : public ThreadsBootstrap {
 public:
  using Change = std::function<void(proto::NetworkAddress* all)>;
  NodesBootstrap(ThreadsExchange& exchange, int rank, int size, Change change, std::function<Status()> look = {})
      : ThreadsBootstrap(exchange, rank, size), change_(std::move(change)), look_(std::move(look)) {}
  Status allgather(const void* mine, void* all, size_t bytes) override {
    Status status = ThreadsBootstrap::allgather(mine, all, bytes);
    for (int r = 0; bytes == sizeof(proto::PeerInfo) && r < size(); ++r)
      static_cast<proto::PeerInfo*>(all)[r].node[0] = static_cast<uint8_t>(r);
    if (bytes == sizeof(proto::NetworkAddress) && change_) change_(static_cast<proto::NetworkAddress*>(all));
    return status;
  }
  Status look() override { return look_ ? look_() : Status(); }

 private:
  const Change change_;
  const std::function<Status()> look_;
};

// Returns how ranks on nodes of their own fail to meet.
std::vector<Status> meet(const std::vector<NodesBootstrap::Change>& changes, const std::function<Status()>& look = {}) {
  auto device = gpu::emu_platform().open(0);
  EXPECT_TRUE(device.ok());
  const int n = static_cast<int>(changes.size());
  ThreadsExchange exchange(n);
  std::vector<Status> said(changes.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      const auto place = static_cast<size_t>(r);
      NodesBootstrap bootstrap(exchange, r, n, changes[place], r == 0 ? look : nullptr);
      auto peers = core::Peers::exchange(bootstrap, **device, Status());
      said[place] = peers.status();
      char nothing = 0;
      std::vector<char> all(changes.size());
      bootstrap.allgather(&nothing, all.data(), 1).ignore();
    });
  for (auto& thread : threads) thread.join();
  return said;
}

bool has(const Status& status, const std::string& part) {
  return std::string(status.what()).find(part) != std::string::npos;
}

TEST(PeersOfNodes, Meet) {
  for (const Status& status : meet({{}, {}, {}})) EXPECT_TRUE(status.ok()) << status.what();
}

TEST(PeersOfNodes, EndTheDialingWhereTheBootstrapHasFailed) {
  const SilentPort silent;
  EXPECT_TRUE(set_param("timeout", "10", "test").ok());
  const auto said = meet({[&](proto::NetworkAddress* all) {
                            all[1].at = net::to_format({silent.address(), {}});
                          },
                          {}},
                         [] { return Status::error(Code::aborted, "another thread has aborted the communicator"); });
  EXPECT_EQ(said[0].code(), Code::aborted) << said[0].what();
  for (const Status& status : said) EXPECT_TRUE(has(status, "another thread has aborted")) << status.what();
}

TEST(PeersOfNodes, EndTheDialingWhereAnotherRankHasFailed) {
  const SilentPort silent;
  net::Addresses closed;  // nobody listens there any more
  EXPECT_TRUE(net::listen_on({net::loopback_addresses().ipv4, {}}, &closed).ok());
  EXPECT_TRUE(set_param("timeout", "10", "test").ok());
  const auto said = meet({[&](proto::NetworkAddress* all) {
                            all[2].at = net::to_format({silent.address(), {}});
                          },
                          [&](proto::NetworkAddress* all) { all[2].at = net::to_format(closed); },
                          {}});
  for (const Status& status : said) {
    EXPECT_EQ(std::string(status.what()).find("rank 1 cannot reach rank 2 on host "), 0u) << status.what();
    EXPECT_TRUE(has(status, to_string(closed.ipv4))) << status.what();
  }
}

TEST(PeersOfNodes, NameAnAddressThatDoesNotAnswer) {
  const SilentPort silent;
  EXPECT_TRUE(set_param("timeout", "6", "test").ok());
  EXPECT_TRUE(set_param("report_after", "1", "test").ok());
  testing::internal::CaptureStderr();
  const auto said = meet({[&](proto::NetworkAddress* all) { all[1].at = net::to_format({silent.address(), {}}); }, {}});
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string answer = "rank 1 on host " + topo::host_name() + ", which does not answer at " +
                             to_string(silent.address()) + ": let the firewalls";
  for (const Status& status : said) {
    EXPECT_EQ(status.code(), Code::timed_out);
    EXPECT_TRUE(has(status, "rank 0 has waited 6 s (parameter timeout) for " + answer)) << status.what();
  }
  EXPECT_NE(log.find("rank 0 has waited 1 s (parameter report_after) for " + answer), std::string::npos) << log;
}

}  // namespace
}  // namespace gpucoll_test
