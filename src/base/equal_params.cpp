#include "base/equal_params.h"

#include "base/environment.h"

namespace gpucoll {
namespace {

// Calls each(info, i) of the i-th parameter that must be equal.
template <class Each>
void for_equal_params(const Each& each) {
  size_t count = 0;
  const ParamInfo* const table = param_table(&count);
  for (size_t at = 0, i = 0; at < count; ++at)
    if (table[at].scope == ParamScope::equal) each(table[at], i++);
}

}  // namespace

EqualParams EqualParams::of_this_process() noexcept {
  EqualParams all;
  for_equal_params([&](const ParamInfo& info, size_t i) { all.values[i] = params().*info.member; });
  return all;
}

std::string EqualParams::difference_from(const EqualParams& other, int other_rank) const {
  std::string text;
  for_equal_params([&](const ParamInfo& info, size_t i) {
    if (!text.empty() || values[i] == other.values[i]) return;
    text = std::string("has the parameter ") + info.name + " " + param_text(info, values[i]) + ", but rank " +
           std::to_string(other_rank) + " has " + param_text(info, other.values[i]) +
           ": set it equal on all ranks, e.g. with mpirun -x " + variable_of(info) + "=... or --mca coll_gpucoll_" +
           info.name + " ...";
  });
  return text;
}

}  // namespace gpucoll
