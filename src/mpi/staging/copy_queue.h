// Copies by packing kernels on a stream of their own: those of one round of progress share a launch, and the last block
// of a launch counts it in a word that the host polls, which takes less time than an event.
//
// Launches have the numbers 1, 2, ..., and end in that order. The word is host memory that the device sees; it may be
// shared memory, so that other processes see how far the copies are.
// Thread safety: any thread. Ownership: lives until the process ends; buffers and lists of runs belong to the callers,
// until the launch has ended.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "gpu/device.h"
#include "proto/format/packing.h"

namespace gpucoll::coll {

class CopyQueue {
 public:
  // A word of zero, by its two addresses.
  struct DoneWord {
    const uint64_t* host;
    uint64_t* kernel;
  };
  // Errors: the device's.
  static Result<std::unique_ptr<CopyQueue>> create(gpu::Device& device, DoneWord done);

  // Adds the copies of `items` to the next launch. Returns its number. to_host: it stores into host memory. Errors: the
  // device's, of this or an earlier launch. REQUIRES: 1 to proto::kPackItems items.
  Result<uint64_t> add(std::span<const proto::PackItem> items, bool to_host);
  // Launches what has been added. Errors: see ended().
  void launch();
  // Returns whether a launch has ended; false also before launch(). Errors: the device's.
  Result<bool> ended(uint64_t number);

 private:
  CopyQueue(gpu::Device& device, DoneWord done) : device_(device), done_(done) {}
  uint64_t done() const { return __atomic_load_n(done_.host, __ATOMIC_ACQUIRE); }
  // REQUIRES: the lock.
  Status put();
  void put_or_fail();
  Status look_at_device();

  gpu::Device& device_;
  const DoneWord done_;
  std::mutex mutex_;
  gpu::Stream stream_ = nullptr;
  gpu::Event event_ = nullptr;
  proto::DeviceComm* counters_ = nullptr;  // kernel address
  std::vector<proto::PackItem> pending_;
  bool to_host_ = false;
  uint64_t launched_ = 0;
  std::atomic<bool> has_pending_ = false, failed_ = false;
  std::atomic<uint32_t> looks_ = 0;
  Status failure_;
};

}  // namespace gpucoll::coll
