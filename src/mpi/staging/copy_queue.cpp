#include "mpi/staging/copy_queue.h"

#include "base/params.h"
#include "core/plan/planner.h"
#include "kernels/kernels.h"

namespace gpucoll::coll {

namespace {

using Clock = core::ResidentKernel::Clock;

// A kernel of one block copies so many bytes about as fast as one of many.
constexpr size_t kMostPosted = size_t{32} << 10;
// Copies of bytes one by one are slow.
constexpr size_t kMostBytewise = 2048;

// How long kernels stay. A message comes back after two of its kind: longer than a collective's next call.
std::chrono::nanoseconds staying_bound(const gpu::Device& device) {
  constexpr int kTimes = 3;
  return std::chrono::microseconds(param_or(params().resident_us, kTimes * device.defaults().linger_us));
}

}  // namespace

Result<std::unique_ptr<CopyQueue>> CopyQueue::create(gpu::Device& device, DoneWord done) {
  std::unique_ptr<CopyQueue> queue(new CopyQueue(device, done));
  GC_TRY(queue->begin());
  return queue;
}

Status CopyQueue::begin() {
  GC_TRY_AS(stream_, device_.create_urgent_stream());
  GC_TRY_AS(event_, device_.create_event());
  GC_TRY_AS(void* const counters, device_.allocate(sizeof(proto::DeviceComm)));
  counters_ = static_cast<proto::DeviceComm*>(counters);
  GC_TRY_AS(doorbell_, device_.allocate_host(sizeof(proto::Doorbell)));
  auto* const bell = static_cast<proto::Doorbell*>(doorbell_.kernel);
  GC_TRY(device_.upload(&counters_->channel[0].doorbell, &bell, sizeof bell));
  resident_.emplace(*static_cast<proto::Doorbell*>(doorbell_.host), staying_bound(device_));
  one_.kernel = packing_kernel();
  one_.stage = core::Stage::pack;
  one_.plain_blocks = 1;
  one_.threads = device_.defaults().threads;
  one_.plan.own_items()->collective.function = proto::Function::broadcast;  // any but kLeave
  pending_.reserve(proto::kPackItems);
  return device_.prepare(*packing_kernel());
}

void CopyQueue::never_stay() {
  std::lock_guard lock(mutex_);
  may_stay_ = false;
}

Result<uint64_t> CopyQueue::add(std::span<const proto::PackItem> items, bool to_host) {
  std::lock_guard lock(mutex_);
  if (failed_) return failure_;
  if (begins_.empty() || pending_.size() - begins_.back() + items.size() > proto::kPackItems)
    begins_.push_back(pending_.size());
  pending_.insert(pending_.end(), items.begin(), items.end());
  to_host_ |= to_host;
  has_pending_ = true;
  return launched_ + begins_.size();
}

void CopyQueue::launch() {
  if (!has_pending_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (has_pending_ && look_at_single()) put_or_fail();
}

// Returns whether what is pending is one small copy of consecutive bytes within device memory.
bool CopyQueue::may_be_posted() const {
  if (!may_stay_ || pending_.size() != 1 || to_host_) return false;
  const proto::PackItem& item = pending_.front();
  const bool is_plain = !item.runs && item.run_bytes == item.bytes;
  return is_plain && item.bytes <= (item.unit < proto::kLeastPackUnit ? kMostBytewise : kMostPosted);
}

// Notes the end of the single copy, and launches it where the kernel had left before it was posted. Returns whether
// nothing is posted that a kernel may still have to see.
bool CopyQueue::look_at_single() {
  const uint64_t number = single_number_.load(std::memory_order_relaxed);
  if (number == 0) return true;
  if (done() >= number) {
    single_number_ = 0;
    is_posted_ = false;
    resident_->call_ends(Clock::now());
  } else if (is_posted_ && resident_->missed()) {
    is_posted_ = false;
    fail(launch_items({&single_, 1}, false, number, resident_->stay_ns()));
  }
  return !is_posted_;
}

Status CopyQueue::put() {
  if (may_be_posted()) return put_single();
  resident_->dismiss(launched_ + 1);
  const std::span<const proto::PackItem> all(pending_);
  for (size_t i = 0; i < begins_.size(); ++i) {
    const size_t end = i + 1 < begins_.size() ? begins_[i + 1] : all.size();
    GC_TRY(launch_items(all.subspan(begins_[i], end - begins_[i]), to_host_, launched_ + 1 + i, 0));
  }
  return {};
}

Status CopyQueue::put_single() {
  const uint64_t number = launched_ + 1;
  single_ = pending_.front();
  single_number_ = number;
  resident_->call_begins(Clock::now());
  proto::CollectiveItem& copy = one_.plan.own_items()->collective;
  copy.send = single_.unpacks ? single_.packed : single_.memory;
  copy.recv = single_.unpacks ? single_.memory : single_.packed;
  copy.count = single_.bytes;
  is_posted_ = resident_->takes(one_);
  if (!is_posted_) return launch_items({&single_, 1}, false, number, resident_->stay_ns());
  resident_->post(one_, number);
  return {};
}

Status CopyQueue::launch_items(std::span<const proto::PackItem> items, bool to_host, uint64_t number,
                               uint32_t resident_ns) {
  proto::Plan plan = {};
  const int threads = device_.defaults().threads;
  const int blocks = core::put_pack_items(plan, items, threads);
  plan.comm = counters_;
  plan.done_word = done_.kernel;
  plan.results_on_host = to_host;
  plan.resident_ns = blocks == 1 ? resident_ns : 0;
  GC_TRY(device_.launch(*packing_kernel(), plan, blocks, threads, stream_));
  if (plan.resident_ns) resident_->stays(one_, number);
  return {};
}

// After a launch that was not made, numbers would not fit any more: so nothing is copied from then on.
void CopyQueue::fail(Status why) {
  if (why) return;
  failure_ = std::move(why);
  failed_.store(true, std::memory_order_release);
}

void CopyQueue::put_or_fail() {
  if (failed_) return;
  fail(put());
  launched_ += begins_.size();
  begins_.clear();
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
  if (single_number_.load(std::memory_order_relaxed) == number) {
    std::lock_guard lock(mutex_);
    look_at_single();
  }
  if (done() >= number) return true;
  if (failed_.load(std::memory_order_acquire)) {
    std::lock_guard lock(mutex_);
    return failure_;
  }
  if (looks_.fetch_add(1, std::memory_order_relaxed) % kLooks == kLooks - 1) GC_TRY(look_at_device());
  return false;
}

}  // namespace gpucoll::coll
