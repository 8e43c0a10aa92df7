// The order in which the calls of several communicators are launched: that of their numbers.
#include "mpi/progress_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace gpucoll::coll {
namespace {

// One call, for which this rank has number `own`, and all ranks have `number` (0: not all are ready), as the first
// round sees; and one behind it.
class Queue final : public ProgressClient {
 public:
  Queue(ProgressThread& thread, std::vector<uint64_t>& launched, uint64_t own, uint64_t number, uint64_t name = 1)
      : thread_(thread), launched_(launched), own_(own), number_(number) {
    thread_.register_client(this, this, name);
  }
  ~Queue() override { thread_.remove(this); }
  bool progress() override {
    ++rounds;
    if (busy) return false;
    if (!own_ || !number_) return true;
    due_ = number_;
    if (!thread_.launch_earlier(number_, this) || stuck) return true;
    launched_.push_back(number_);
    if (before_next) before_next();
    number_ = std::exchange(next, 0);
    own_ = due_ = number_;
    return number_ == 0 || progress();
  }
  bool progress_on_thread() override { return progress() && own_; }
  uint64_t first_ready() const noexcept override { return due_ ? 0 : own_; }
  uint64_t first_due() const noexcept override { return silent ? 0 : due_; }
  bool puts_behind(uint64_t number) override {
    behind = number;
    return !told_late;
  }
  bool catches_up() override { return ++catches % 2 == 0; }
  void give_up() { due_ = own_ = 0; }
  void get_number(uint64_t number) { number_ = number; }

  uint64_t next = 0;
  std::function<void()> before_next;
  bool busy = false, stuck = false;
  bool silent = false;     // only its own thread knows that it is due
  bool told_late = false;  // a rank is about to tell its number
  int rounds = 0, catches = 0;
  uint64_t behind = 0;

 private:
  ProgressThread& thread_;
  std::vector<uint64_t>& launched_;
  uint64_t own_, number_, due_ = 0;
};

struct ProgressThreadTest : testing::Test {
  ProgressThread thread;
  std::vector<uint64_t> launched;
  using Order = std::vector<uint64_t>;
};

TEST_F(ProgressThreadTest, WhatAllCameToBeforeIsLaunchedBefore) {
  Queue third(thread, launched, 1, 30), second(thread, launched, 2, 20), first(thread, launched, 5, 10);
  EXPECT_TRUE(third.progress());
  EXPECT_EQ(launched, (Order{10, 20, 30}));
}

TEST_F(ProgressThreadTest, WhatWasEnteredLaterIsNotLookedAt) {
  Queue now(thread, launched, 1, 30), later(thread, launched, 31, 40);
  EXPECT_TRUE(now.progress());
  EXPECT_EQ(launched, (Order{30}));
  EXPECT_EQ(later.rounds, 0);
}

TEST_F(ProgressThreadTest, WhatAllCameToLaterWaits) {
  Queue now(thread, launched, 3, 30), later(thread, launched, 2, 40);
  EXPECT_TRUE(now.progress());
  EXPECT_EQ(launched, (Order{30}));
  EXPECT_TRUE(later.progress());
  EXPECT_EQ(launched, (Order{30, 40}));
}

// What is known to be due is not all that is.
TEST_F(ProgressThreadTest, NothingIsLaunchedBeforeAllHaveBeenLookedAt) {
  Queue known(thread, launched, 1, 20), unknown(thread, launched, 2, 10), now(thread, launched, 3, 30);
  known.stuck = true;
  unknown.busy = true;
  EXPECT_TRUE(known.progress());  // others know it now
  known.stuck = unknown.busy = false;
  EXPECT_TRUE(now.progress());
  EXPECT_EQ(launched, (Order{10, 20, 30}));
}

// All come to `later` once it has been looked at, and then to the second call of `first`.
TEST_F(ProgressThreadTest, WhatComesAfterTheLookWaitsForAnotherOne) {
  Queue first(thread, launched, 1, 10), later(thread, launched, 2, 0), now(thread, launched, 3, 30);
  now.silent = true;
  first.next = 50;
  first.before_next = [&] { later.get_number(40); };
  EXPECT_TRUE(now.progress());
  EXPECT_EQ(launched, (Order{10, 30}));
  first.before_next = nullptr;
  EXPECT_TRUE(first.progress());
  EXPECT_EQ(launched, (Order{10, 30, 40, 50}));
}

TEST_F(ProgressThreadTest, KnowsWhenThereAreSeveralCommunicators) {
  EXPECT_FALSE(thread.several_communicators());
  Queue one(thread, launched, 0, 0);
  thread.register_client(&one, &one, 1);  // of the same
  EXPECT_FALSE(thread.several_communicators());
  {
    Queue two(thread, launched, 0, 0);
    EXPECT_TRUE(thread.several_communicators());
  }
  EXPECT_FALSE(thread.several_communicators());
}

TEST_F(ProgressThreadTest, NothingPassesByWhatCannotBeLaunchedYet) {
  Queue first(thread, launched, 1, 10), second(thread, launched, 2, 20), third(thread, launched, 3, 30);
  first.stuck = true;
  EXPECT_TRUE(third.progress());
  EXPECT_TRUE(second.progress());
  EXPECT_EQ(launched, Order());
  first.stuck = false;
  EXPECT_TRUE(third.progress());
  EXPECT_EQ(launched, (Order{10, 20, 30}));
}

TEST_F(ProgressThreadTest, NothingPassesByWhatAnotherThreadIsAt) {
  Queue first(thread, launched, 1, 10), second(thread, launched, 2, 20);
  first.busy = true;
  EXPECT_TRUE(second.progress());
  EXPECT_EQ(launched, Order());
  first.give_up();
  EXPECT_TRUE(second.progress());
  EXPECT_EQ(launched, (Order{20}));
}

TEST_F(ProgressThreadTest, WhatIsStuckCostsOthersOneTurn) {
  Queue first(thread, launched, 1, 10);
  first.stuck = true;
  std::vector<std::unique_ptr<Queue>> others;
  for (uint64_t i = 0; i < 100; ++i) others.push_back(std::make_unique<Queue>(thread, launched, 2, 20 + i));
  EXPECT_TRUE(others.back()->progress());  // all are known to be stuck
  first.rounds = 0;
  for (auto& other : others) other->rounds = 0;
  EXPECT_TRUE(others.back()->progress());
  EXPECT_EQ(first.rounds, 1);
  EXPECT_EQ(others.front()->rounds, 0);
}

TEST_F(ProgressThreadTest, OfEqualNumbersTheSmallerNameIsFirst) {
  Queue second(thread, launched, 1, 10, 8), first(thread, launched, 2, 10, 7);
  EXPECT_TRUE(first.progress());
  EXPECT_EQ(first.rounds, 1);
  EXPECT_EQ(second.rounds, 1);  // a look, as it may have been before
  Queue third(thread, launched, 3, 10, 9);
  EXPECT_TRUE(third.progress());
  EXPECT_EQ(launched, (Order{10, 10, 10}));
}

TEST_F(ProgressThreadTest, WhatHasNoNumberYetIsPutBehind) {
  Queue now(thread, launched, 3, 30), other(thread, launched, 2, 0);
  EXPECT_TRUE(now.progress());
  EXPECT_EQ(other.behind, 30u);
  EXPECT_EQ(launched, (Order{30}));
}

TEST_F(ProgressThreadTest, NothingPassesByWhatIsAboutToHaveItsNumber) {
  Queue now(thread, launched, 3, 30), other(thread, launched, 2, 0);
  other.told_late = true;
  EXPECT_TRUE(now.progress());
  EXPECT_EQ(launched, Order());
  other.told_late = false;
  EXPECT_TRUE(now.progress());
  EXPECT_EQ(launched, (Order{30}));
}

TEST_F(ProgressThreadTest, TheFirstCommunicatorCatchesUpWhenTheSecondComes) {
  Queue one(thread, launched, 0, 0);
  EXPECT_EQ(one.catches, 0);
  Queue two(thread, launched, 0, 0);
  EXPECT_EQ(one.catches, 2);  // until it has
  EXPECT_EQ(two.catches, 0);
  Queue three(thread, launched, 0, 0);
  EXPECT_EQ(one.catches, 2);
}

// The caller holds its queue meanwhile. If it waited, nobody could launch from that: neither could who has the lock.
TEST_F(ProgressThreadTest, WhoComesWhileAnotherThreadIsAtItGoesOn) {
  Queue first(thread, launched, 1, 10), second(thread, launched, 2, 20), other(thread, launched, 3, 30);
  std::promise<void> begun, end;
  first.before_next = [&] {
    begun.set_value();
    end.get_future().wait();
  };
  std::thread launcher([&] { EXPECT_TRUE(second.progress()); });
  begun.get_future().wait();
  auto asked = std::async(std::launch::async, [&] { return thread.launch_earlier(30, &other); });
  const bool answers = asked.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_TRUE(answers);
  end.set_value();
  launcher.join();
  EXPECT_FALSE(answers && asked.get());
  EXPECT_EQ(launched, (Order{10, 20}));
}

}  // namespace
}  // namespace gpucoll::coll
