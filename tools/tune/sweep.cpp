#include "tune/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/usual_shape.h"
#include "core/abi.h"

namespace gpucoll::tune {
namespace {

using core::Algorithm;
using core::CommShape;
using core::Function;
using core::Protocol;

struct Path {
  Function function;
  Algorithm algorithm;
  Protocol protocol;
  bool hopeless = false;  // so slow at this size that larger ones need not be measured
};
// Behind the fastest by more than this, a path will not be chosen at larger sizes either: what it lacks is bandwidth.
constexpr double kHopeless = 6;

// In the library, not in the copy of the parameters that this program has.
Status force(const char* parameter, const char* value) {
  const gc_abi* abi = gpucoll_abi(GC_ABI_VERSION);
  if (!abi) return Status::error(Code::unsupported, "this libgpucoll is of another version than gpucoll-tune");
  if (abi->set_param(parameter, value) == 0) return {};
  return Status::error(Code::internal, "the parameter %s does not take %s", parameter, value);
}

std::vector<Path> paths_of(Function function) {
  std::vector<Path> paths;
  for (Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::one_shot, Algorithm::all_pairs})
    for (Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128})
      if (core::supported(function, algorithm, protocol)) paths.push_back({function, algorithm, protocol});
  return paths;
}

// What the tuner calls bytes, of a rank's largest buffer of `size` bytes; whole floats.
uint64_t task_bytes(Function function, uint64_t size, int n_ranks) {
  const bool parts = function == Function::all_gather || function == Function::reduce_scatter;
  return (parts ? size / static_cast<uint64_t>(n_ranks) : size) / sizeof(float) * sizeof(float);
}

core::TuningTable::Points& points_of(core::TuningTable& table, const Path& path) {
  return table
      .points[static_cast<int>(path.function)][static_cast<int>(path.algorithm)][static_cast<int>(path.protocol)];
}

class Sweep {
 public:
  Sweep(const Plan& plan, Team& team, const CommShape& shape) : plan_(plan), team_(team), shape_(shape) {
    table_.emulated = plan.emulated;
    table_.n_ranks = shape.n_ranks;
  }
  Status run(Function function);
  core::TuningTable& table() { return table_; }

 private:
  Status one(Path& path, uint64_t bytes, double* us);
  // All paths of one size. *winner: the name of the fastest so far, told when it changes.
  Status size(std::vector<Path>& paths, uint64_t bytes, std::string* winner);

  const Plan& plan_;
  Team& team_;
  const CommShape& shape_;
  core::TuningTable table_;
};

Status Sweep::run(Function function) {
  std::vector<Path> paths = paths_of(function);
  std::string winner;
  uint64_t last = 0;
  for (uint64_t size_of_buffer : plan_.sizes) {
    const uint64_t bytes = task_bytes(function, size_of_buffer, shape_.n_ranks);
    if (bytes <= last) continue;
    GC_TRY(size(paths, bytes, &winner));
    last = bytes;
  }
  return {};
}

Status Sweep::size(std::vector<Path>& paths, uint64_t bytes, std::string* winner) {
  double best = std::numeric_limits<double>::max();
  std::string fastest;
  std::vector<double> times(paths.size(), -1);
  for (size_t i = 0; i < paths.size(); ++i) {
    Path& path = paths[i];
    if (path.hopeless || core::obstacle(path.function, path.algorithm, path.protocol, bytes, shape_, true)) continue;
    GC_TRY(one(path, bytes, &times[i]));
    if (times[i] >= best) continue;
    best = times[i];
    fastest = fmt::format("{} {}", core::name(path.algorithm), core::name(path.protocol));
  }
  for (size_t i = 0; i < paths.size(); ++i) paths[i].hopeless |= times[i] > kHopeless * best;
  if (fastest != *winner)
    fmt::print(stderr, "{} ranks, {} from {} bytes: {} ({:.1f} us)\n", shape_.n_ranks, core::name(paths[0].function),
               bytes, fastest, best);
  *winner = fastest;
  return {};
}

Status Sweep::one(Path& path, uint64_t bytes, double* us) {
  GC_TRY(force("algorithm", core::name(path.algorithm)));
  GC_TRY(force("protocol", core::name(path.protocol)));
  GC_TRY_AS(*us, team_.time(path.function, bytes, plan_.repeats));
  points_of(table_, path).push_back({bytes, *us});
  return {};
}

}  // namespace

Result<std::vector<core::TuningTable>> sweep(const Plan& plan) {
  std::vector<core::TuningTable> tables;
  for (int n : plan.ranks) {
    GC_TRY_AS(const CommShape shape, tools::usual_shape(plan.emulated, n));
    GC_TRY_AS(const auto team, Team::create(n, plan.max_bytes));
    Sweep sweep(plan, *team, shape);
    for (Function function : plan.functions) GC_TRY(sweep.run(function));
    tables.push_back(std::move(sweep.table()));
  }
  return tables;
}

}  // namespace gpucoll::tune
