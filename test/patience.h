// How long a test waits for what must come.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace gpucoll_test {

// Returns `usual`, or five seconds where this program is a mutant (src/base/mutant.h), which may wait in vain.
inline std::chrono::seconds patience(std::chrono::seconds usual) {
  return getenv("GC_MUTANT") ? std::min(usual, std::chrono::seconds(5)) : usual;
}

}  // namespace gpucoll_test
