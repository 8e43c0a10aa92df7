// The order in which the calls of several communicators are launched: that in which the last rank came to each.
#include "coll/turner.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace gpucoll::coll {
namespace {

// One call, entered at `entered`, to which all had come at `complete`, as the first turn sees.
class Queue final : public Turned {
 public:
  Queue(Turner& turner, std::vector<uint64_t>& launched, uint64_t entered, uint64_t complete)
      : turner_(turner), launched_(launched), entered_(entered), complete_(complete) {
    turner_.know(this);
  }
  ~Queue() override { turner_.remove(this); }
  bool turn() override {
    ++turns;
    if (busy) return false;
    if (!entered_) return true;
    due_ = complete_;
    if (!turner_.turn_before(complete_, this) || stuck) return true;
    launched_.push_back(complete_);
    entered_ = due_ = 0;
    return true;
  }
  bool turn_on_thread() override { return turn() && entered_; }
  uint64_t first_entered() const noexcept override { return entered_; }
  uint64_t first_due() const noexcept override { return due_; }
  void give_up() { due_ = entered_ = 0; }

  bool busy = false, stuck = false;
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
