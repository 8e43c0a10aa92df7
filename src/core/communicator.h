// A communicator of the runtime: ranks, channels, connections, and the launches on them.
//
// Life: create() (collective) → connect() (collective, at the first operation) → launch() any number of times →
// finish() → retire() (see retired.h), which destroys it once peers_closed(): peers write into its memory until then.
// Thread safety: one caller at a time, but fault(), raise_fault() and the watchdog's check() at any time.
// Invariants: launches are ordered on the device in the order of launch(), whatever streams they use; the done word
// counts finished launches. Ownership: owns connections and device memory; the device outlives it.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "core/fault.h"
#include "core/memory_port.h"
#include "core/mesh.h"
#include "core/peers.h"
#include "core/planner.h"
#include "core/ring.h"
#include "core/watchdog.h"
#include "gpu/device.h"

namespace gpucoll::core {

class Communicator final : public Watched {
 public:
  static Result<std::unique_ptr<Communicator>> create(gpu::Device& device, std::unique_ptr<net::Bootstrap> bootstrap);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  gpu::Device& device() const { return device_; }
  const Fault& fault() const { return fault_; }
  void raise_fault(const Status& status) noexcept { fault_.raise(status); }

  bool connected() const { return connected_; }
  // A failure latches: the peers learn of it.
  Status connect();

  // Puts the tasks on their streams. REQUIRES: connected. Does not wait. A failure latches.
  Status launch(const std::vector<Task>& tasks);
  // The internal stream: for callers without one of their own.
  gpu::Stream stream() const { return order_; }
  uint64_t launched() const { return launched_; }
  bool done(uint64_t launches) const noexcept;
  // Waits until `launches` launches have finished or the fault latch is set; calls idle() between looks.
  Status wait(uint64_t launches, void (*idle)());

  // This rank launches nothing more. REQUIRES: done(launched()), or a fault.
  void begin_close() noexcept;
  // Whether the peers are done with this rank's memory: each is closing, has failed, or is dead.
  bool peers_closed() const noexcept;
  // Waits for outstanding launches and begins to close; the first failure of the communicator.
  Status finish(void (*idle)());

  void check() noexcept override;

 private:
  Communicator(gpu::Device& device, std::unique_ptr<net::Bootstrap> bootstrap)
      : device_(device), memory_(device), bootstrap_(std::move(bootstrap)) {}
  // What kernels and host share.
  struct HostWords {
    proto::FaultLatch latch;
    alignas(64) uint64_t done;
  };
  Status allocate();
  Status make_connections();
  Status build_device_comm();
  Status launch_one(PlannedLaunch& launch);
  CommShape shape() const;
  void look_for_timeout() noexcept;
  HostWords* words() const { return static_cast<HostWords*>(host_.host); }

  gpu::Device& device_;
  DeviceMemoryPort memory_;
  std::unique_ptr<net::Bootstrap> bootstrap_;
  Peers peers_;
  std::atomic<bool> watchable_{false};  // peers_ is there
  Fault fault_;
  gpu::HostBlock host_;
  gpu::Stream order_ = nullptr;  // every launch is in it, or it waits for the launch
  gpu::Stream last_stream_ = nullptr;
  bool any_launch_ = false;
  int n_channels_ = 0, threads_ = 0;
  size_t slot_bytes_ = 0;
  uint64_t one_shot_bytes_ = 0;
  bool connected_ = false, closing_ = false;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<Mesh> mesh_;
  uint32_t mesh_flag_ = 0;  // of the last mesh operation
  void* device_comm_ = nullptr;
  uint64_t launched_ = 0;
  std::vector<const gpu::Kernel*> prepared_;
  // The watchdog's: how long the done word has stood still while something was launched.
  uint64_t seen_done_ = 0;
  int64_t stalled_since_ns_ = 0;
};

}  // namespace gpucoll::core
