#include "mpi/remote_process.h"

#include <algorithm>
#include <cstring>

#include "base/monotonic.h"
#include "base/mutant.h"
#include "base/params.h"

namespace gpucoll::coll {
namespace {

using proto::BoardAnswer;
using proto::BoardArrivals;
using proto::BoardMessage;
using proto::BoardPiece;
using proto::BoardQuestion;

// A channel keeps so many bytes for a process that does not read.
constexpr size_t kMostBacklog = 64 << 10;

template <class T>
bool read(const uint8_t* payload, size_t bytes, T* out) {
  if (bytes != sizeof *out) return false;
  std::memcpy(out, payload, sizeof *out);
  return true;
}

// Returns whether the piece lies where a message may store: behind the words that say whose entry it is.
bool is_within(const BoardPiece& piece) {
  constexpr size_t kFirst = offsetof(gc_board_entry, device_hints);
  return piece.offset >= kFirst && piece.offset % 8 == 0 && piece.bytes % 8 == 0 &&
         piece.bytes <= sizeof(gc_board_entry) && piece.offset <= sizeof(gc_board_entry) - piece.bytes;
}

}  // namespace

void RemoteProcess::add(std::shared_ptr<net::Channel> channel) {
  std::lock_guard lock(mutex_);
  channels_.push_back(std::move(channel));
  net::Channel* none = nullptr;
  auto& place = out_.load() ? second_ : out_;
  place.compare_exchange_strong(none, channels_.back().get());
}

// A failure to receive is that of the endpoint's next look as well.
void RemoteProcess::receive_now() noexcept {
  for (net::Channel* const channel : {out_.load(std::memory_order_acquire), second_.load(std::memory_order_acquire)})
    contained([&]() -> Status {
      if (channel) channel->receive_now();
      return {};
    }).ignore();
}

bool RemoteProcess::alive() const noexcept {
  if (lost_.load(std::memory_order_relaxed)) return false;
  std::lock_guard lock(mutex_);
  return std::none_of(channels_.begin(), channels_.end(), [](const auto& channel) { return channel->ended(); });
}

void RemoteProcess::put(BoardMessage kind, const void* payload, size_t bytes) noexcept {
  net::Channel* const out = out_.load(std::memory_order_acquire);
  if (!out) return;
  const Status sent = contained([&]() -> Status {
    out->put(static_cast<uint32_t>(kind), payload, bytes);
    return {};
  });
  if (!sent) lost_.store(true, std::memory_order_relaxed);
}

void RemoteProcess::tell_pulse(bool beats) noexcept {
  const uint64_t word = beats;
  const net::Channel* const out = out_.load(std::memory_order_acquire);
  if (out && out->backlog() <= kMostBacklog) put(BoardMessage::kPulse, &word, sizeof word);
}

// ---- questions ----

void RemoteProcess::await(const core::BoardKey& key, uint32_t order, uint64_t number) noexcept {
  const BoardQuestion question = {{key.word[0], key.word[1]}, number, 0, order, 0};
  put(BoardMessage::kAwait, &question, sizeof question);
}

void RemoteProcess::ask_end() noexcept {
  if (!asks_end_.exchange(true)) put(BoardMessage::kEnds, nullptr, 0);
}

// A process that does not answer may be stopped, or its host be without power: then no connection ends. Whoever needs
// it fails by its own timeout; a rank that only orders its calls goes on.
void RemoteProcess::give_up_late(Question* question) noexcept {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  const int64_t timeout = params().timeout;
  if (!question->outstanding || timeout == 0 || gc_mutant(182)) return;
  if (monotonic_ns() - question->asked_ns <= timeout * kNsPerSecond) return;
  question->outstanding = false;
  question->answered = true;
}

// Returns whether *known is the answer, or asks where it is not being asked.
bool RemoteProcess::ask(const core::BoardKey& key, uint32_t order, uint64_t number, uint64_t raise_to,
                        Question* known) noexcept {
  const Status asked = contained([&]() -> Status {
    std::lock_guard lock(mutex_);
    Question& question = questions_[{key.word[1], order}];
    give_up_late(&question);
    *known = question;
    if (question.outstanding) known->answered = false;
    const bool same = question.number == number && (question.ready || question.raise_to >= raise_to);
    if (question.outstanding || (question.answered && same)) return {};
    question = {number, raise_to, true, false, false, 0, monotonic_ns()};
    known->answered = false;
    known->outstanding = false;  // so far
    return {};
  });
  if (!asked || known->outstanding) return false;
  if (known->answered) return true;
  const BoardQuestion question = {{key.word[0], key.word[1]}, number, raise_to, order, 0};
  put(BoardMessage::kRaise, &question, sizeof question);
  return false;
}

std::optional<RemoteProcess::Place> RemoteProcess::raise(const core::BoardKey& key, uint32_t order, uint64_t number,
                                                         uint64_t raise_to) noexcept {
  if (!alive()) return Place::behind;  // it gets ready no more
  Question known;
  if (!ask(key, order, number, raise_to, &known)) return {};
  return known.ready ? Place::ready : Place::behind;
}

std::optional<uint64_t> RemoteProcess::ask_number(const core::BoardKey& key) noexcept {
  if (!alive()) return 0;
  Question known;
  if (!ask(key, proto::kBoardNumber, 0, 0, &known)) return {};
  return known.launch_number;
}

void RemoteProcess::forget_number(const core::BoardKey& key) noexcept {
  std::lock_guard lock(mutex_);
  questions_.erase({key.word[1], proto::kBoardNumber});
}

// Whoever has only been asked does not tell that it has freed the communicator.
void RemoteProcess::forget(const core::BoardKey& key) noexcept {
  {
    std::lock_guard lock(copy_mutex_);
    release(key);
  }
  std::lock_guard lock(mutex_);
  for (uint32_t order = 0; order <= proto::kBoardNumber; ++order) questions_.erase({key.word[1], order});
}

// ---- messages ----

bool RemoteProcess::take(BoardMessage kind, const uint8_t* payload, size_t bytes) noexcept {
  std::lock_guard lock(copy_mutex_);
  switch (kind) {
    case BoardMessage::kStores: return take_stores(payload, bytes);
    case BoardMessage::kReleased: {
      core::BoardKey key;
      if (!read(payload, bytes, &key)) return false;
      release(key);
      return true;
    }
    case BoardMessage::kPulse:
    case BoardMessage::kEnded: {
      uint64_t word;
      if (!read(payload, bytes, &word)) return false;
      if (kind == BoardMessage::kPulse) {
        hear(word != 0);
      } else {
        if (word) copy_.end();
        asks_end_.store(false);
      }
      return true;
    }
    case BoardMessage::kCome: {
      BoardArrivals came;
      return read(payload, bytes, &came) && take_arrivals(came);
    }
    case BoardMessage::kRaised: {
      BoardAnswer answer;
      if (!read(payload, bytes, &answer)) return false;
      take_answer(answer);
      return true;
    }
    default: return false;
  }
}

// The clocks of two nodes are not compared: what counts is when this process has heard of the other one.
void RemoteProcess::hear(bool beats) noexcept {
  const uint64_t now = beats ? static_cast<uint64_t>(monotonic_ns()) : 0;
  __atomic_store_n(&copy_.pulse().beat_ns, now, __ATOMIC_RELEASE);  // partner: Heart::silence()
}

// Null where the communicator has been freed there, or the copy has no room.
gc_board_entry* RemoteProcess::entry(const core::BoardKey& key) noexcept {
  if (key.word[1] == 0) return nullptr;
  const gc_board_entry* const known = copy_.find(key);
  if (known) return const_cast<gc_board_entry*>(known);
  return copy_.is_gone(key) ? nullptr : copy_.claim(key);
}

bool RemoteProcess::take_stores(const uint8_t* payload, size_t bytes) noexcept {
  core::BoardKey key;
  if (bytes < sizeof key) return false;
  std::memcpy(&key, payload, sizeof key);
  gc_board_entry* const to = entry(key);
  if (!to) return copy_.is_gone(key);  // this process has freed it first
  for (size_t at = sizeof key; at < bytes;) {
    BoardPiece piece;
    if (bytes - at < sizeof piece) return false;
    std::memcpy(&piece, payload + at, sizeof piece);
    at += sizeof piece;
    if (!is_within(piece) || bytes - at < piece.bytes) return false;
    for (size_t end = at + piece.bytes, place = piece.offset; at < end; at += 8, place += 8) {
      uint64_t word;
      std::memcpy(&word, payload + at, sizeof word);
      auto* const target = reinterpret_cast<uint64_t*>(reinterpret_cast<uint8_t*>(to) + place);
      __atomic_store_n(target, word, __ATOMIC_RELEASE);  // partners: as on the board itself
    }
  }
  return true;
}

bool RemoteProcess::take_arrivals(const BoardArrivals& came) noexcept {
  const core::BoardKey key = {{came.key[0], came.key[1]}};
  if (came.order >= GC_ORDERS) return false;
  gc_board_entry* const to = entry(key);
  if (!to) return copy_.is_gone(key);
  for (int i = 0; i < GC_BOARD_LINES; ++i) {
    uint64_t& arrival = to->orders[came.order].lines[i].arrival;
    const uint64_t known = __atomic_load_n(&arrival, __ATOMIC_RELAXED);
    if (gc_arrival_number(came.arrivals[i]) > gc_arrival_number(known))
      __atomic_store_n(&arrival, came.arrivals[i], __ATOMIC_RELEASE);  // partner: CallMatcher::look_at
  }
  if (came.ending) __atomic_store_n(&to->ending, came.ending, __ATOMIC_RELEASE);
  if (came.has_left) release(key);
  return true;
}

void RemoteProcess::take_answer(const BoardAnswer& answer) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = questions_.find({answer.question.key[1], answer.question.order});
  if (found == questions_.end()) return;
  Question& question = found->second;
  if (question.number != answer.question.number || question.raise_to != answer.question.raise_to) return;
  question.outstanding = false;
  question.answered = true;
  question.ready = answer.is_ready;
  question.launch_number = answer.launch_number;
}

void RemoteProcess::release(const core::BoardKey& key) noexcept {
  if (gc_board_entry* const known = entry(key)) copy_.release(known);
}

}  // namespace gpucoll::coll
