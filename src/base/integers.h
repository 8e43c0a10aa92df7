// Arithmetic of unsigned integers.
//
// Thread safety: pure functions.
#pragma once
#include <cstdint>

namespace gpucoll {

// Returns a / b, rounded up. REQUIRES: a + b - 1 is no overflow.
constexpr uint64_t ceil_div(uint64_t a, uint64_t b) noexcept { return (a + b - 1) / b; }

}  // namespace gpucoll
