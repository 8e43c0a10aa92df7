#include "perf/figures.h"

#include <algorithm>

namespace gpucoll::perf {
namespace {

// What `value` says of each run.
template <class Value>
std::vector<double> of_runs(const Row& row, Value&& value) {
  std::vector<double> values;
  for (const Times& times : row.runs) values.push_back(value(times));
  return values;
}

Range range(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least, *most};
}

Sample of_side(const Row& row, Sample Times::*side) {
  const auto all = [&](auto&& value) { return of_runs(row, [&](const Times& times) { return value(times.*side); }); };
  Sample sample;
  sample.call.median_us = median(all([](const Sample& s) { return s.call.median_us; }));
  sample.call.min_us = range(all([](const Sample& s) { return s.call.min_us; })).least;
  sample.call.max_us = range(all([](const Sample& s) { return s.call.max_us; })).most;
  sample.call.p90_us = median(all([](const Sample& s) { return s.call.p90_us; }));
  sample.call.p99_us = median(all([](const Sample& s) { return s.call.p99_us; }));
  sample.computing_us = median(all([](const Sample& s) { return s.computing_us; }));
  sample.both_us = median(all([](const Sample& s) { return s.both_us; }));
  return sample;
}

double quotient(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

Figures figures(const Row& row) {
  Figures f;
  f.ours = of_side(row, &Times::ours);
  f.medians_us = range(of_runs(row, [](const Times& t) { return t.ours.call.median_us; }));
  if (!row.with_baseline) return f;
  f.baseline = of_side(row, &Times::baseline);
  const std::vector<double> ratios =
      of_runs(row, [](const Times& t) { return quotient(t.baseline.call.median_us, t.ours.call.median_us); });
  f.ratio = median(ratios);
  f.ratios = range(ratios);
  return f;
}

double algbw(const Call& call, const Sample& sample) {
  return quotient(static_cast<double>(table_bytes(call)), sample.call.median_us) * 1e-3;
}

double busbw(const Call& call, const Sample& sample) { return algbw(call, sample) * bus_factor(call); }

double hidden_percent(const Sample& sample) {
  const double shown = quotient(sample.both_us - sample.computing_us, sample.call.median_us);
  return std::clamp(100 * (1 - shown), 0.0, 100.0);
}

double speedup(const Row& row, const Figures& figures) {
  return quotient(row.was->median_us, figures.ours.call.median_us);
}

bool slower(const Row& row, const Figures& figures, double tolerance_percent) {
  return row.was && figures.ours.call.median_us > row.was->median_us * (1 + tolerance_percent / 100);
}

bool other_bits(const Row& row) { return row.was && row.bits && row.was->bits && *row.bits != *row.was->bits; }

const char* shape_text(const Call& call) { return call.shape ? call.shape->text.c_str() : "contiguous"; }

const char* op_text(const Call& call) { return reduces(call.collective) ? name(call.op) : "-"; }

}  // namespace gpucoll::perf
