// A hash of words, for tables and for comparisons between the ranks of a job.
//
// Thread safety: pure function.
#pragma once
#include <cstdint>

namespace gpucoll {

// Returns the hash of what `hash` stands for, followed by `value`.
constexpr uint64_t hash_combine(uint64_t hash, uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

}  // namespace gpucoll
