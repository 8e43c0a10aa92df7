// A row of the table, and what it says: computed here for table, JSON and CSV alike.
//
// Thread safety: pure functions.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "perf/collective.h"
#include "perf/measure.h"

namespace gpucoll::perf {

// The same row of an earlier run.
struct Was {
  double median_us = 0;
  std::optional<uint64_t> bits;
};

struct Row {
  Call call;
  std::vector<Times> runs;  // not empty
  bool with_baseline = false;
  uint64_t wrong = 0;
  std::optional<uint64_t> bits;  // Checker::fingerprint(); nothing where results are not checked
  std::optional<Was> was;
};

struct Range {
  double least = 0, most = 0;
};

// Over all runs: medians of each time, but the least and the most of single calls.
struct Figures {
  Sample ours, baseline;
  Range medians_us;  // ours, of the runs
  double ratio = 0;  // how many times as fast as the baseline: the runs' median
  Range ratios;
};
Figures figures(const Row& row);

// Decimal: 1e9 bytes a second; 0 for an empty message.
double algbw(const Call& call, const Sample& sample);
double busbw(const Call& call, const Sample& sample);
// How much of the call took no time because of the computing beside it, 0 to 100.
double hidden_percent(const Sample& sample);
// How many times as fast as it was. REQUIRES: row.was.
double speedup(const Row& row, const Figures& figures);
bool slower(const Row& row, const Figures& figures, double tolerance_percent);
bool other_bits(const Row& row);

// The operation's name, or "-".
const char* op_text(const Call& call);
// As --type-shape has it.
const char* shape_text(const Call& call);

}  // namespace gpucoll::perf
