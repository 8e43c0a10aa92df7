#include "core/retired.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <vector>

namespace gpucoll::core {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kExitPatienceMs = 10000;

struct Retired {
  std::mutex mutex;
  std::vector<std::unique_ptr<Communicator>> list;
};

Retired& retired() {
  static Retired* r = new Retired;  // outlives the process's statics: see at_exit
  return *r;
}

// Takes out what can be destroyed, so that destructors run without the lock.
bool destroy_closed() {
  std::vector<std::unique_ptr<Communicator>> closed;
  std::lock_guard lock(retired().mutex);
  auto& list = retired().list;
  for (size_t i = 0; i < list.size();) {
    if (!list[i]->unused() || !list[i]->peers_closed()) {
      ++i;
      continue;
    }
    closed.push_back(std::move(list[i]));
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return list.empty();
}

void nap() {
  timespec t = {0, 100'000};
  nanosleep(&t, nullptr);
}

// The device may be half torn down here: only waits until the peers no longer need this process's memory.
void at_exit() {
  auto deadline = Clock::now() + std::chrono::milliseconds(kExitPatienceMs);
  std::lock_guard lock(retired().mutex);
  for (auto& communicator : retired().list) {
    while (!communicator->peers_closed() && Clock::now() < deadline) nap();
  }
}

}  // namespace

void retire(std::unique_ptr<Communicator> communicator, int64_t patience_ms) {
  static const int registered = std::atexit(at_exit);
  (void)registered;
  {
    std::lock_guard lock(retired().mutex);
    retired().list.push_back(std::move(communicator));
  }
  drain_retired(patience_ms, nullptr);
}

bool drain_retired(int64_t patience_ms, void (*idle)()) {
  auto deadline = Clock::now() + std::chrono::milliseconds(patience_ms);
  for (;;) {
    if (destroy_closed()) return true;
    if (Clock::now() >= deadline) return false;
    if (idle) idle();
    nap();
  }
}

}  // namespace gpucoll::core
