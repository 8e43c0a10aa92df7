// What the driver may hold up is done only where nothing of the process is under way.
#include "core/progress/quiescence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../in_flight.h"

namespace gpucoll::core {
namespace {

using gpucoll_test::FakeInFlight;

TEST(Quiescence, NothingIsDoneWhileOneIsInFlight) {
  Quiescence quiescence;
  FakeInFlight one(quiescence), other(quiescence);
  int done = 0;
  const auto count = [&] { ++done; };
  EXPECT_TRUE(quiescence.run_if_idle(count));
  other.busy = true;
  EXPECT_FALSE(quiescence.run_if_idle(count));
  quiescence.remove(&other);
  EXPECT_TRUE(quiescence.run_if_idle(count));
  EXPECT_EQ(done, 2);
}

TEST(Quiescence, NothingIsDoneWhileOneIsLaunched) {
  Quiescence quiescence;
  int done = 0;
  std::thread([&] {
    const auto launching = quiescence.launching();
    std::thread([&] { EXPECT_FALSE(quiescence.run_if_idle([&] { ++done; })); }).join();
  }).join();
  EXPECT_TRUE(quiescence.run_if_idle([&] { ++done; }));
  EXPECT_EQ(done, 1);
}

TEST(Quiescence, NoneBeginsMeanwhile) {
  Quiescence quiescence;
  std::atomic<bool> comes{false}, over{false}, begun_meanwhile{false};
  std::thread launcher;
  EXPECT_TRUE(quiescence.run_if_idle([&] {
    launcher = std::thread([&] {
      comes = true;
      const auto launching = quiescence.launching();
      begun_meanwhile = !over;
    });
    while (!comes) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // it could go on
    over = true;
  }));
  launcher.join();
  EXPECT_FALSE(begun_meanwhile);
}

TEST(Quiescence, LaunchesMeetNothingThatWaitsForThem) {
  constexpr int kThreads = 2, kRounds = 5000;
  Quiescence quiescence;
  std::atomic<int> inside{0}, met{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        const auto launching = quiescence.launching();
        ++inside;
        --inside;
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i)
        quiescence.run_if_idle([&] {
          for (int look = 0; look < 10; ++look) met += inside;
        });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(met, 0);
  EXPECT_TRUE(quiescence.run_if_idle([] {}));
}

// For ThreadSanitizer: nothing but the quiescence orders the two threads.
TEST(Quiescence, EachSideSeesWhatTheOtherWrote) {
  constexpr int kRounds = 100;
  Quiescence quiescence;
  int word = 0;
  std::atomic<int> turn{0};
  const auto await = [&](int whose) {
    while (turn.load(std::memory_order_relaxed) != whose) std::this_thread::yield();
  };
  const auto end = [&] { turn.fetch_add(1, std::memory_order_relaxed); };
  std::thread launches([&] {
    for (int i = 0; i < kRounds; ++i, end()) {
      await(2 * i);
      const auto launching = quiescence.launching();
      ++word;
    }
  });
  for (int i = 0; i < kRounds; ++i, end()) {
    await(2 * i + 1);
    while (!quiescence.run_if_idle([&] { ++word; })) std::this_thread::yield();
  }
  launches.join();
  EXPECT_EQ(word, 2 * kRounds);
}

std::shared_ptr<void> counts_in(int* gone) {
  return {gone, [](void* at) { ++*static_cast<int*>(at); }};
}

TEST(Quiescence, WhatIsToGoGoesWhenNothingIsInFlight) {
  Quiescence quiescence;
  FakeInFlight work(quiescence);
  int gone = 0;
  quiescence.release_when_idle(counts_in(&gone));
  EXPECT_EQ(gone, 1);
  work.busy = true;
  quiescence.release_when_idle(counts_in(&gone));
  quiescence.release_pending();
  EXPECT_TRUE(quiescence.has_pending());
  EXPECT_EQ(gone, 1);
  work.busy = false;
  quiescence.release_pending();
  EXPECT_FALSE(quiescence.has_pending());
  EXPECT_EQ(gone, 2);
}

// Whoever comes at any time leaves alone what a graph might be waited for by.
TEST(Quiescence, AGraphThatMayBeginKeepsTheProxyFromIt) {
  Quiescence quiescence;
  FakeInFlight work(quiescence);
  int gone = 0;
  work.busy = true;
  quiescence.release_when_idle(counts_in(&gone));
  quiescence.release_at_rest();
  work.busy = false;
  work.graph = true;
  quiescence.release_at_rest();
  EXPECT_EQ(gone, 0);
  EXPECT_FALSE(quiescence.run_at_rest([] {}));
  work.graph = false;
  quiescence.release_at_rest();
  EXPECT_EQ(gone, 1);
}

TEST(Quiescence, WhatIsKeptGoesWithTheNext) {
  Quiescence quiescence;
  FakeInFlight work(quiescence);
  int gone = 0;
  work.busy = true;
  quiescence.release_when_idle(counts_in(&gone));
  work.busy = false;
  quiescence.release_when_idle(counts_in(&gone));
  EXPECT_EQ(gone, 2);
}

}  // namespace
}  // namespace gpucoll::core
