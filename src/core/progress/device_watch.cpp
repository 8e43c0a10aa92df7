#include "core/progress/device_watch.h"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/mutant.h"
#include "base/service_thread.h"

namespace gpucoll::core {
namespace {

std::atomic<bool> exiting{false};  // what a device says while its runtime ends means nothing

}  // namespace

void DeviceState::ask() noexcept {
  if (failed() || exiting || gc_mutant(420)) return;
  try {
    Status health = device_.health();
    if (health || exiting) return;
    why_ = std::move(health);
    failed_.store(true, std::memory_order_release);  // partner: failed()
  } catch (...) {
    // No memory for the sentence: the next look tries again.
  }
}

DeviceWatch& DeviceWatch::instance() {
  // Never destroyed: the thread may still run while the process's statics are torn down.
  static DeviceWatch* watch = new DeviceWatch;
  return *watch;
}

std::shared_ptr<const DeviceState> DeviceWatch::watch(gpu::Device& device) {
  static const int registered = std::atexit([] { exiting = true; });
  (void)registered;
  std::lock_guard lock(mutex_);
  for (const auto& known : states_)
    if (auto state = known.lock(); state && &state->device_ == &device) return state;
  auto state = std::make_shared<DeviceState>(device);
  states_.push_back(state);
  if (running_) return state;
  service_thread([this] { run(); }).detach();  // ends by itself when nothing is left to watch
  running_ = true;                             // only now: starting a thread may fail
  return state;
}

// Returns the states that live; where none does, the thread is to end.
std::vector<std::shared_ptr<DeviceState>> DeviceWatch::watched() {
  std::lock_guard lock(mutex_);
  std::erase_if(states_, [](const auto& state) { return state.expired(); });
  std::vector<std::shared_ptr<DeviceState>> all;
  for (const auto& known : states_)
    if (auto state = known.lock()) all.push_back(std::move(state));
  if (all.empty()) running_ = false;
  return all;
}

void DeviceWatch::run() {
  for (;;) {
    {
      const auto all = watched();
      if (all.empty()) return;
      for (const auto& state : all) state->ask();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace gpucoll::core
