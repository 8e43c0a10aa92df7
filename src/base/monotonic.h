// The monotonic clock of the node, as a number that processes can compare.
//
// Thread safety: any thread.
#pragma once
#include <chrono>
#include <cstdint>

namespace gpucoll {

// Returns the nanoseconds of std::chrono::steady_clock.
inline int64_t monotonic_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace gpucoll
