// What waits for other ranks on a thread of its own.
#include "coll/runtime/background_task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <thread>

namespace gpucoll::coll {
namespace {

Result<bool> result_of(BackgroundTask& task) {
  for (;;) {
    auto result = task.take_result();
    if (result) return std::move(*result);
    std::this_thread::yield();
  }
}

TEST(BackgroundTask, GivesItsResultOnceTheWorkHasEnded) {
  BackgroundTask task;
  EXPECT_FALSE(task.any());
  for (const bool answer : {true, false}) {
    std::promise<void> may_end;
    task.start([&]() -> Result<bool> {
      may_end.get_future().wait();
      return answer;
    });
    EXPECT_TRUE(task.any());
    EXPECT_FALSE(task.take_result());
    may_end.set_value();
    const auto result = result_of(task);
    ASSERT_TRUE(result);
    EXPECT_EQ(*result, answer);
    EXPECT_FALSE(task.any()) << "it can be started anew";
  }
}

TEST(BackgroundTask, MakesAStatusOfWhatTheWorkThrows) {
  BackgroundTask task;
  task.start([]() -> Result<bool> { throw std::bad_alloc(); });
  const auto result = result_of(task);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.status().code(), Code::out_of_memory);
}

TEST(BackgroundTask, WaitsForTheWorkBeforeItForgetsIt) {
  std::atomic<bool> ended{false};
  BackgroundTask task;
  for (int i = 0; i < 2; ++i) {
    ended = false;
    std::promise<void> begun;
    task.start([&]() -> Result<bool> {
      begun.set_value();
      for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
      ended = true;
      return Status::error(Code::remote, "nobody asks for it");
    });
    begun.get_future().wait();
    task.finish();
    EXPECT_TRUE(ended);
    EXPECT_FALSE(task.any());
    task.finish();  // there is nothing to wait for
  }
}

}  // namespace
}  // namespace gpucoll::coll
