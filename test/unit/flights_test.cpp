// Between flights: what the driver may hold up is done only where nothing of the process is under way.
#include "core/progress/flights.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "plane.h"

namespace gpucoll::core {
namespace {

using gpucoll_test::Plane;

TEST(Flights, NothingIsDoneWhileOneFlies) {
  Flights flights;
  Plane one(flights), other(flights);
  int done = 0;
  const auto count = [&] { ++done; };
  EXPECT_TRUE(flights.between(count));
  other.in_the_air = true;
  EXPECT_FALSE(flights.between(count));
  flights.remove(&other);
  EXPECT_TRUE(flights.between(count));
  EXPECT_EQ(done, 2);
}

TEST(Flights, NothingIsDoneWhileOneIsLaunched) {
  Flights flights;
  int done = 0;
  std::thread([&] {
    const auto launching = flights.launching();
    std::thread([&] { EXPECT_FALSE(flights.between([&] { ++done; })); }).join();
  }).join();
  EXPECT_TRUE(flights.between([&] { ++done; }));
  EXPECT_EQ(done, 1);
}

TEST(Flights, NoneBeginsMeanwhile) {
  Flights flights;
  std::atomic<bool> launched{false};
  std::thread launcher;
  EXPECT_TRUE(flights.between([&] {
    launcher = std::thread([&] {
      const auto launching = flights.launching();
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

TEST(Flights, WhatIsLetGoGoesWhenNothingFlies) {
  Flights flights;
  Plane plane(flights);
  int gone = 0;
  flights.let_go(counts_in(&gone));
  EXPECT_EQ(gone, 1);
  plane.in_the_air = true;
  flights.let_go(counts_in(&gone));
  flights.tidy();
  EXPECT_TRUE(flights.keeps());
  EXPECT_EQ(gone, 1);
  plane.in_the_air = false;
  flights.tidy();
  EXPECT_FALSE(flights.keeps());
  EXPECT_EQ(gone, 2);
}

TEST(Flights, WhatIsKeptGoesWithTheNextThatIsLetGo) {
  Flights flights;
  Plane plane(flights);
  int gone = 0;
  plane.in_the_air = true;
  flights.let_go(counts_in(&gone));
  plane.in_the_air = false;
  flights.let_go(counts_in(&gone));
  EXPECT_EQ(gone, 2);
}

}  // namespace
}  // namespace gpucoll::core
