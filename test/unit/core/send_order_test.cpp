// In which order copies go, and from how many bytes on there are any.
#include "core/copy_engine/send_order.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/params.h"
#include "core/plan/copy_engine_limits.h"
#include "core/plan/tuning_file.h"

using namespace gpucoll;
using namespace gpucoll::core;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kBytes = uint64_t{64} << 20;
constexpr SendOrder::Clock::time_point kStart = SendOrder::Clock::time_point(1h);

// Offered in the order given; the peer is the turn.
std::optional<int> next_of(SendOrder& order, const std::vector<std::pair<int, bool>>& candidates, bool busy,
                           std::chrono::nanoseconds time) {
  for (const auto& [turn, ready] : candidates) order.offer({static_cast<uint64_t>(turn), kBytes, ready, turn});
  return order.next(busy, kStart + time);
}

constexpr auto kPatience = SendOrder::patience(kBytes);

gpu::Device::Defaults defaults_of_test() {
  gpu::Device::Defaults defaults = gpu::Device::kGpuDefaults;
  defaults.copy_engine_bytes = {1000, 1000};
  defaults.copy_exchange_bytes = {gpu::Device::kAsMessages, 3000};
  defaults.copy_all_gather_bytes = {gpu::Device::kAsMessages, 0};
  defaults.copy_reduction_bytes = {5000, 0};
  return defaults;
}

}  // namespace

TEST(SendOrder, GoInOrderWhateverIsUnderWay) {
  SendOrder order;
  EXPECT_EQ(next_of(order, {}, false, 0ns), std::nullopt);
  EXPECT_EQ(next_of(order, {{3, true}, {1, true}, {2, true}}, false, 0ns), 1);
  EXPECT_EQ(next_of(order, {{3, true}, {2, true}}, true, 0ns), 2);
  EXPECT_EQ(next_of(order, {{3, true}}, true, 0ns), 3);
  EXPECT_EQ(next_of(order, {{4, false}}, false, 1h), std::nullopt);
}

TEST(SendOrder, WaitForTheFirstOneWhileOthersAreUnderWay) {
  SendOrder order;
  EXPECT_EQ(next_of(order, {{1, false}, {2, true}}, true, 0ns), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {2, true}}, true, 1h), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, true}, {2, true}}, true, 1h), 1);
}

TEST(SendOrder, GoOutOfTurnOnceNothingHasBeenUnderWayForAWhile) {
  SendOrder order;
  EXPECT_EQ(next_of(order, {{1, false}, {3, true}, {2, true}}, false, 0ns), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {3, true}, {2, true}}, false, kPatience - 1ns), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {3, true}, {2, true}}, false, kPatience), 2);
  // The next one waits again, from when the copy has ended.
  EXPECT_EQ(next_of(order, {{1, false}, {3, true}}, true, 2 * kPatience), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {3, true}}, false, 5 * kPatience), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {3, true}}, false, 6 * kPatience - 1ns), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {3, true}}, false, 6 * kPatience), 3);
}

TEST(SendOrder, CountTheWaitOfWhatIsReadyOnly) {
  SendOrder order;
  EXPECT_EQ(next_of(order, {{1, false}, {2, true}}, false, 0ns), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {2, false}}, false, kPatience / 2), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {2, true}}, false, kPatience), std::nullopt);
  EXPECT_EQ(next_of(order, {{1, false}, {2, true}}, false, 2 * kPatience), 2);
}

TEST(SendOrder, HaveBoundedPatience) {
  EXPECT_GT(kPatience, 20us);
  EXPECT_LT(kPatience, 60us);
  EXPECT_EQ(SendOrder::patience(UINT64_MAX), 1ms);
}

TEST(CopyEngineLimits, DifferForTwoRanksAndForMore) {
  const gpu::Device::Defaults defaults = defaults_of_test();
  const auto all = [](const CopyEngineLimits& l) {
    return std::vector<uint64_t>{l.messages, l.exchanges, l.all_gathers, l.reductions};
  };
  EXPECT_EQ(all(copy_engine_limits(defaults, 1, nullptr, false)), (std::vector<uint64_t>{0, 0, 0, 0}));
  EXPECT_EQ(all(copy_engine_limits(defaults, 2, nullptr, false)), (std::vector<uint64_t>{1000, 1000, 1000, 5000}));
  EXPECT_EQ(all(copy_engine_limits(defaults, 3, nullptr, false)), (std::vector<uint64_t>{1000, 3000, 0, 0}));
  EXPECT_EQ(all(copy_engine_limits(defaults, 64, nullptr, false)), (std::vector<uint64_t>{1000, 3000, 0, 0}));
}

TEST(CopyEngineLimits, OfGpusBeginWhereCopiesWereMeasuredToBeFaster) {
  constexpr uint64_t kMiB = gpu::Device::kMiB;
  const CopyEngineLimits two = copy_engine_limits(gpu::Device::kGpuDefaults, 2, nullptr, false),
                         more = copy_engine_limits(gpu::Device::kGpuDefaults, 4, nullptr, false);
  EXPECT_EQ(two.messages, 32 * kMiB);
  EXPECT_EQ(more.messages, 256 * kMiB);
  EXPECT_EQ(two.exchanges, 32 * kMiB);
  EXPECT_EQ(more.exchanges, 128 * kMiB);
  EXPECT_EQ(two.all_gathers, 32 * kMiB);
  EXPECT_EQ(more.all_gathers, 0u) << "never";
  EXPECT_EQ(two.reductions, 256 * kMiB);
  EXPECT_EQ(more.reductions, 256 * kMiB);
}

// What nobody has set is what was measured, where it was.
TEST(CopyEngineLimits, AreCorrectedByATuningFile) {
  const gpu::Device::Defaults defaults = defaults_of_test();
  TuningTable measured;
  EXPECT_EQ(copy_engine_limits(defaults, 2, &measured, false).messages, 1000u);
  measured.limit(Limit::copy_engine_bytes) = 70;
  measured.limit(Limit::copy_exchange_bytes) = 80;
  measured.limit(Limit::copy_reduction_bytes) = 90;
  measured.limit(Limit::zero_copy_bytes) = 60;
  const CopyEngineLimits limits = copy_engine_limits(defaults, 2, &measured, false);
  EXPECT_EQ(limits.messages, 70u);
  EXPECT_EQ(limits.exchanges, 80u);
  EXPECT_EQ(limits.all_gathers, 80u);
  EXPECT_EQ(limits.reductions, 90u);
  EXPECT_EQ(least_zero_copy(defaults, 2, &measured), 60u);
  set_param("copy_engine_bytes", "75", "test").ignore();
  set_param("zero_copy_bytes", "65", "test").ignore();
  EXPECT_EQ(copy_engine_limits(defaults, 2, &measured, false).messages, 75u) << "a parameter counts for more";
  EXPECT_EQ(least_zero_copy(defaults, 2, &measured), 65u);
  set_param("copy_engine_bytes", "auto", "test").ignore();
  set_param("zero_copy_bytes", "auto", "test").ignore();
}

// A stream that waits for a copy which the host has still to start would keep cudaFree waiting, and that the host.
TEST(CopyEngineLimits, OfStreamOrderedCallsTakeNoneThatTheHostStarts) {
  const gpu::Device::Defaults defaults = defaults_of_test();
  TuningTable measured;
  measured.limit(Limit::copy_engine_bytes) = 70;
  for (const TuningTable* table :
       {static_cast<const TuningTable*>(nullptr), static_cast<const TuningTable*>(&measured)}) {
    const CopyEngineLimits limits = copy_engine_limits(defaults, 2, table, true);
    EXPECT_EQ(limits.messages, 0u);
    EXPECT_EQ(limits.exchanges, 0u);
    EXPECT_EQ(limits.all_gathers, 0u);
    EXPECT_EQ(limits.reductions, 5000u);
  }
  set_param("copy_engine_bytes", "75", "test").ignore();
  const CopyEngineLimits asked_for = copy_engine_limits(defaults, 2, nullptr, true);
  set_param("copy_engine_bytes", "auto", "test").ignore();
  EXPECT_EQ(asked_for.messages, 75u);
  EXPECT_EQ(asked_for.exchanges, 75u);
}

TEST(CopyEngineLimits, TurnOff) {
  gpu::Device::Defaults defaults = defaults_of_test();
  defaults.copy_exchange_bytes.more = 0;
  EXPECT_EQ(copy_engine_limits(defaults, 3, nullptr, false).exchanges, 0u);
  EXPECT_EQ(copy_engine_limits(defaults, 2, nullptr, false).exchanges, 1000u);
  defaults.copy_exchange_bytes.more = 10;
  EXPECT_EQ(copy_engine_limits(defaults, 3, nullptr, false).exchanges, 10u);
  defaults.copy_engine_bytes = {0, 0};
  EXPECT_EQ(copy_engine_limits(defaults, 2, nullptr, false).messages, 0u);
  EXPECT_EQ(copy_engine_limits(defaults, 2, nullptr, false).exchanges, 0u);
  EXPECT_EQ(copy_engine_limits(defaults, 2, nullptr, false).reductions, 0u);
  EXPECT_EQ(copy_engine_limits(defaults, 3, nullptr, false).exchanges, 0u);
}
