// Counts the looks of waiting threads, so that a test knows that one has looked often and not gone on.
//
// Every turn of a wait loop ends in proto::pause(), which yields the processor: the program's own sched_yield() counts.
// Include it in one file of a program.
#pragma once
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace gpucoll::test {

inline std::atomic<uint64_t> looks{0};

// Returns once the waiting threads have looked `n` times more; at the latest after two seconds, as none waits that has
// gone on by mistake.
inline void let_them_look(uint64_t n = 300) {
  const uint64_t wanted = looks.load() + n;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (looks.load() < wanted && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
}

}  // namespace gpucoll::test

extern "C" int sched_yield() noexcept {
  gpucoll::test::looks.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(SYS_sched_yield));
}
