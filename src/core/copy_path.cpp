#include "core/copy_path.h"

#include <algorithm>
#include <cstring>

#include "net/transport.h"

namespace gpucoll::core {
namespace {

using proto::CopyDescriptor;
using proto::CopyLane;
using proto::kBouncePieces;
using proto::kCopyRing;
using proto::kSizeRing;

// Partners are the other rank's stores with release, or what its streams store.
uint64_t load(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

CopyLane* lane_in(uint8_t* page, int n_ranks, int to_rank) {
  return reinterpret_cast<CopyLane*>(page + proto::copy_lane_offset(n_ranks, to_rank));
}

ExportedPlace place_in(const CopyDescriptor& descriptor) {
  ExportedPlace place = {descriptor.slot, descriptor.serial, descriptor.offset, {}};
  static_assert(sizeof place.handle == sizeof descriptor.handle);
  std::memcpy(&place.handle, descriptor.handle, sizeof place.handle);
  return place;
}

// As kernels report it.
Status differ(int sender, uint64_t sent, int receiver, uint64_t expected) {
  return Status::error(Code::invalid_usage, "rank %d sends %llu bytes to rank %d, which receives %llu", sender,
                       static_cast<unsigned long long>(sent), receiver, static_cast<unsigned long long>(expected));
}

}  // namespace

CopyPath::CopyPath(const CopyContext& context)
    : context_(context),
      page_(context.peers.copy_page(context.peers.rank())),
      sending_(static_cast<size_t>(context.peers.size())),
      receiving_(static_cast<size_t>(context.peers.size())),
      imports_(context.device) {
  __atomic_store_n(&page_.live[proto::kBounceSlot], 1u, __ATOMIC_RELAXED);
  Proxy::instance().add(this);
}

CopyPath::~CopyPath() {
  Proxy::instance().remove(this);
  for (const auto& s : sending_)
    if (s && s->stream) context_.device.destroy_stream(s->stream).ignore();
  for (const auto& r : receiving_) {
    if (r && r->stream) context_.device.destroy_stream(r->stream).ignore();
    if (r && r->bounce) context_.device.release(r->bounce);
  }
  for (const auto& [rank, block] : pages_) context_.device.unregister_host(block);
}

void CopyPath::place_lanes(Direction& direction, int peer, net::Side side) const {
  const Peers& peers = context_.peers;
  direction.peer = peer;
  direction.p2p = peer != peers.rank() && context_.links.over_p2p({proto::kPairLinks, peer, side});
  direction.own = &peers.copy_lane(peers.rank(), peer);
  direction.theirs = &peers.copy_lane(peer, peers.rank());
}

CopyPath::Sending& CopyPath::sending(int peer) {
  std::unique_ptr<Sending>& s = sending_[static_cast<size_t>(peer)];
  if (!s) {
    s = std::make_unique<Sending>();
    place_lanes(*s, peer, net::Side::send);
  }
  return *s;
}

CopyPath::Receiving& CopyPath::receiving(int peer) {
  std::unique_ptr<Receiving>& r = receiving_[static_cast<size_t>(peer)];
  if (!r) {
    r = std::make_unique<Receiving>();
    place_lanes(*r, peer, net::Side::receive);
  }
  return *r;
}

Result<bool> CopyPath::begin(const TaskQueue& queue, const StepMessages& steps, TaskQueue* rest) {
  GC_TRY(take(queue, steps));
  if (ready_.all.empty()) return false;
  *rest = queue;
  std::erase_if(rest->sends, [this](const auto& task) { return by_copy(sending(task.peer), task); });
  std::erase_if(rest->recvs, [this](const auto& task) { return by_copy(receiving(task.peer), task); });
  if (!queue.sends.empty() || !steps.sends.empty())
    wake();  // while the caller goes on; a receiver's part is done by its streams
  return true;
}

Status CopyPath::take(const TaskQueue& queue, const StepMessages& steps) {
  std::lock_guard lock(mutex_);
  ready_.clear();
  done_.clear();
  const auto alone = [](const TaskQueue::Pair& task) {
    return StepMessage{task.peer, task.buffer, task.bytes, 0, kAtEnd};
  };
  for (const TaskQueue::Pair& task : queue.sends) GC_TRY(take_send(alone(task), by_copy(sending(task.peer), task)));
  for (const TaskQueue::Pair& task : queue.recvs)
    GC_TRY(take_receive(alone(task), by_copy(receiving(task.peer), task)));
  for (const StepMessage& message : steps.sends) GC_TRY(take_send(message, true));
  for (const StepMessage& message : steps.recvs) GC_TRY(take_receive(message, true));
  ready_.sort_out();
  done_.sort_out();
  return {};
}

Status CopyPath::take_send(const StepMessage& message, bool by_copy) {
  Sending& s = sending(message.peer);
  ++s.messages;
  if (by_copy) {
    GC_TRY(prepare(s));
    s.pending.push_back({++s.copies, s.messages, message.bytes, static_cast<uint8_t*>(message.buffer)});
    ready_.all.push_back({message.ready, &s.own_kernel->send_ready, s.copies});
    done_.all.push_back({message.needed, &s.own_kernel->send_done, s.copies});
  }
  __atomic_store_n(&s.own->send_bytes[s.messages % kSizeRing], message.bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&s.own->send_copies, s.copies, __ATOMIC_RELAXED);
  __atomic_store_n(&s.own->send_messages, s.messages, __ATOMIC_RELEASE);  // partner: advance(Receiving&)
  return {};
}

Status CopyPath::take_receive(const StepMessage& message, bool by_copy) {
  Receiving& r = receiving(message.peer);
  ++r.messages;
  if (by_copy) {
    GC_TRY(prepare(r));
    auto place = context_.exports.pin(message.buffer);
    if (!place && !r.bounce) GC_TRY(make_bounce(r));
    r.pending.push_back({++r.copies, r.messages, message.bytes, static_cast<uint8_t*>(message.buffer), place});
    ready_.all.push_back({message.ready, &r.own_kernel->recv_ready, r.copies});
    done_.all.push_back({message.needed, &r.own_kernel->recv_done, r.copies});
  }
  __atomic_store_n(&r.own->recv_bytes[r.messages % kSizeRing], message.bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&r.own->recv_copies, r.copies, __ATOMIC_RELAXED);
  __atomic_store_n(&r.own->recv_messages, r.messages, __ATOMIC_RELEASE);  // partner: match()
  post(r);
  return {};
}

void CopyPath::Marks::clear() {
  all.clear();
  next = 0;
}

void CopyPath::Marks::sort_out() {
  std::sort(all.begin(), all.end());
  // Numbers ascend, so from the back the first one of each word is the last.
  const auto same = [](const Mark& a, const Mark& b) { return a.step == b.step && a.word == b.word; };
  all.erase(all.begin(), std::unique(all.rbegin(), all.rend(), same).base());
}

// Before the first message by copy of a direction: what the device needs for it.
Status CopyPath::prepare(Direction& direction) {
  if (direction.stream) return {};
  const Peers& peers = context_.peers;
  GC_TRY_AS(uint8_t * own, kernel_page(peers.rank()));
  GC_TRY_AS(uint8_t * theirs, kernel_page(direction.peer));
  direction.own_kernel = lane_in(own, peers.size(), direction.peer);
  direction.their_kernel = lane_in(theirs, peers.size(), peers.rank());
  GC_TRY_AS(direction.stream, context_.device.create_urgent_stream());
  return {};
}

Result<uint8_t*> CopyPath::kernel_page(int rank) {
  auto known = pages_.find(rank);
  if (known == pages_.end()) {
    GC_TRY_AS(const gpu::HostBlock block, context_.device.register_host(context_.peers.page_bytes(rank),
                                                                        proto::control_bytes(context_.peers.size())));
    known = pages_.emplace(rank, block).first;
  }
  return static_cast<uint8_t*>(known->second.kernel);
}

Status CopyPath::make_bounce(Receiving& r) {
  GC_TRY_AS(void* memory, context_.device.allocate(context_.piece_bytes * kBouncePieces));
  r.bounce = static_cast<uint8_t*>(memory);
  GC_TRY_AS(r.bounce_handle, context_.device.export_memory(memory));
  return {};
}

Status CopyPath::put_ready(gpu::Stream stream, uint32_t step) {
  for (; ready_.next < ready_.all.size() && ready_.all[ready_.next].step <= step; ++ready_.next) {
    const Mark& mark = ready_.all[ready_.next];
    GC_TRY(context_.device.write_value(stream, mark.word, mark.number));
  }
  return {};
}

Status CopyPath::put_waits(gpu::Stream stream, uint32_t step) {
  for (; done_.next < done_.all.size() && done_.all[done_.next].step <= step; ++done_.next) {
    const Mark& mark = done_.all[done_.next];
    GC_TRY(context_.device.wait_value(stream, mark.word, mark.number, nullptr));
  }
  return {};
}

Status CopyPath::put_end(gpu::Stream stream) {
  auto* page = reinterpret_cast<proto::CopyPage*>(static_cast<uint8_t*>(pages_.at(context_.peers.rank()).kernel) +
                                                  proto::copy_page_offset(context_.peers.size()));
  const uint64_t group = groups() + 1;
  groups_.store(group, std::memory_order_relaxed);
  GC_TRY(put_waits(stream, kAtEnd));
  GC_TRY(context_.device.write_value(stream, &page->passed, group));
  wake();  // a fault may have come before these waits
  return {};
}

void CopyPath::wake() {
  active_.store(true, std::memory_order_release);  // partner: progress()
  Proxy::instance().wake();
}

uint64_t CopyPath::passed() const noexcept { return load(page_.passed); }

std::string CopyPath::waiting_for() {
  std::lock_guard lock(mutex_);
  const auto tell = [&](const Direction& d, const char* way) {
    return "a message of " + std::to_string(d.pending.front().bytes) + " bytes " + way + " " +
           context_.peers.name(d.peer) + ", which must make its call outside of captures if this rank does";
  };
  for (const auto& r : receiving_)
    if (r && !r->pending.empty()) return tell(*r, "from");
  for (const auto& s : sending_)
    if (s && !s->pending.empty()) return tell(*s, "to");
  return "";
}

void CopyPath::look_for_freed() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // the watchdog must not wait for a device
  if (!lock.owns_lock() || imports_.size() == 0) return;
  imports_.drop_freed([&](int peer) { return context_.peers.copy_page(peer).live; });
  if (imports_.any_dropped()) Proxy::instance().wake();
}

void CopyPath::tidy() noexcept {
  std::vector<void*> dropped;
  {
    std::lock_guard lock(mutex_);
    dropped = imports_.take_dropped();
  }
  for (void* base : dropped) context_.device.close_memory(base);
}

// A process may have many communicators: most cost nothing but the first line. Taken back before looking, so that what
// comes meanwhile is not missed.
ProxyWork::Progress CopyPath::progress() noexcept {
  if (!active_.load(std::memory_order_relaxed) || !active_.exchange(false, std::memory_order_acquire))
    return Progress::none_pending;
  // A caller in begin() is soon out again; waiting for the lock would take longer.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const Progress progress = lock.owns_lock() ? look() : Progress::waiting;
  if (progress != Progress::none_pending) active_.store(true, std::memory_order_relaxed);
  return progress;
}

ProxyWork::Progress CopyPath::look() noexcept {
  if (context_.fault.raised()) return give_up();
  bool moved = false, waiting = false;
  if (Status status = contained([&] { return advance_all(&moved, &waiting); }); !status) {
    context_.fault.raise(status);
    return give_up();
  }
  if (moved) return Progress::moved;
  if (waiting) return Progress::waiting;
  const bool pending = passed() < groups() || std::any_of(receiving_.begin(), receiving_.end(),
                                                          [](const auto& r) { return r && !r->pending.empty(); });
  return pending ? Progress::watching : Progress::none_pending;
}

Status CopyPath::advance_all(bool* moved, bool* waiting) {
  for (const auto& s : sending_) {
    if (!s || s->copies == 0) continue;
    if (!s->pending.empty()) GC_TRY(advance(*s, moved));
    *waiting |= load(s->own->send_done) < s->copies;
  }
  for (const auto& r : receiving_) {
    if (!r || r->pending.empty()) continue;
    GC_TRY(advance(*r, moved));
    *waiting |= !r->pending.empty() && r->bounce;
  }
  return {};
}

// Lets waiting streams go, but not while their buffers are in use: the application may free them then.
ProxyWork::Progress CopyPath::give_up() noexcept {
  bool all = true;
  const auto release = [](uint64_t& word) { __atomic_store_n(&word, proto::kCopyReleased, __ATOMIC_RELEASE); };
  for (const auto& s : sending_) {
    if (!s) continue;
    s->pending.clear();
    if (under_way(*s))
      all = false;
    else
      release(s->own->send_done);
  }
  for (const auto& r : receiving_) {
    if (!r) continue;
    if (under_way(*r))
      all = false;
    else
      release(r->own->recv_done);
  }
  return all && passed() >= groups() ? Progress::none_pending : Progress::watching;
}

bool CopyPath::under_way(const Sending& s) const noexcept {
  return load(s.own->send_done) < s.issued || load(s.own->moved) < s.pieces;
}

// What the sender has started, or this rank takes out of a bounce buffer.
bool CopyPath::under_way(const Receiving& r) const noexcept {
  if (load(r.own->taken) < r.pieces) return true;
  const uint64_t started = load(r.theirs->started);
  if (load(r.own->recv_done) >= started || context_.peers.dead(r.peer)) return false;
  return std::any_of(r.pending.begin(), r.pending.end(),
                     [&](const Message& message) { return message.number == started && message.place; });
}

Status CopyPath::advance(Sending& s, bool* moved) {
  while (!s.pending.empty()) {
    const Message& message = s.pending.front();
    if (!s.target) {
      GC_TRY_AS(const bool matched, match(s, message));
      if (!matched) return {};
    }
    if (load(s.theirs->recv_ready) < message.number || load(s.own->send_ready) < message.number) return {};
    // Words only grow: this message's must not come before those of a message that its receiver still takes.
    if (!s.piece_bytes && load(s.theirs->recv_done) < s.last_in_pieces) return {};
    if (!start(s, message)) return {};
    auto all = s.piece_bytes ? move_pieces(s, message, moved) : move_whole(s, message);
    if (!all) {
      __atomic_store_n(&s.own->started, s.issued, __ATOMIC_RELEASE);  // the receiver must not wait for it
      return std::move(all).status();
    }
    if (!*all) return {};
    *moved = true;
    s.target = nullptr;
    s.pending.erase(s.pending.begin());
  }
  return {};
}

// Finds the receive that belongs to a message, and opens its buffer. False while there is none.
Result<bool> CopyPath::match(Sending& s, const Message& message) {
  const auto fail = [&](uint64_t sent, uint64_t expected) {
    return differ(context_.peers.rank(), sent, s.peer, expected);
  };
  const uint64_t& expected = s.theirs->recv_bytes[message.ordinal % kSizeRing];
  if (load(s.theirs->posted) < message.number) {
    const uint64_t come = load(s.theirs->recv_messages);
    const uint64_t copies = __atomic_load_n(&s.theirs->recv_copies, __ATOMIC_RELAXED);
    if (come < message.ordinal || copies >= message.number) return false;
    return fail(message.bytes, load(expected));
  }
  const CopyDescriptor& receive = s.theirs->descriptors[message.number % kCopyRing];
  if (receive.ordinal < message.ordinal) return fail(s.own->send_bytes[receive.ordinal % kSizeRing], receive.bytes);
  if (receive.ordinal > message.ordinal) return fail(message.bytes, load(expected));
  if (receive.bytes != message.bytes) return fail(message.bytes, receive.bytes);
  GC_TRY_AS(s.target, imports_.open(s.peer, place_in(receive)));
  s.piece_bytes = receive.piece_bytes;
  s.moved = 0;
  return true;
}

// False where the receiver has failed: it may have let its buffer go. The store and the looks at the fault are
// sequentially consistent; the receiver looks at `started` after it has failed, and must not wait for what never comes.
bool CopyPath::start(Sending& s, const Message& message) {
  const auto receiver_failed = [&] { return context_.peers.fault(s.peer) != 0; };
  if (receiver_failed()) return false;
  __atomic_store_n(&s.own->started, message.number, __ATOMIC_SEQ_CST);
  if (!receiver_failed()) return true;
  __atomic_store_n(&s.own->started, s.issued, __ATOMIC_RELEASE);
  return false;
}

Result<bool> CopyPath::move_whole(Sending& s, const Message& message) {
  GC_TRY(context_.device.copy_async(s.target, message.buffer, message.bytes, s.stream));
  GC_TRY(context_.device.write_value(s.stream, &s.their_kernel->recv_done, message.number));
  GC_TRY(context_.device.write_value(s.stream, &s.own_kernel->send_done, message.number));
  s.issued = message.number;
  return true;
}

Result<bool> CopyPath::move_pieces(Sending& s, const Message& message, bool* moved) {
  s.last_in_pieces = message.number;
  while (s.moved < message.bytes) {
    if (s.pieces >= load(s.theirs->taken) + kBouncePieces) return false;
    const uint64_t bytes = std::min(s.piece_bytes, message.bytes - s.moved);
    uint8_t* piece = s.target + s.pieces % kBouncePieces * s.piece_bytes;
    GC_TRY(context_.device.copy_async(piece, message.buffer + s.moved, bytes, s.stream));
    GC_TRY(context_.device.write_value(s.stream, &s.own_kernel->moved, ++s.pieces));
    s.moved += bytes;
    *moved = true;
  }
  GC_TRY(context_.device.write_value(s.stream, &s.own_kernel->send_done, message.number));
  s.issued = message.number;
  return true;
}

Status CopyPath::advance(Receiving& r, bool* moved) {
  drop_done(r, moved);
  post(r);
  if (r.pending.empty()) return {};
  const Message& message = r.pending.front();
  const uint64_t come = load(r.theirs->send_messages);
  if (come >= message.ordinal && __atomic_load_n(&r.theirs->send_copies, __ATOMIC_RELAXED) < message.number)
    return differ(r.peer, load(r.theirs->send_bytes[message.ordinal % kSizeRing]), context_.peers.rank(),
                  message.bytes);
  return take_pieces(r, moved);
}

void CopyPath::drop_done(Receiving& r, bool* moved) {
  const uint64_t done = load(r.own->recv_done);
  while (!r.pending.empty() && r.pending.front().number <= done) {
    if (r.pending.front().place) context_.exports.unpin(*r.pending.front().place);
    r.pending.erase(r.pending.begin());
    *moved = true;
  }
}

// Tells the sender of as many receives as the ring has room for.
void CopyPath::post(Receiving& r) {
  const uint64_t room = load(r.own->recv_done) + kCopyRing;
  for (const Message& message : r.pending) {
    if (message.number <= r.posted) continue;
    if (message.number > room) return;
    CopyDescriptor& descriptor = r.own->descriptors[message.number % kCopyRing];
    const ExportedPlace place =
        message.place ? *message.place : ExportedPlace{proto::kBounceSlot, 1, 0, r.bounce_handle};
    descriptor = {message.bytes, message.ordinal, place.offset, place.slot, place.serial, 0, {}, {}};
    if (!message.place) descriptor.piece_bytes = context_.piece_bytes;
    std::memcpy(descriptor.handle, &place.handle, sizeof descriptor.handle);
    r.posted = message.number;
    __atomic_store_n(&r.own->posted, r.posted, __ATOMIC_RELEASE);  // partner: match()
  }
}

// From the bounce buffer on to where they belong.
Status CopyPath::take_pieces(Receiving& r, bool* moved) {
  for (Message& message : r.pending) {
    if (message.place) continue;
    while (message.taken < message.bytes) {
      if (r.pieces >= load(r.theirs->moved)) return {};
      const uint64_t bytes = std::min(context_.piece_bytes, message.bytes - message.taken);
      const uint8_t* piece = r.bounce + r.pieces % kBouncePieces * context_.piece_bytes;
      GC_TRY(context_.device.copy_async(message.buffer + message.taken, piece, bytes, r.stream));
      GC_TRY(context_.device.write_value(r.stream, &r.own_kernel->taken, ++r.pieces));
      message.taken += bytes;
      *moved = true;
      if (message.taken == message.bytes)
        GC_TRY(context_.device.write_value(r.stream, &r.own_kernel->recv_done, message.number));
    }
  }
  return {};
}

}  // namespace gpucoll::core
