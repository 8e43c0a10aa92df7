// What gpucoll-perf makes of its times: percentiles, spread over runs, overlap, and the comparison with earlier ones.
#include "perf/figures.h"

#include <gtest/gtest.h>

#include <fstream>

#include "perf/earlier.h"
#include "perf/json.h"

namespace gpucoll::perf {
namespace {

Times times(double ours_us, double baseline_us) {
  Times t;
  t.ours.call = summarize({ours_us - 1, ours_us, ours_us + 1});
  t.baseline.call = summarize({baseline_us});
  return t;
}

Row three_runs() {
  Row row;
  row.call.count = 1000;
  row.call.ranks = 4;
  row.runs = {times(30, 60), times(10, 15), times(20, 20)};
  row.with_baseline = true;
  return row;
}

TEST(PerfFigures, Percentiles) {
  std::vector<double> times_us;
  for (int i = 1000; i >= 1; --i) times_us.push_back(i);
  const Timing t = summarize(times_us);
  EXPECT_EQ(t.min_us, 1);
  EXPECT_EQ(t.median_us, 500.5);
  EXPECT_EQ(t.p90_us, 900);
  EXPECT_EQ(t.p99_us, 990);
  EXPECT_EQ(t.max_us, 1000);
  const Timing single = summarize({7});
  EXPECT_EQ(single.p90_us, 7);
  EXPECT_EQ(single.p99_us, 7);
}

TEST(PerfFigures, SpreadOverRuns) {
  const Figures f = figures(three_runs());
  EXPECT_EQ(f.ours.call.median_us, 20);
  EXPECT_EQ(f.ours.call.min_us, 9);
  EXPECT_EQ(f.ours.call.max_us, 31);
  EXPECT_EQ(f.medians_us.least, 10);
  EXPECT_EQ(f.medians_us.most, 30);
  // 2, 1.5 and 1: of each run, not of the medians.
  EXPECT_EQ(f.ratio, 1.5);
  EXPECT_EQ(f.ratios.least, 1);
  EXPECT_EQ(f.ratios.most, 2);
  EXPECT_DOUBLE_EQ(busbw(three_runs().call, f.ours), 4000 / 20.0 * 1e-3 * 1.5);
}

TEST(PerfFigures, HiddenIsWhatTheCallDoesNotAdd) {
  Sample s;
  s.call.median_us = 40;
  s.computing_us = 50;
  s.both_us = 90;
  EXPECT_EQ(hidden_percent(s), 0);
  s.both_us = 60;
  EXPECT_EQ(hidden_percent(s), 75);
  s.both_us = 49;
  EXPECT_EQ(hidden_percent(s), 100);
  s.both_us = 100;
  EXPECT_EQ(hidden_percent(s), 0);
}

class PerfEarlier : public testing::Test {
 protected:
  void SetUp() override {
    options_.baseline = BaselineChoice::nccl;
    heading_.places.resize(4);
    heading_.device_kind = "emu";
    row_ = three_runs();
    row_.bits = 0xfedcba9876543210u;
    file_ = heading_json(options_, heading_);
    file_["results"].push_back(row_json(row_, figures(row_), options_));
  }
  ~PerfEarlier() override { std::remove(kPath); }

  Result<Earlier> load() const {
    std::ofstream(kPath) << file_;
    return Earlier::load(kPath);
  }

  static constexpr const char* kPath = "earlier_test.json";
  Options options_;
  Heading heading_;
  Row row_;
  nlohmann::ordered_json file_;
};

TEST_F(PerfEarlier, FindsItsRow) {
  const auto earlier = load();
  ASSERT_TRUE(earlier.ok()) << earlier.status().what();
  EXPECT_TRUE(earlier->require_same_work(heading_json(options_, heading_)).ok());
  row_.was = earlier->find(row_.call);
  ASSERT_TRUE(row_.was);
  EXPECT_EQ(row_.was->median_us, 20);
  EXPECT_EQ(row_.was->bits, row_.bits);
  Call other = row_.call;
  other.count = 999;
  EXPECT_FALSE(earlier->find(other));
  other = row_.call;
  other.type = Type::int32;
  EXPECT_FALSE(earlier->find(other));
}

TEST_F(PerfEarlier, SlowerIsBeyondTheTolerance) {
  row_.was = Was{20 / 1.2, 0};
  const Figures f = figures(row_);
  EXPECT_DOUBLE_EQ(speedup(row_, f), 1 / 1.2);
  EXPECT_TRUE(slower(row_, f, 19));
  EXPECT_FALSE(slower(row_, f, 21));
  EXPECT_TRUE(other_bits(row_));
  row_.was->bits = row_.bits;
  EXPECT_FALSE(other_bits(row_));
  row_.was.reset();
  EXPECT_FALSE(slower(row_, f, 0));
}

TEST_F(PerfEarlier, OtherWorkIsNotCompared) {
  heading_.places.resize(3);
  const Status status = load()->require_same_work(heading_json(options_, heading_));
  ASSERT_FALSE(status.ok());
  EXPECT_STREQ(status.what(), "--compare earlier_test.json: is of other work: its ranks is 4, here it is 3");
}

TEST_F(PerfEarlier, FilesWithMistakes) {
  EXPECT_FALSE(Earlier::load("/nonexistent/x").ok());
  file_["results"][0].erase("median_us");
  EXPECT_FALSE(load().ok());
  file_["results"][0]["median_us"] = "fast";
  EXPECT_FALSE(load().ok());
  file_["results"] = 3;
  EXPECT_FALSE(load().ok());
  file_ = {{"tool", "another"}};
  EXPECT_FALSE(load().ok());
  file_ = 3;
  EXPECT_FALSE(load().ok());
}

}  // namespace
}  // namespace gpucoll::perf
