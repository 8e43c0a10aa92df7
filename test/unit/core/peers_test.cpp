// Ranks that meet: what keeps them from working together is said on all of them, with who and what.
#include "core/peer/peers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "base/params.h"
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

}  // namespace
}  // namespace gpucoll_test
