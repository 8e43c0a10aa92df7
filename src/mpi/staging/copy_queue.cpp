#include "mpi/staging/copy_queue.h"

#include <algorithm>

#include "base/params.h"
#include "core/plan/planner.h"
#include "kernels/kernels.h"

namespace gpucoll::coll {

namespace {

using Clock = core::ResidentKernel::Clock;

// A kernel of one block copies so many bytes about as fast as one of many.
constexpr size_t kMostSmall = size_t{64} << 10, kMostSmallWithGaps = size_t{4} << 10;
// Copies of bytes one by one are slow.
constexpr size_t kMostBytewise = 2048;
// From so many bytes on, more blocks are worth more than what a launch takes.
constexpr size_t kMostPosted = size_t{2} << 20, kMostPostedTogether = size_t{512} << 10;
// To find the places of units with gaps takes more than to move them: many multiprocessors do it sooner, in blocks of
// so many threads, than those of a kernel that stays.
constexpr uint64_t kMostUnitsPosted = 8192;
constexpr int kThreadsForGaps = 128, kMostBlocksForGaps = 528;
// More do not copy faster, and keep the program's away.
constexpr int kMostBlocks = 16;
// After so many small copies in a row, one block is enough.
constexpr int kMostSmallInRow = 32;

// The host and a kernel that stays share these words.
struct PostBox {
  proto::Doorbell bell;
  proto::PackItem items[proto::kMostPostedItems];
};

// How long kernels stay. A message comes back after two of its kind: longer than a collective's next call.
std::chrono::nanoseconds staying_bound(const gpu::Device& device) {
  constexpr int kTimes = 3;
  return std::chrono::microseconds(param_or(params().resident_us, kTimes * device.defaults().linger_us));
}

bool has_gaps(const proto::PackItem& item) { return item.runs || item.run_bytes != item.bytes; }
// Returns whether it is a copy of consecutive bytes that a doorbell can say.
bool is_plain(std::span<const proto::PackItem> items) {
  const proto::PackItem& item = items.front();
  return items.size() == 1 && !has_gaps(item) && (item.unit >= proto::kLeastPackUnit || item.bytes <= kMostBytewise);
}

struct Amount {
  uint64_t bytes = 0;
  uint64_t units = 0;  // with gaps, on either side
};
Amount amount_of(std::span<const proto::PackItem> items) {
  Amount amount;
  for (const proto::PackItem& item : items) {
    if (item.unpacks != proto::kFrom) amount.bytes += item.bytes;
    if (has_gaps(item)) amount.units += item.bytes >> std::max(item.unit, proto::kLeastPackUnit);
  }
  return amount;
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
  GC_TRY_AS(box_, device_.allocate_host(sizeof(PostBox)));
  auto* const bell = &static_cast<PostBox*>(box_.kernel)->bell;
  GC_TRY(device_.upload(&counters_->channel[0].doorbell, &bell, sizeof bell));
  resident_.emplace(static_cast<PostBox*>(box_.host)->bell, staying_bound(device_));
  one_.kernel = packing_kernel();
  one_.stage = core::Stage::pack;
  one_.threads = device_.defaults().threads;
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
  ++messages_;
  has_pending_ = true;
  return launched_ + begins_.size();
}

void CopyQueue::launch() {
  if (!has_pending_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (has_pending_ && look_at_last() && !waits_to_post()) put_or_fail();
}

// Returns how many blocks have to do with what is pending, if a kernel that stays may take it; else 0.
int CopyQueue::blocks_to_post() const {
  if (!may_stay_ || begins_.size() != 1 || pending_.size() > proto::kMostPostedItems) return 0;
  const auto [bytes, units] = amount_of(pending_);
  if (bytes > (messages_ == 1 ? kMostPosted : kMostPostedTogether) || units > kMostUnitsPosted) return 0;
  if (messages_ > 1 && done() < launched_) return 0;
  const bool is_small = bytes <= (is_plain(pending_) ? kMostSmall : kMostSmallWithGaps) && pending_.size() <= 2;
  return is_small ? 1 : std::min(kMostBlocks, device_.defaults().channels);
}

// Returns whether a kernel of several blocks, which may take what is pending, still has to end what it was launched
// for: its first block would begin, and count, before the others have ended that.
bool CopyQueue::waits_to_post() const {
  return resident_->blocks() > 1 && done() < launched_ && resident_->present() && blocks_to_post() > 0;
}

// Notes the end of the last copies, and launches them where the kernel had left before they were posted. Returns
// whether nothing is posted that a kernel may still have to see.
bool CopyQueue::look_at_last() {
  const uint64_t number = last_number_.load(std::memory_order_relaxed);
  if (number == 0) return true;
  if (done() >= number) {
    last_number_ = 0;
    is_posted_ = false;
    resident_->call_ends(Clock::now());
  } else if (is_posted_ && resident_->missed()) {
    is_posted_ = false;
    fail(launch_to_stay());
  }
  return !is_posted_;
}

Status CopyQueue::put() {
  if (const int blocks = blocks_to_post()) return put_to_post(blocks);
  resident_->dismiss(launched_ + 1);
  const std::span<const proto::PackItem> all(pending_);
  for (size_t i = 0; i < begins_.size(); ++i) {
    const size_t end = i + 1 < begins_.size() ? begins_[i + 1] : all.size();
    GC_TRY(launch_items(all.subspan(begins_[i], end - begins_[i]), to_host_));
  }
  return {};
}

// Small copies may go to a kernel of more blocks that is there, but not for long: its blocks keep others away.
void CopyQueue::choose_blocks(int least) {
  small_in_row_ = least > 1 ? 0 : small_in_row_ + 1;
  const bool keeps = small_in_row_ < kMostSmallInRow && resident_->blocks() > least;
  one_.plain_blocks = keeps ? resident_->blocks() : least;
}

// Says what is posted. The list in the box is the kernel's until it has told the end of what was posted before.
void CopyQueue::fill_item(uint64_t number) {
  proto::CollectiveItem& post = one_.plan.own_items()->collective;
  post = {};
  post.argument = number;
  post.root = last_to_host_;
  if (is_plain(last_)) {
    const proto::PackItem& copy = last_.front();
    post.function = proto::kPostedBytes;
    post.send = copy.unpacks ? copy.packed : copy.memory;
    post.recv = copy.unpacks ? copy.memory : copy.packed;
    post.count = copy.bytes;
    return;
  }
  post.function = proto::kPostedItems;
  post.send = static_cast<PostBox*>(box_.kernel)->items;
  post.count = last_.size();
}

Status CopyQueue::put_to_post(int blocks) {
  const uint64_t number = launched_ + 1;
  last_.assign(pending_.begin(), pending_.end());
  last_to_host_ = to_host_;
  last_number_ = number;
  resident_->call_begins(Clock::now());
  choose_blocks(blocks);
  is_posted_ = resident_->takes(one_);
  if (!is_posted_) {
    one_.plain_blocks = blocks;
    resident_->dismiss(number);
    return launch_to_stay();
  }
  fill_item(number);
  proto::CollectiveItem& post = one_.plan.own_items()->collective;
  post.n_channels = static_cast<uint16_t>(blocks);
  if (post.function == proto::kPostedItems)
    core::put_pack_items(static_cast<PostBox*>(box_.host)->items, last_, one_.threads, blocks);
  resident_->post(one_, number);
  return {};
}

// Launches the last copies, with as many blocks as the next ones may need if the kernel is to stay.
Status CopyQueue::launch_to_stay() {
  const uint64_t number = last_number_.load(std::memory_order_relaxed);
  const uint32_t resident_ns = resident_->stay_ns();
  if (resident_ns == 0) return launch_items(last_, last_to_host_);
  proto::Plan plan = plan_of(last_to_host_);
  plan.resident_ns = resident_ns;
  core::put_pack_items(plan, last_, one_.threads, one_.plain_blocks);
  GC_TRY(device_.launch(*packing_kernel(), plan, one_.plain_blocks, one_.threads, stream_));
  resident_->stays(one_, number);
  return {};
}

proto::Plan CopyQueue::plan_of(bool to_host) const {
  proto::Plan plan = {};
  plan.comm = counters_;
  plan.done_word = done_.kernel;
  plan.results_on_host = to_host;
  return plan;
}

Status CopyQueue::launch_items(std::span<const proto::PackItem> items, bool to_host) {
  proto::Plan plan = plan_of(to_host);
  const uint64_t units = amount_of(items).units;
  if (units <= kMostUnitsPosted || one_.threads <= kThreadsForGaps) {
    const int blocks = core::put_pack_items(plan, items, one_.threads);
    return device_.launch(*packing_kernel(), plan, blocks, one_.threads, stream_);
  }
  constexpr uint64_t kUnitsOfBlock = 2 * proto::kPackUnroll * kThreadsForGaps;
  const int blocks = static_cast<int>(std::min<uint64_t>(units / kUnitsOfBlock, kMostBlocksForGaps));
  core::put_pack_items(plan, items, kThreadsForGaps, blocks);
  return device_.launch(*packing_kernel(), plan, blocks, kThreadsForGaps, stream_);
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
  messages_ = 0;
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
  if (last_number_.load(std::memory_order_relaxed) == number) {
    std::lock_guard lock(mutex_);
    look_at_last();
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
