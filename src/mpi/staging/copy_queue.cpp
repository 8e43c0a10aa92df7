#include "mpi/staging/copy_queue.h"

#include "core/plan/planner.h"
#include "kernels/kernels.h"

namespace gpucoll::coll {

Result<std::unique_ptr<CopyQueue>> CopyQueue::create(gpu::Device& device, DoneWord done) {
  std::unique_ptr<CopyQueue> queue(new CopyQueue(device, done));
  GC_TRY_AS(queue->stream_, device.create_urgent_stream());
  GC_TRY_AS(queue->event_, device.create_event());
  GC_TRY_AS(void* const counters, device.allocate(sizeof(proto::DeviceComm)));
  queue->counters_ = static_cast<proto::DeviceComm*>(counters);
  queue->pending_.reserve(proto::kPackItems);
  GC_TRY(device.prepare(*packing_kernel()));
  return queue;
}

Result<uint64_t> CopyQueue::add(std::span<const proto::PackItem> items, bool to_host) {
  std::lock_guard lock(mutex_);
  if (pending_.size() + items.size() > proto::kPackItems) put_or_fail();
  if (failed_) return failure_;
  pending_.insert(pending_.end(), items.begin(), items.end());
  to_host_ |= to_host;
  has_pending_ = true;
  return launched_ + 1;
}

void CopyQueue::launch() {
  if (!has_pending_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (has_pending_) put_or_fail();
}

Status CopyQueue::put() {
  proto::Plan plan = {};
  const int threads = device_.defaults().threads;
  const int blocks = core::put_pack_items(plan, pending_, threads);
  plan.comm = counters_;
  plan.done_word = done_.kernel;
  plan.results_on_host = to_host_;
  return device_.launch(*packing_kernel(), plan, blocks, threads, stream_);
}

// After a launch that was not made, numbers would not fit any more: so nothing is copied from then on.
void CopyQueue::put_or_fail() {
  if (failed_) return;
  if (Status put_in = put(); !put_in) {
    failure_ = std::move(put_in);
    failed_ = true;
  }
  ++launched_;
  pending_.clear();
  to_host_ = false;
  has_pending_ = false;
}

// A kernel that has failed counts nothing.
Status CopyQueue::look_at_device() {
  std::lock_guard lock(mutex_);
  GC_TRY(device_.record(event_, stream_));
  return device_.reached(event_).status();
}

Result<bool> CopyQueue::ended(uint64_t number) {
  constexpr uint32_t kLooks = 1u << 16;
  if (done() >= number) return true;
  if (failed_.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex_);
    return failure_;
  }
  if (looks_.fetch_add(1, std::memory_order_relaxed) % kLooks == kLooks - 1) GC_TRY(look_at_device());
  return false;
}

}  // namespace gpucoll::coll
