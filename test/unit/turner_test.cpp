// The order in which the calls of several communicators are launched: that in which the last rank came to each.
#include "mpi/turner.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace gpucoll::coll {
namespace {

// One call, entered at `entered`, to which all had come at `complete` (0: they have not), as the first turn sees; and
// one behind it.
class Queue final : public Turned {
 public:
  Queue(Turner& turner, std::vector<uint64_t>& launched, uint64_t entered, uint64_t complete)
      : turner_(turner), launched_(launched), entered_(entered), complete_(complete) {
    turner_.know(this, this);
  }
  ~Queue() override { turner_.remove(this); }
  bool turn() override {
    ++turns;
    if (busy) return false;
    if (!entered_ || !complete_) return true;
    due_ = complete_;
    if (!turner_.turn_before(complete_, this) || stuck) return true;
    launched_.push_back(complete_);
    if (before_next) before_next();
    complete_ = std::exchange(next, 0);
    entered_ = due_ = complete_;
    return complete_ == 0 || turn();
  }
  bool turn_on_thread() override { return turn() && entered_; }
  uint64_t first_entered() const noexcept override { return due_ ? 0 : entered_; }
  uint64_t first_due() const noexcept override { return silent ? 0 : due_; }
  void give_up() { due_ = entered_ = 0; }
  void complete_at(uint64_t complete) { complete_ = complete; }

  uint64_t next = 0;
  std::function<void()> before_next;
  bool busy = false, stuck = false;
  bool silent = false;  // only its own thread knows that it is due
  int turns = 0;

 private:
  Turner& turner_;
  std::vector<uint64_t>& launched_;
  uint64_t entered_, complete_, due_ = 0;
};

struct TurnerTest : testing::Test {
  Turner turner;
  std::vector<uint64_t> launched;
  using Order = std::vector<uint64_t>;
};

TEST_F(TurnerTest, WhatAllCameToBeforeIsLaunchedBefore) {
  Queue third(turner, launched, 1, 30), second(turner, launched, 2, 20), first(turner, launched, 5, 10);
  EXPECT_TRUE(third.turn());
  EXPECT_EQ(launched, (Order{10, 20, 30}));
}

TEST_F(TurnerTest, WhatWasEnteredLaterIsNotLookedAt) {
  Queue now(turner, launched, 1, 30), later(turner, launched, 30, 40);
  EXPECT_TRUE(now.turn());
  EXPECT_EQ(launched, (Order{30}));
  EXPECT_EQ(later.turns, 0);
}

TEST_F(TurnerTest, WhatAllCameToLaterWaits) {
  Queue now(turner, launched, 3, 30), later(turner, launched, 2, 40);
  EXPECT_TRUE(now.turn());
  EXPECT_EQ(launched, (Order{30}));
  EXPECT_TRUE(later.turn());
  EXPECT_EQ(launched, (Order{30, 40}));
}

// What is known to be due is not all that is.
TEST_F(TurnerTest, NothingIsLaunchedBeforeAllHaveBeenLookedAt) {
  Queue known(turner, launched, 1, 20), unknown(turner, launched, 2, 10), now(turner, launched, 3, 30);
  known.stuck = true;
  unknown.busy = true;
  EXPECT_TRUE(known.turn());  // others know it now
  known.stuck = unknown.busy = false;
  EXPECT_TRUE(now.turn());
  EXPECT_EQ(launched, (Order{10, 20, 30}));
}

// All come to `later` once it has been looked at, and then to the second call of `first`.
TEST_F(TurnerTest, WhatComesAfterTheLookWaitsForAnotherOne) {
  Queue first(turner, launched, 1, 10), later(turner, launched, 2, 0), now(turner, launched, 3, 30);
  now.silent = true;
  first.next = 50;
  first.before_next = [&] { later.complete_at(40); };
  EXPECT_TRUE(now.turn());
  EXPECT_EQ(launched, (Order{10, 30}));
  first.before_next = nullptr;
  EXPECT_TRUE(first.turn());
  EXPECT_EQ(launched, (Order{10, 30, 40, 50}));
}

TEST_F(TurnerTest, ItIsCrowdedOnceThereAreTwoCommunicators) {
  EXPECT_FALSE(turner.crowded());
  Queue one(turner, launched, 0, 0);
  turner.know(&one, &one);  // of the same
  EXPECT_FALSE(turner.crowded());
  {
    Queue two(turner, launched, 0, 0);
    EXPECT_TRUE(turner.crowded());
  }
  EXPECT_FALSE(turner.crowded());
}

TEST_F(TurnerTest, NothingPassesByWhatCannotBeLaunchedYet) {
  Queue first(turner, launched, 1, 10), second(turner, launched, 2, 20), third(turner, launched, 3, 30);
  first.stuck = true;
  EXPECT_TRUE(third.turn());
  EXPECT_TRUE(second.turn());
  EXPECT_EQ(launched, Order());
  first.stuck = false;
  EXPECT_TRUE(third.turn());
  EXPECT_EQ(launched, (Order{10, 20, 30}));
}

TEST_F(TurnerTest, NothingPassesByWhatAnotherThreadIsAt) {
  Queue first(turner, launched, 1, 10), second(turner, launched, 2, 20);
  first.busy = true;
  EXPECT_TRUE(second.turn());
  EXPECT_EQ(launched, Order());
  first.give_up();
  EXPECT_TRUE(second.turn());
  EXPECT_EQ(launched, (Order{20}));
}

TEST_F(TurnerTest, WhatIsStuckCostsOthersOneTurn) {
  Queue first(turner, launched, 1, 10);
  first.stuck = true;
  std::vector<std::unique_ptr<Queue>> others;
  for (uint64_t i = 0; i < 100; ++i) others.push_back(std::make_unique<Queue>(turner, launched, 2, 20 + i));
  EXPECT_TRUE(others.back()->turn());  // all are known to be stuck
  first.turns = 0;
  for (auto& other : others) other->turns = 0;
  EXPECT_TRUE(others.back()->turn());
  EXPECT_EQ(first.turns, 1);
  EXPECT_EQ(others.front()->turns, 0);
}

}  // namespace
}  // namespace gpucoll::coll
