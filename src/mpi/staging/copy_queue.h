// Copies by packing kernels on a stream of their own: those of one round of progress share a launch, and the last block
// of a launch counts it in a word that the host polls, which takes less time than an event.
//
// Launches have the numbers 1, 2, ..., and end in that order. The word is host memory that the device sees; it may be
// shared memory, so that other processes see how far the copies are. Where copies that are not large follow each other
// closely, the kernel stays for the next ones (core/launch/resident_kernel.h), which then take no launch, but have a
// number as well. It has one block for small copies, and several where larger ones are among them.
// Thread safety: any thread. Ownership: lives until the process ends; buffers and lists of runs belong to the callers,
// until the launch has ended.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "core/launch/resident_kernel.h"
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
  // No kernel stays from now on: other processes use the device in turn.
  void never_stay();

  // Adds the copies of `items` to the next launch. Returns its number. to_host: it stores into host memory. Errors: the
  // device's, of this or an earlier launch. REQUIRES: 1 to proto::kPackItems items.
  Result<uint64_t> add(std::span<const proto::PackItem> items, bool to_host);
  // Launches what has been added; not before a kernel that stays has seen what was posted to it: call it again.
  // Errors: see ended().
  void launch();
  // Returns whether a launch has ended; false also before launch(). Errors: the device's.
  Result<bool> ended(uint64_t number);

 private:
  CopyQueue(gpu::Device& device, DoneWord done) : device_(device), done_(done) {}
  Status begin();
  uint64_t done() const { return __atomic_load_n(done_.host, __ATOMIC_ACQUIRE); }
  // REQUIRES: the lock.
  int blocks_to_post() const;
  bool waits_to_post() const;
  bool look_at_last();
  void choose_blocks(int least);
  void fill_item(uint64_t number);
  Status put();
  Status put_to_post(int blocks);
  Status launch_to_stay();
  proto::Plan plan_of(bool to_host) const;
  Status launch_items(std::span<const proto::PackItem> items, bool to_host);
  void put_or_fail();
  void fail(Status why);
  Status look_at_device();

  gpu::Device& device_;
  const DoneWord done_;
  std::mutex mutex_;
  gpu::Stream stream_ = nullptr;
  gpu::Event event_ = nullptr;
  proto::DeviceComm* counters_ = nullptr;  // kernel address
  gpu::HostBlock box_;
  std::optional<core::ResidentKernel> resident_;
  // The last copies that were posted, or after which a kernel may stay, and their number, until they have ended.
  core::PlannedLaunch one_;
  std::vector<proto::PackItem> last_;
  std::atomic<uint64_t> last_number_ = 0;
  bool is_posted_ = false, last_to_host_ = false;
  int small_in_row_ = 0;  // that the kernel's first block has copied alone
  std::vector<proto::PackItem> pending_;
  std::vector<size_t> begins_;  // of pending_: where each launch begins
  int messages_ = 0;            // that have added what is pending
  bool to_host_ = false, may_stay_ = true;
  uint64_t launched_ = 0;
  std::atomic<bool> has_pending_ = false, failed_ = false;
  std::atomic<uint32_t> looks_ = 0;
  Status failure_;
};

}  // namespace gpucoll::coll
