// What the driver may hold up is done only where nothing of the process is under way.
#include "core/progress/quiescence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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
  std::atomic<bool> launched{false};
  std::thread launcher;
  EXPECT_TRUE(quiescence.run_if_idle([&] {
    launcher = std::thread([&] {
      const auto launching = quiescence.launching();
      launched = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(launched);
  }));
  launcher.join();
  EXPECT_TRUE(launched);
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
