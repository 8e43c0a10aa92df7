#include "core/copy_engine/copy_reduction.h"

#include <algorithm>
#include <iterator>

#include "base/hash.h"
#include "base/shared_word.h"

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
    : context_(context), landing_(std::move(landing)), page_(context.peers.copy_page(context.peers.rank())) {
  Quiescence::instance().add(this);
}

CopyReduction::~CopyReduction() {
  Quiescence::instance().remove(this);
  give_up();
  for (gpu::Stream stream : {copies_, words_})
    if (stream) context_.device.destroy_stream(stream).ignore();
}

Status CopyReduction::prepare() {
  if (!lanes_.empty()) return {};
  const Peers& peers = context_.peers;
  for (gpu::Stream* stream : {&copies_, &words_}) {
    GC_TRY_AS(*stream, context_.device.create_waiting_stream());
  }
  std::vector<Lane> lanes(static_cast<size_t>(peers.size()));
  for (int peer = 0; peer < peers.size(); ++peer) {
    if (!is_peer(peer)) continue;
    Lane& lane = lanes[static_cast<size_t>(peer)];
    GC_TRY_AS(lane.own, context_.pages.copy_lane(peers.rank(), peer));
    GC_TRY_AS(lane.theirs, context_.pages.copy_lane(peer, peers.rank()));
    lane.landing = static_cast<uint8_t*>(landing_[static_cast<size_t>(peer)]);
  }
  lanes_ = std::move(lanes);
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
  next_send_ = 0;
  rounds_ += plan_.rounds;
  launches->clear();
  launches->resize(plan_.steps.size());  // 4 KiB each: made where they stay
  for (size_t i = 0; i < plan_.steps.size(); ++i)
    plan_launch(plan_.steps[i], shape, queue.results_on_host, &(*launches)[i]);
  return true;
}

// Of two ranks one at least sees what the other one calls, unless that is further ahead than the ring is long.
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
  const Lane& lane = lanes_[static_cast<size_t>(send.peer)];
  const uint64_t used = plan_.used_before(send.round);
  if (load_acquire(own_lane(send.peer).consumed) < used)
    GC_TRY(context_.device.wait_value(copies_, &lane.own->consumed, used, nullptr));
  uint8_t* const to = lane.landing + plan_.landing_offset(send.round, send.peer, context_.peers.rank());
  GC_TRY(context_.device.copy_async(to, send.from, send.bytes, copies_));
  GC_TRY(context_.device.stream_wait(words_, copies_));
  return context_.device.write_value(words_, &lane.theirs->landed, send.round + 1);
}

Status CopyReduction::tell_consumed(gpu::Stream stream, uint64_t round) {
  for (int peer = 0; peer < context_.peers.size(); ++peer) {
    if (!is_peer(peer)) continue;
    uint64_t* const consumed = &lanes_[static_cast<size_t>(peer)].theirs->consumed;
    GC_TRY(context_.device.write_value(stream, consumed, round + 1));
  }
  return {};
}

// First what others may wait for before they send, and only then what waits for them.
Status CopyReduction::put_ready(gpu::Stream stream, uint32_t step) {
  putting_.store(true, std::memory_order_relaxed);
  if (step > 0) {
    const CopyReductionPlan::Step& done = plan_.steps[step - 1];
    const bool awaited = done.round + plan_.places < rounds_ || done.round + 1 == rounds_;
    if (done.last && awaited) GC_TRY(tell_consumed(stream, done.round));
  }
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

Status CopyReduction::put_waits(gpu::Stream stream, uint32_t step) {
  const CopyReductionPlan::Step& next = plan_.steps[step];
  if (next.waits_for_sends) GC_TRY(context_.device.stream_wait(stream, copies_));
  for (int source : next.sources) {
    const uint64_t* const landed = &lanes_[static_cast<size_t>(source)].own->landed;
    GC_TRY(context_.device.wait_value(stream, landed, next.round + 1, nullptr));
  }
  return {};
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

std::string CopyReduction::waiting_for() const {
  if (passed() >= groups()) return "";
  // Of the ranks that it may wait for, the one that has sent the least.
  int least = -1;
  for (int peer = 0; peer < context_.peers.size(); ++peer)
    if (is_peer(peer) && (least < 0 || load_acquire(own_lane(peer).landed) < load_acquire(own_lane(least).landed)))
      least = peer;
  return "a part of a large reduction from " + context_.peers.name(least) +
         ", which must make the same call outside of captures if this rank does";
}

// Again and again: others' streams may still store their numbers.
void CopyReduction::give_up() noexcept {
  if (!putting() && passed() >= groups()) return;
  for (int peer = 0; peer < context_.peers.size(); ++peer) {
    if (!is_peer(peer)) continue;
    for (uint64_t* word : {&own_lane(peer).landed, &own_lane(peer).consumed})
      __atomic_store_n(word, proto::kCopyReleased, __ATOMIC_RELEASE);
  }
}

}  // namespace gpucoll::core
