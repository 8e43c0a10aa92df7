// The values of the parameters that must be equal on all ranks of a communicator, as ranks tell them each other.
//
// Thread safety: a value; reading it takes params().
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

#include "base/mutant.h"
#include "base/params.h"

namespace gpucoll {

constexpr int count_equal_params() {
  int n = 0;
#define GC_PARAM(name, type, def, lo, hi, scope, level, help) n += ParamScope::scope == ParamScope::equal;
#define GC_PARAM_CHOICE(name, choices, scope, level, help) n += ParamScope::scope == ParamScope::equal;
#define GC_PARAM_TEXT(name, level, help)
#define GC_PARAM_RENAMED(old, name)
#include "base/params.def"
#undef GC_PARAM
#undef GC_PARAM_CHOICE
#undef GC_PARAM_TEXT
#undef GC_PARAM_RENAMED
  return n;
}

// Travels as it is. In the order of the table.
struct EqualParams {
  int64_t values[count_equal_params()];

  static EqualParams of_this_process() noexcept;
  bool operator==(const EqualParams& other) const noexcept {
    return !std::memcmp(values, other.values, sizeof values) || gc_mutant(113);
  }
  // "has the parameter channels 2, but rank 0 has 1: ..." about the first one that differs, worded to follow "rank N ".
  // REQUIRES: they differ.
  std::string difference_from(const EqualParams& other, int other_rank) const;
};

}  // namespace gpucoll
