#include "tune/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/usual_shape.h"
#include "tune/ways.h"

namespace gpucoll::tune {
namespace {

using core::CommProperties;
using core::Function;

// Behind the fastest by more than this, an algorithm will not be chosen at larger sizes either: what it lacks is
// bandwidth.
constexpr double kHopeless = 6;
constexpr double kNone = std::numeric_limits<double>::max();

// What the tuner calls bytes, of a rank's largest buffer of `size` bytes; whole floats.
uint64_t task_bytes(Function function, uint64_t size, int n_ranks) {
  const bool parts =
      function == Function::all_gather || function == Function::reduce_scatter || core::is_exchange(function);
  return (parts ? size / static_cast<uint64_t>(n_ranks) : size) / sizeof(float) * sizeof(float);
}

struct Contender {
  Way way;
  bool hopeless = false;  // so slow at this size that larger ones need not be measured
  double us = kNone;      // at this size
  std::vector<Rivals> rivals = {};
};

class Sweep {
 public:
  Sweep(const Plan& plan, Team& team, const CommProperties& shape) : plan_(plan), team_(team), shape_(shape) {
    table_.emulated = plan.emulated;
    table_.n_ranks = shape.n_ranks;
  }
  Status run(Function function);
  core::TuningTable& table() { return table_; }

 private:
  Status measure(Function function, uint64_t bytes);
  void judge(Function function, uint64_t bytes);
  double fastest_rival(const Way& way) const;

  const Plan& plan_;
  Team& team_;
  const CommProperties& shape_;
  core::TuningTable table_;
  std::vector<Contender> contenders_;
  std::string winner_;
};

Status Sweep::run(Function function) {
  contenders_.clear();
  for (const Way& way : ways_of(function)) contenders_.push_back({way});
  winner_.clear();
  uint64_t last = 0;
  for (uint64_t size : plan_.sizes) {
    const uint64_t bytes = task_bytes(function, size, shape_.n_ranks);
    if (bytes <= last) continue;
    GC_TRY(measure(function, bytes));
    judge(function, bytes);
    last = bytes;
  }
  for (const Contender& c : contenders_)
    if (const auto limit = limit_of(c.rivals)) table_.limit(c.way.limit) = *limit;
  return {};
}

Status Sweep::measure(Function function, uint64_t bytes) {
  for (Contender& c : contenders_) {
    c.us = kNone;
    if (c.hopeless || !possible(c.way, function, bytes, shape_)) continue;
    GC_TRY_AS(const Engines engines, force(c.way, function));
    GC_TRY_AS(c.us, team_.time(function, bytes, engines, plan_.repeats));
    if (c.way.kind == Way::Kind::limit) continue;
    table_.points[static_cast<int>(function)][static_cast<int>(c.way.algorithm)][static_cast<int>(c.way.protocol)]
        .push_back({bytes, c.us});
  }
  return {};
}

// Of what the way takes the place of: copy engines also that of zero-copy.
double Sweep::fastest_rival(const Way& way) const {
  double us = kNone;
  for (const Contender& c : contenders_) {
    const bool zero_copy = c.way.kind == Way::Kind::limit && c.way.limit == core::Limit::zero_copy_bytes;
    if (c.way.kind == Way::Kind::timed || (zero_copy && way.limit != core::Limit::zero_copy_bytes))
      us = std::min(us, c.us);
  }
  return us;
}

void Sweep::judge(Function function, uint64_t bytes) {
  const auto best = std::min_element(contenders_.begin(), contenders_.end(),
                                     [](const Contender& a, const Contender& b) { return a.us < b.us; });
  for (Contender& c : contenders_) {
    if (c.us == kNone) continue;
    if (c.way.kind == Way::Kind::timed)
      c.hopeless = c.us > kHopeless * best->us;
    else
      c.rivals.push_back({bytes, c.us, fastest_rival(c.way)});
  }
  const std::string fastest = name(best->way);
  if (plan_.tells && fastest != winner_)
    fmt::print(stderr, "{} ranks, {} from {} bytes: {} ({:.1f} us)\n", shape_.n_ranks, core::name(function), bytes,
               fastest, best->us);
  winner_ = fastest;
}

}  // namespace

Result<core::TuningTable> sweep(const Plan& plan, Team& team, int n_ranks) {
  GC_TRY_AS(const CommProperties shape, tools::usual_shape(plan.emulated, n_ranks));
  Sweep sweep(plan, team, shape);
  for (Function function : plan.functions) GC_TRY(sweep.run(function));
  return std::move(sweep.table());
}

}  // namespace gpucoll::tune
