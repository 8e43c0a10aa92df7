// Communicators that are given back together: over sockets, and with what has failed.
#include "core/comm/closing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "../../patience.h"
#include "base/params.h"
#include "core/comm/reclaim.h"
#include "core/progress/proxy.h"
#include "idle_communicators.h"

namespace gpucoll::core {
namespace {

using Communicators = std::vector<std::unique_ptr<Communicator>>;
using gpucoll_test::emulated;

void on_two_ranks(const std::function<void(int rank)>& body) {
  std::thread other(body, 1);
  body(0);
  other.join();
}

// Makes communicators of two ranks that are connected over sockets.
void make(size_t n, Communicators (*all)[2]) {
  ASSERT_TRUE(set_param("transport", "tcp", "test"));
  gpucoll_test::ThreadsExchange exchange(2);
  on_two_ranks([&](int rank) {
    gpucoll_test::ThreadsBootstrap bootstrap(exchange, rank, 2);
    Requirements messages;
    messages.send_to = messages.receive_from = {1 - rank};
    for (size_t i = 0; i < n; ++i) {
      (*all)[rank].push_back(gpucoll_test::communicator_of(emulated(), bootstrap));
      EXPECT_TRUE((*all)[rank].back()->connect(messages));
    }
  });
}

void close(Communicators& all) {
  Closing closing;
  for (auto& communicator : all) closing.add(std::move(communicator));
}

// Runs `body`, and ends the process where that never returns, as nothing else ends its threads.
void return_from(const std::function<void()>& body) {
  const auto returned = std::async(std::launch::async, body);
  if (returned.wait_for(gpucoll_test::patience(std::chrono::seconds(120))) == std::future_status::ready) return;
  std::puts("FAILED: the ranks wait for each other");
  std::fflush(stdout);
  std::_Exit(1);
}

TEST(Closing, EndsInWhateverOrderTheRanksClose) {
  Communicators all[2];
  make(8, &all);
  std::reverse(all[1].begin(), all[1].end());
  return_from([&] { on_two_ranks([&](int rank) { close(all[rank]); }); });
  EXPECT_TRUE(drain_reclaimed(10000, nullptr));
}

// Holds the thread up that sends the marks.
class HeldProxy final : public ProxyWork {
 public:
  HeldProxy() {
    Proxy::instance().add(this);
    Proxy::instance().wake();
    while (!inside_) std::this_thread::yield();
  }
  ~HeldProxy() override { Proxy::instance().remove(this); }
  void let_go() { goes_on_ = true; }
  Progress progress() noexcept override {
    inside_ = true;
    while (!goes_on_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Progress::none_pending;
  }
  void tidy() noexcept override {}

 private:
  std::atomic<bool> inside_{false}, goes_on_{false};
};

// As where a peer is stopped, for which a rank waits for two seconds: ten of them one after another.
TEST(Closing, WaitsOnceForAllThatPeersDoNotTake) {
  Communicators all[2];
  make(5, &all);
  const auto begin = std::chrono::steady_clock::now();
  {
    HeldProxy proxy;
    close(all[0]);
    proxy.let_go();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  close(all[1]);
  EXPECT_TRUE(drain_reclaimed(10000, nullptr));
}

// Kernels that have not begun get three seconds to leave on this device: nine of them one after another.
TEST(Closing, GivesAllThatHaveFailedOneTimeToLeave) {
  gpucoll_test::HeldStream stream;
  Communicators all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(gpucoll_test::communicator_on(emulated()));
    ASSERT_TRUE(all.back()->run(gpucoll_test::one_task(stream.get())));
    all.back()->give_up(Status::error(Code::aborted, "enough"));
  }
  const auto begin = std::chrono::steady_clock::now();
  close(all);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  stream.let_go();
  EXPECT_TRUE(drain_reclaimed(10000, nullptr));
}

}  // namespace
}  // namespace gpucoll::core
