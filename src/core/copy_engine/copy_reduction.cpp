#include "core/copy_engine/copy_reduction.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/mutant.h"
#include "base/shared_word.h"

// Mutants (base/mutant.h): 171 tells of free places behind the sends that follow.

namespace gpucoll::core {
namespace {

using proto::kCallRing;
using proto::LargeCall;

uint64_t hash_text(uint64_t hash, const char* text) {
  for (; *text; ++text) hash = hash_combine(hash, static_cast<uint64_t>(*text));
  return hash;
}

// Returns what is equal on all ranks where they call the same.
LargeCall call_of(const TaskQueue& queue, const CommProperties& shape) {
  LargeCall call = {};
  for (const CollectiveTask& task : queue.collectives) {
    if (!reduces_by_copies(task, shape)) continue;
    call.bytes += task.count * task.element_bytes;
    for (uint64_t value : {static_cast<uint64_t>(task.function), task.count, static_cast<uint64_t>(task.element_bytes),
                           static_cast<uint64_t>(task.kernels.op), static_cast<uint64_t>(task.root)})
      call.what = hash_combine(call.what, value);
    call.what = hash_text(call.what, task.kernels.local->name);  // of the types that it reduces
  }
  return call;
}

// Whoever reads the number before and after it has read the rest has read what belongs to it.
void enter(LargeCall& entry, const LargeCall& call) {
  __atomic_store_n(&entry.number, uint64_t{0}, __ATOMIC_SEQ_CST);
  __atomic_store_n(&entry.bytes, call.bytes, __ATOMIC_SEQ_CST);
  __atomic_store_n(&entry.what, call.what, __ATOMIC_SEQ_CST);
  __atomic_store_n(&entry.number, call.number, __ATOMIC_SEQ_CST);
}
LargeCall read(const LargeCall& entry) {
  const uint64_t number = __atomic_load_n(&entry.number, __ATOMIC_SEQ_CST);
  const LargeCall call = {number, __atomic_load_n(&entry.bytes, __ATOMIC_SEQ_CST),
                          __atomic_load_n(&entry.what, __ATOMIC_SEQ_CST), 0};
  return __atomic_load_n(&entry.number, __ATOMIC_SEQ_CST) == number ? call : LargeCall{};
}

}  // namespace

CopyReduction::CopyReduction(const CopyReductionContext& context, std::vector<void*> landing)
    : context_(context),
      landing_(std::move(landing)),
      previous_((context.peers.rank() + context.peers.size() - 1) % context.peers.size()),
      next_((context.peers.rank() + 1) % context.peers.size()),
      page_(context.peers.copy_page(context.peers.rank())) {
  Quiescence::instance().add(this);
}

CopyReduction::~CopyReduction() {
  Quiescence::instance().remove(this);
  give_up();
  for (gpu::Stream stream : {copies_, words_})
    if (stream) context_.device.destroy_stream(stream).ignore();
}

Status CopyReduction::prepare() {
  if (from_next_) return {};
  const int rank = context_.peers.rank();
  for (gpu::Stream* stream : {&copies_, &words_}) {
    if (*stream) continue;
    GC_TRY_AS(*stream, context_.device.create_waiting_stream());
  }
  GC_TRY_AS(to_previous_, context_.pages.copy_lane(rank, previous_));
  GC_TRY_AS(to_next_, context_.pages.copy_lane(rank, next_));
  GC_TRY_AS(from_previous_, context_.pages.copy_lane(previous_, rank));
  GC_TRY_AS(from_next_, context_.pages.copy_lane(next_, rank));
  return {};
}

Result<bool> CopyReduction::begin(const TaskQueue& queue, const CommProperties& shape,
                                  std::vector<PlannedLaunch>* launches) {
  if (!any_copy_reduction(queue, shape)) return false;
  const int rank = context_.peers.rank();
  plan_ = plan_copy_reduction(queue, rank, shape, static_cast<uint8_t*>(landing_[static_cast<size_t>(rank)]), rounds_);
  if (plan_.steps.empty()) return false;
  GC_TRY(prepare());
  GC_TRY(compare(queue, shape));
  next_send_ = next_consumed_ = 0;
  rounds_ += plan_.rounds;
  launches->clear();
  launches->resize(plan_.steps.size());  // 4 KiB each: made where they stay
  for (size_t i = 0; i < plan_.steps.size(); ++i)
    plan_launch(plan_.steps[i], shape, queue.results_on_host, &(*launches)[i]);
  return true;
}

// Fails if another rank's call of this number is another one. At least one of two ranks sees the other one's call,
// unless that rank is further ahead than the ring is long.
Status CopyReduction::compare(const TaskQueue& queue, const CommProperties& shape) {
  LargeCall mine = call_of(queue, shape);
  mine.number = ++calls_;
  enter(page_.calls[mine.number % kCallRing], mine);
  for (int peer = 0; peer < context_.peers.size(); ++peer) {
    const LargeCall theirs = read(context_.peers.copy_page(peer).calls[mine.number % kCallRing]);
    if (theirs.number != mine.number || (theirs.bytes == mine.bytes && theirs.what == mine.what)) continue;
    return Status::error(Code::invalid_usage,
                         "rank %d reduces %llu bytes, %s %llu%s: all ranks must make the same collective calls in the "
                         "same order, with the same count, datatype, op and root",
                         context_.peers.rank(), static_cast<unsigned long long>(mine.bytes),
                         context_.peers.name(peer).c_str(), static_cast<unsigned long long>(theirs.bytes),
                         theirs.bytes == mine.bytes ? ", by another call, datatype, op or root" : "");
  }
  return {};
}

// Words go in a stream of their own: between two copies they would cost more than the copy's start.
Status CopyReduction::send(const CopyReductionPlan::Send& send) {
  const uint64_t used = plan_.used_before(send.round);
  if (room_for_ < used && load_acquire(own_lane(next_).consumed) < used)
    GC_TRY(context_.device.wait_value(copies_, &to_next_->consumed, used, nullptr));
  room_for_ = used;
  auto* const to = static_cast<uint8_t*>(landing_[static_cast<size_t>(next_)]) + plan_.landing_offset(send.round);
  GC_TRY(context_.device.copy_async(to, send.from, send.bytes, copies_));
  GC_TRY(context_.device.stream_wait(words_, copies_));
  return context_.device.write_value(words_, &from_next_->landed, send.round + 1);
}

Status CopyReduction::put_sends(gpu::Stream stream, uint32_t step) {
  // The first sends are the application's data, later ones may be what has been launched.
  bool ordered = step == 0;
  if (ordered) GC_TRY(context_.device.stream_wait(copies_, stream));
  for (const size_t end = plan_.sends_before(step); next_send_ < end; ++next_send_) {
    const CopyReductionPlan::Send& next = plan_.sends[next_send_];
    if (!ordered && next.after > 0) {
      GC_TRY(context_.device.stream_wait(copies_, stream));
      ordered = true;
    }
    GC_TRY(send(next));
  }
  return {};
}

// In the stream of words, which waits for each copy that it tells of. It must wait for no later step than it tells of:
// other ranks may have to come to that one first.
Status CopyReduction::tell_consumed() {
  for (; next_consumed_ < plan_.consumed.size(); ++next_consumed_) {
    const CopyReductionPlan::Consumed& next = plan_.consumed[next_consumed_];
    if (next.steps > words_behind_ || next.sends > next_send_) return {};
    GC_TRY(context_.device.write_value(words_, &from_previous_->consumed, next.rounds));
  }
  return {};
}
Status CopyReduction::order_words_behind(gpu::Stream stream, uint32_t steps) {
  const auto tells_of_it = [&](const CopyReductionPlan::Consumed& one) { return one.steps == steps; };
  if (steps > 0 && std::any_of(plan_.consumed.begin(), plan_.consumed.end(), tells_of_it))
    GC_TRY(context_.device.stream_wait(words_, stream));
  words_behind_ = steps;
  return tell_consumed();
}

// First what others may wait for before they send, and only then what waits for them.
Status CopyReduction::put_ready(gpu::Stream stream, uint32_t step) {
  putting_.store(true, std::memory_order_relaxed);
  if (!gc_mutant(171)) GC_TRY(order_words_behind(stream, step));
  GC_TRY(put_sends(stream, step));
  return gc_mutant(171) ? order_words_behind(stream, step) : tell_consumed();
}

Status CopyReduction::put_waits(gpu::Stream stream, uint32_t step) {
  const CopyReductionPlan::Step& next = plan_.steps[step];
  return next.kernel ? context_.device.wait_value(stream, &to_previous_->landed, next.round + 1, nullptr) : Status();
}

Status CopyReduction::put_end(gpu::Stream stream) {
  const uint64_t group = groups() + 1;
  groups_.store(group, std::memory_order_relaxed);
  putting_.store(false, std::memory_order_relaxed);
  GC_TRY_AS(proto::CopyPage* const page, context_.pages.copy_page(context_.peers.rank()));
  GC_TRY(context_.device.stream_wait(stream, words_));  // and so for the copies that they tell of
  return context_.device.write_value(stream, &page->reduced, group);
}

uint64_t CopyReduction::passed() const noexcept { return load_acquire(page_.reduced); }

// Returns the rank that the others wait for: the one that has made the fewest calls, and of several the one that has
// sent the least.
int CopyReduction::last_peer() const {
  const auto calls_and_sends = [&](int peer) {
    const proto::CopyPage& page = context_.peers.copy_page(peer);
    uint64_t calls = 0;
    for (const LargeCall& call : page.calls) calls = std::max(calls, read(call).number);
    const int next = (peer + 1) % context_.peers.size();
    return std::pair(calls, load_acquire(context_.peers.copy_lane(next, peer).landed));
  };
  int last = previous_;
  for (int peer = 0; peer < context_.peers.size(); ++peer)
    if (peer != context_.peers.rank() && calls_and_sends(peer) < calls_and_sends(last)) last = peer;
  return last;
}

std::string CopyReduction::waiting_for() const {
  if (passed() >= groups()) return "";
  return "a part of a large reduction from " + context_.peers.name(last_peer()) +
         ", which must make the same call outside of captures if this rank does";
}

// Again and again: others' streams may still store their numbers.
void CopyReduction::give_up() noexcept {
  if (!putting() && passed() >= groups()) return;
  for (uint64_t* word : {&own_lane(previous_).landed, &own_lane(next_).consumed})
    __atomic_store_n(word, proto::kCopyReleased, __ATOMIC_RELEASE);
}

}  // namespace gpucoll::core
