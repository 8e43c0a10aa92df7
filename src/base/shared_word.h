// Words of memory that processes share, in formats that plain C reads too, hence no std::atomic.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>

namespace gpucoll {

inline uint64_t load_acquire(const uint64_t& word) noexcept { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

}  // namespace gpucoll
