#include "core/copy_engine/copy_messages.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/observe/trace.h"
#include "base/shared_word.h"

namespace gpucoll::core {
namespace {

using proto::kBouncePieces;
using proto::kSizeRing;

}  // namespace

CopyMessages::CopyMessages(const CopyContext& context, PeerPages& pages)
    : context_(context),
      pages_(pages),
      page_(context.peers.copy_page(context.peers.rank())),
      sending_(static_cast<size_t>(context.peers.size())),
      receiving_(static_cast<size_t>(context.peers.size())),
      imports_(context.device) {
  __atomic_store_n(&page_.live[proto::kBounceSlot], 1u, __ATOMIC_RELAXED);
  Proxy::instance().add(this);
  Quiescence::instance().add(this);
}

CopyMessages::~CopyMessages() {
  Quiescence::instance().remove(this);
  Proxy::instance().remove(this);
  for (gpu::Stream stream : {stream_, words_stream_})
    if (stream) context_.device.destroy_stream(stream).ignore();
  for (const auto& r : receiving_) {
    if (r && r->stream) context_.device.destroy_stream(r->stream).ignore();
    if (r && r->bounce) context_.device.release(r->bounce);
  }
}

void CopyMessages::place_lanes(Direction& direction, int peer, net::Side side) const {
  const Peers& peers = context_.peers;
  direction.peer = peer;
  direction.p2p = peer != peers.rank() && context_.links.over_p2p({proto::kPairLinks, peer, side});
  direction.own = &peers.copy_lane(peers.rank(), peer);
  direction.theirs = &peers.copy_lane(peer, peers.rank());
}

CopyMessages::Sending& CopyMessages::sending(int peer) {
  std::unique_ptr<Sending>& s = sending_[static_cast<size_t>(peer)];
  if (!s) {
    s = std::make_unique<Sending>();
    place_lanes(*s, peer, net::Side::send);
  }
  return *s;
}

CopyMessages::Receiving& CopyMessages::receiving(int peer) {
  std::unique_ptr<Receiving>& r = receiving_[static_cast<size_t>(peer)];
  if (!r) {
    r = std::make_unique<Receiving>();
    place_lanes(*r, peer, net::Side::receive);
  }
  return *r;
}

Result<bool> CopyMessages::begin(const TaskQueue& queue, TaskQueue* rest) {
  GC_TRY(take(queue));
  if (ready_.empty()) return false;
  *rest = queue;
  std::erase_if(rest->sends, [this](const auto& task) { return by_copy(sending(task.peer), task); });
  std::erase_if(rest->recvs, [this](const auto& task) { return by_copy(receiving(task.peer), task); });
  if (!queue.sends.empty()) wake();  // while the caller goes on; a receiver's part is done by its streams
  return true;
}

Status CopyMessages::take(const TaskQueue& queue) {
  std::lock_guard lock(mutex_);
  ready_.clear();
  done_.clear();
  ends_.clear();
  ++groups_taken_;
  first_turn_ = last_turn_ + 1;
  for (const TaskQueue::Pair& task : queue.sends) GC_TRY(take_send(task));
  for (const TaskQueue::Pair& task : queue.recvs) GC_TRY(take_receive(task));
  return {};
}

// In turn: the first message of a group to each peer, in the order of distance, then the second to each, and so on.
uint64_t CopyMessages::turn_of(Sending& s) {
  if (s.group != groups_taken_) s.round = 0;
  s.group = groups_taken_;
  const auto n = static_cast<uint64_t>(context_.peers.size());
  const auto distance = static_cast<uint64_t>(s.peer - context_.peers.rank() + context_.peers.size()) % n;
  const uint64_t its = first_turn_ + s.round++ * n + distance;
  last_turn_ = std::max(last_turn_, its);
  return its;
}

// Numbers only grow, so the last one of a word stands for all.
void CopyMessages::note(std::vector<Mark>& marks, uint64_t* word, uint64_t number) {
  const auto known = std::find_if(marks.begin(), marks.end(), [word](const Mark& mark) { return mark.word == word; });
  if (known == marks.end())
    marks.push_back({word, number});
  else
    known->number = number;
}

Status CopyMessages::take_send(const TaskQueue::Pair& task) {
  Sending& s = sending(task.peer);
  ++s.messages;
  if (by_copy(s, task)) {
    GC_TRY(prepare(s));
    GC_TRY(make_streams());
    s.pending.push_back({++s.copies, s.messages, task.bytes, static_cast<uint8_t*>(task.buffer), turn_of(s)});
    note(ready_, &s.own_kernel->send_ready, s.copies);
    note(done_, &s.own_kernel->send_done, s.copies);
    note(ends_, &s.own->send_done, s.copies);
  }
  __atomic_store_n(&s.own->send_bytes[s.messages % kSizeRing], task.bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&s.own->send_copies, s.copies, __ATOMIC_RELAXED);
  __atomic_store_n(&s.own->send_messages, s.messages, __ATOMIC_RELEASE);  // partner: advance(Receiving&)
  return {};
}

Status CopyMessages::take_receive(const TaskQueue::Pair& task) {
  Receiving& r = receiving(task.peer);
  ++r.messages;
  if (by_copy(r, task)) {
    GC_TRY(prepare(r));
    auto place = context_.exports.pin(task.buffer, Exports::Use::by_copies);
    if (!place && !r.bounce) GC_TRY(make_bounce(r));
    r.pending.push_back({++r.copies, r.messages, task.bytes, static_cast<uint8_t*>(task.buffer), 0, place});
    if (trace::on()) r.pending.back().traced_from_ns = monotonic_ns();
    note(ready_, &r.own_kernel->recv_ready, r.copies);
    note(done_, &r.own_kernel->recv_done, r.copies);
    note(ends_, &r.own->recv_done, r.copies);
  }
  __atomic_store_n(&r.own->recv_bytes[r.messages % kSizeRing], task.bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&r.own->recv_copies, r.copies, __ATOMIC_RELAXED);
  __atomic_store_n(&r.own->recv_messages, r.messages, __ATOMIC_RELEASE);  // partner: match()
  post(r);
  return {};
}

// Before the first message by copy of a direction: what the device needs for it.
Status CopyMessages::prepare(Direction& direction) {
  if (direction.own_kernel) return {};
  const Peers& peers = context_.peers;
  GC_TRY_AS(direction.their_kernel, pages_.copy_lane(direction.peer, peers.rank()));
  GC_TRY_AS(direction.own_kernel, pages_.copy_lane(peers.rank(), direction.peer));
  return {};
}

Status CopyMessages::make_streams() {
  for (gpu::Stream* stream : {&stream_, &words_stream_})
    if (!*stream) {
      GC_TRY_AS(*stream, context_.device.create_urgent_stream());
    }
  return {};
}

Status CopyMessages::make_bounce(Receiving& r) {
  if (!r.stream) {
    GC_TRY_AS(r.stream, context_.device.create_urgent_stream());
  }
  GC_TRY_AS(void* memory, context_.device.allocate(context_.piece_bytes * kBouncePieces));
  r.bounce = static_cast<uint8_t*>(memory);
  GC_TRY_AS(r.bounce_handle, context_.device.export_memory(memory));
  return {};
}

Status CopyMessages::put_ready(gpu::Stream stream, uint32_t step) {
  if (step > 0) return {};
  putting_.store(true, std::memory_order_relaxed);
  for (const Mark& mark : ready_) GC_TRY(context_.device.write_value(stream, mark.word, mark.number));
  wake();  // the end may be put once the copies have ended
  return {};
}

bool CopyMessages::has_ended() const noexcept {
  return std::all_of(ends_.begin(), ends_.end(),
                     [](const Mark& mark) { return load_acquire(*mark.word) >= mark.number; });
}

Status CopyMessages::put_end(gpu::Stream stream) {
  const uint64_t group = groups() + 1;
  groups_.store(group, std::memory_order_relaxed);
  putting_.store(false, std::memory_order_relaxed);
  for (const Mark& mark : done_) GC_TRY(context_.device.wait_value(stream, mark.word, mark.number, nullptr));
  GC_TRY_AS(proto::CopyPage* const page, pages_.copy_page(context_.peers.rank()));
  GC_TRY(context_.device.write_value(stream, &page->passed, group));
  wake();  // a fault may have come before these waits
  return {};
}

void CopyMessages::wake() {
  active_.store(true, std::memory_order_release);  // partner: progress()
  Proxy::instance().wake();
}

// Another thread that is kept out may have the lock: the proxy, or one that begins messages.
void CopyMessages::release_if_kept_out() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) {
    locked_out_since_ns_ = 0;
    if (Proxy::instance().is_kept_out()) give_up();
  } else if (locked_out_since_ns_ == 0) {
    locked_out_since_ns_ = monotonic_ns();
  } else if (monotonic_ns() - locked_out_since_ns_ > Proxy::kKeptOutNs) {
    release_all();
  }
}

// Takes back that this rank's copies come, as the next one has not been started. Waits for a peer's copy that comes
// until the peer takes that back, too.
void CopyMessages::release_all() noexcept {
  const Peers& peers = context_.peers;
  const auto store = [](uint64_t& word, uint64_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); };
  for (int peer = 0; peer < peers.size(); ++peer) {
    proto::CopyLane& own = peers.copy_lane(peers.rank(), peer);
    store(own.started, 0);
    store(own.send_done, proto::kCopyReleased);
    const uint64_t comes = load_acquire(peers.copy_lane(peer, peers.rank()).started);
    if (comes <= load_acquire(own.recv_done) || peers.dead(peer)) store(own.recv_done, proto::kCopyReleased);
  }
}

void CopyMessages::tell_if_kept_out() noexcept {
  __atomic_store_n(&page_.kept_out, Proxy::instance().is_kept_out() ? 1u : 0u, __ATOMIC_RELAXED);
}

bool CopyMessages::is_kept_out(int peer) const noexcept {
  return __atomic_load_n(&context_.peers.copy_page(peer).kept_out, __ATOMIC_RELAXED) != 0;
}

std::string CopyMessages::waiting_for() {
  constexpr int64_t kPatienceNs = 300'000'000;
  constexpr char kFreeing[] =
      "another thread of its process is in a function of CUDA that waits until the device rests, such as cudaFree; "
      "complete the operations before that call, or set the parameter copy_engine_bytes to off";
  const std::string own = std::string("a copy that it cannot start: ") + kFreeing;
  std::unique_lock lock(mutex_, std::defer_lock);
  // The peers look for the watchdog's beat meanwhile.
  for (const int64_t since = monotonic_ns(); !lock.try_lock();) {
    if (Proxy::instance().is_kept_out() || monotonic_ns() - since > kPatienceNs) return own;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const bool kept_out = Proxy::instance().is_kept_out();
  const auto tell = [&](const Direction& d, const char* way, bool peer_copies) {
    if (kept_out) return own;
    const std::string peers =
        "a message of " + std::to_string(d.pending.front().bytes) + " bytes " + way + " " + context_.peers.name(d.peer);
    if (peer_copies && is_kept_out(d.peer)) return peers + ", which cannot start a copy: " + kFreeing;
    return peers + ", which must make its call outside of captures if this rank does";
  };
  for (const auto& r : receiving_)
    if (r && !r->pending.empty()) return tell(*r, "from", true);
  for (const auto& s : sending_)
    if (s && !s->pending.empty()) return tell(*s, "to", false);
  return "";
}

void CopyMessages::look_for_freed() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // the watchdog must not wait for a device
  if (!lock.owns_lock()) return;
  imports_.drop_freed([&](int peer) { return context_.peers.copy_page(peer).live; });
  if (imports_.any_dropped()) Proxy::instance().wake();
}

}  // namespace gpucoll::core
