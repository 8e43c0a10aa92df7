// The part of CopyMessages that its process's proxy runs: finds what belongs together, and starts the copies. The
// partners of its loads with acquire are the other rank's stores with release, or what its streams store.
#include <algorithm>
#include <cstring>

#include "base/mutant.h"
#include "base/observe/counters.h"
#include "base/observe/trace.h"
#include "base/shared_word.h"
#include "core/copy_engine/copy_messages.h"

namespace gpucoll::core {
namespace {

using proto::CopyDescriptor;
using proto::kBouncePieces;
using proto::kCopyRing;
using proto::kSizeRing;

ExportedPlace place_in(const CopyDescriptor& descriptor) {
  ExportedPlace place = {descriptor.slot, descriptor.serial, descriptor.offset, {}};
  static_assert(sizeof place.handle == sizeof descriptor.handle);
  std::memcpy(&place.handle, descriptor.handle, sizeof place.handle);
  return place;
}

// As kernels report it.
Status differ(int sender, uint64_t sent, int receiver, uint64_t expected) {
  return Status::error(wrong_length(sent, expected), "rank %d sends %llu bytes to rank %d, which receives %llu", sender,
                       static_cast<unsigned long long>(sent), receiver, static_cast<unsigned long long>(expected));
}

}  // namespace

uint64_t CopyMessages::passed() const noexcept { return load_acquire(page_.passed); }

// A process may have many communicators: most cost nothing but the first line. Taken back before looking, so that what
// comes meanwhile is not missed.
ProxyWork::Progress CopyMessages::progress() noexcept {
  if (!active_.load(std::memory_order_relaxed) || !active_.exchange(false, std::memory_order_acquire))
    return Progress::none_pending;
  // A caller in begin() is soon out again; waiting for the lock would take longer.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const Progress progress = lock.owns_lock() ? look() : Progress::waiting;
  if (progress != Progress::none_pending) active_.store(true, std::memory_order_relaxed);
  return progress;
}

ProxyWork::Progress CopyMessages::look() noexcept {
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

Status CopyMessages::advance_all(bool* moved, bool* waiting) {
  GC_TRY(advance_sends(moved, waiting));
  for (const auto& r : receiving_) {
    if (!r || r->pending.empty()) continue;
    GC_TRY(advance(*r, moved));
    *waiting |= !r->pending.empty() && r->bounce;
  }
  return {};
}

// Lets waiting streams go, but not while their buffers are in use: the application may free them then. A device that
// has failed uses none, and tells nothing.
ProxyWork::Progress CopyMessages::give_up() noexcept {
  const bool rests = device_failed() && !gc_mutant(464);
  bool all = true;
  const auto release = [](uint64_t& word) { __atomic_store_n(&word, proto::kCopyReleased, __ATOMIC_RELEASE); };
  for (const auto& s : sending_) {
    if (!s) continue;
    s->pending.clear();
    if (!rests && under_way(*s))
      all = false;
    else
      release(s->own->send_done);
  }
  for (const auto& r : receiving_) {
    if (!r) continue;
    if (!rests && under_way(*r))
      all = false;
    else
      release(r->own->recv_done);
  }
  return all && (rests || passed() >= groups()) ? Progress::none_pending : Progress::watching;
}

bool CopyMessages::under_way(const Sending& s) const noexcept {
  return load_acquire(s.own->send_done) < s.issued || load_acquire(s.own->moved) < s.pieces;
}

// Returns whether the sender has started a message, or this rank takes one out of a bounce buffer.
bool CopyMessages::under_way(const Receiving& r) const noexcept {
  if (load_acquire(r.own->taken) < r.pieces) return true;
  const uint64_t started = load_acquire(r.theirs->started);
  if (load_acquire(r.own->recv_done) >= started || context_.peers.dead(r.peer)) return false;
  return std::any_of(r.pending.begin(), r.pending.end(),
                     [&](const Message& message) { return message.number == started && message.place; });
}

Status CopyMessages::advance_sends(bool* moved, bool* waiting) {
  for (;;) {
    GC_TRY_AS(Sending* const s, next_send());
    if (!s) break;
    GC_TRY_AS(const bool went_on, advance(*s, moved));
    if (!went_on) break;
  }
  *waiting |= std::any_of(sending_.begin(), sending_.end(),
                          [](const auto& s) { return s && load_acquire(s->own->send_done) < s->copies; });
  return {};
}

// Returns the send that goes next, null where none may go. A message that has begun in pieces goes on first: its
// receiver holds pieces of it.
Result<CopyMessages::Sending*> CopyMessages::next_send() {
  Sending* begun = nullptr;
  for (const auto& s : sending_) {
    if (!s || s->pending.empty()) continue;
    GC_TRY_AS(const bool ready, may_go(*s));
    if (!s->moved)
      send_order_.offer({s->pending.front().turn, s->pending.front().bytes, ready, s->peer});
    else if (ready)
      begun = s.get();
  }
  const std::optional<int> peer = send_order_.next(any_send_under_way(), SendOrder::Clock::now());
  if (begun) return begun;
  return peer ? sending_[static_cast<size_t>(*peer)].get() : nullptr;
}

// Returns whether a copy of the first pending message may start.
Result<bool> CopyMessages::may_go(Sending& s) {
  const Message& message = s.pending.front();
  if (!s.target) {
    GC_TRY_AS(const bool matched, match(s, message));
    if (!matched) return false;
  }
  if (load_acquire(s.theirs->recv_ready) < message.number || load_acquire(s.own->send_ready) < message.number)
    return false;
  if (s.piece_bytes) return s.pieces < load_acquire(s.theirs->taken) + kBouncePieces;
  // Words only grow: this message's must not come before those of a message that its receiver still takes.
  return load_acquire(s.theirs->recv_done) >= s.last_in_pieces;
}

bool CopyMessages::any_send_under_way() const noexcept {
  return std::any_of(sending_.begin(), sending_.end(), [this](const auto& s) { return s && under_way(*s); });
}

// REQUIRES: it may go. False where its receiver has failed: nothing more can be sent there.
Result<bool> CopyMessages::advance(Sending& s, bool* moved) {
  const Message& message = s.pending.front();
  if (!start(s, message)) return false;
  auto all = s.piece_bytes ? move_pieces(s, message, moved) : move_whole(s, message);
  if (!all) {
    __atomic_store_n(&s.own->started, s.issued, __ATOMIC_RELEASE);  // the receiver must not wait for it
    return std::move(all).status();
  }
  *moved = true;
  if (!*all) return true;
  s.target = nullptr;
  s.moved = 0;
  s.pending.erase(s.pending.begin());
  return true;
}

// Finds the receive that belongs to a message, and opens its buffer. False while there is none.
Result<bool> CopyMessages::match(Sending& s, const Message& message) {
  const auto fail = [&](uint64_t sent, uint64_t expected) {
    return differ(context_.peers.rank(), sent, s.peer, expected);
  };
  const uint64_t& expected = s.theirs->recv_bytes[message.ordinal % kSizeRing];
  if (load_acquire(s.theirs->posted) < message.number) {
    const uint64_t come = load_acquire(s.theirs->recv_messages);
    const uint64_t copies = __atomic_load_n(&s.theirs->recv_copies, __ATOMIC_RELAXED);
    if (come < message.ordinal || copies >= message.number) return false;
    return fail(message.bytes, load_acquire(expected));
  }
  const CopyDescriptor& receive = s.theirs->descriptors[message.number % kCopyRing];
  if (receive.ordinal < message.ordinal) return fail(s.own->send_bytes[receive.ordinal % kSizeRing], receive.bytes);
  if (receive.ordinal > message.ordinal) return fail(message.bytes, load_acquire(expected));
  if (receive.bytes != message.bytes) return fail(message.bytes, receive.bytes);
  GC_TRY_AS(s.target, imports_.open(s.peer, place_in(receive)));
  s.piece_bytes = receive.piece_bytes;
  s.moved = 0;
  return true;
}

// False where the receiver has failed: it may have let its buffer go. The store and the looks at the fault are
// sequentially consistent; the receiver looks at `started` after it has failed, and must not wait for what never comes.
bool CopyMessages::start(Sending& s, const Message& message) {
  const auto receiver_failed = [&] { return context_.peers.fault(s.peer) != 0; };
  if (receiver_failed()) return false;
  __atomic_store_n(&s.own->started, message.number, __ATOMIC_SEQ_CST);
  if (!receiver_failed()) return true;
  __atomic_store_n(&s.own->started, s.issued, __ATOMIC_RELEASE);
  return false;
}

// Another stream stores the words, or the next copy would wait for them: they are no work of copy engines.
Result<bool> CopyMessages::move_whole(Sending& s, const Message& message) {
  GC_TRY(context_.device.copy_async(s.target, message.buffer, message.bytes, stream_));
  GC_TRY(context_.device.stream_wait(words_stream_, stream_));
  GC_TRY(context_.device.write_value(words_stream_, &s.their_kernel->recv_done, message.number));
  GC_TRY(context_.device.write_value(words_stream_, &s.own_kernel->send_done, message.number));
  s.issued = message.number;
  return true;
}

Result<bool> CopyMessages::move_pieces(Sending& s, const Message& message, bool* moved) {
  s.last_in_pieces = message.number;
  while (s.moved < message.bytes) {
    if (s.pieces >= load_acquire(s.theirs->taken) + kBouncePieces) return false;
    const uint64_t bytes = std::min(s.piece_bytes, message.bytes - s.moved);
    uint8_t* piece = s.target + s.pieces % kBouncePieces * s.piece_bytes;
    GC_TRY(context_.device.copy_async(piece, message.buffer + s.moved, bytes, stream_));
    GC_TRY(context_.device.stream_wait(words_stream_, stream_));
    GC_TRY(context_.device.write_value(words_stream_, &s.own_kernel->moved, ++s.pieces));
    s.moved += bytes;
    *moved = true;
  }
  GC_TRY(context_.device.write_value(words_stream_, &s.own_kernel->send_done, message.number));
  s.issued = message.number;
  return true;
}

Status CopyMessages::advance(Receiving& r, bool* moved) {
  drop_done(r, moved);
  post(r);
  if (r.pending.empty()) return {};
  const Message& message = r.pending.front();
  const uint64_t come = load_acquire(r.theirs->send_messages);
  if (come >= message.ordinal && __atomic_load_n(&r.theirs->send_copies, __ATOMIC_RELAXED) < message.number)
    return differ(r.peer, load_acquire(r.theirs->send_bytes[message.ordinal % kSizeRing]), context_.peers.rank(),
                  message.bytes);
  return take_pieces(r, moved);
}

void CopyMessages::drop_done(Receiving& r, bool* moved) {
  const uint64_t done = load_acquire(r.own->recv_done);
  while (!r.pending.empty() && r.pending.front().number <= done) {
    const Message& message = r.pending.front();
    if (message.place) context_.exports.unpin(*message.place);
    count(Counter::copies);
    count(Counter::copied_bytes, message.bytes);
    if (message.traced_from_ns)
      trace::add(message.traced_from_ns, {.what = trace::What::copy, .peer = r.peer, .bytes = message.bytes});
    r.pending.erase(r.pending.begin());
    *moved = true;
  }
}

// Tells the sender of as many receives as the ring has room for.
void CopyMessages::post(Receiving& r) {
  const uint64_t room = load_acquire(r.own->recv_done) + kCopyRing;
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
Status CopyMessages::take_pieces(Receiving& r, bool* moved) {
  for (Message& message : r.pending) {
    if (message.place) continue;
    while (message.taken < message.bytes) {
      if (r.pieces >= load_acquire(r.theirs->moved)) return {};
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
