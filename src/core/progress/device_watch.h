// One thread a process that asks devices ten times a second whether they still work. After an error that sticks, as by
// a kernel of the program that has accessed memory which is not there, nothing that was launched ever ends: no done
// word comes, and no kernel looks at the fault latch. The watchdog does not ask: the driver may hold the question up
// as long as another thread's call waits for the device, and the watchdog ends the kernels whose peer is gone.
//
// Thread safety: any thread. Ownership: whoever watches a device shares its state; the thread ends with the last state.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::core {

class DeviceState {
 public:
  explicit DeviceState(gpu::Device& device) : device_(device) {}
  // Returns whether the device runs nothing any more.
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }  // partner: ask()
  // Returns the reason. REQUIRES: failed().
  const Status& why() const noexcept { return why_; }

 private:
  friend class DeviceWatch;
  void ask() noexcept;
  gpu::Device& device_;
  std::atomic<bool> failed_{false};
  Status why_;
};

class DeviceWatch {
 public:
  static DeviceWatch& instance();
  // Watches the device as long as the state lives. Errors: std::system_error, where no thread can be started.
  std::shared_ptr<const DeviceState> watch(gpu::Device& device);

 private:
  void run();
  std::vector<std::shared_ptr<DeviceState>> watched();
  std::mutex mutex_;
  std::vector<std::weak_ptr<DeviceState>> states_;
  bool running_ = false;
};

}  // namespace gpucoll::core
