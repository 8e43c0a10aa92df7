#include "mpi/board.h"

#include <cstring>

namespace gpucoll::core {
namespace {

constexpr size_t kBytes = sizeof(gc_board);
constexpr int kSlots = 2 * GC_BOARD_PROBE;  // where an entry may be

size_t slot(const BoardKey& key, int probe) {
  constexpr size_t kFar = GC_BOARD_ENTRIES - GC_BOARD_NEAR;
  const uint64_t place = key.word[0] + static_cast<uint64_t>(probe);
  return probe < GC_BOARD_PROBE ? place % GC_BOARD_NEAR : GC_BOARD_NEAR + place % kFar;
}

// A reader that still looks at the old key sees that it has gone before anything else changes.
gc_board_entry* take(gc_board_entry& entry, const BoardKey& key) noexcept {
  __atomic_store_n(&entry.key[1], uint64_t{0}, __ATOMIC_RELEASE);
  for (gc_board_order& order : entry.orders) {
    __atomic_store_n(&order.decided, uint64_t{0}, __ATOMIC_RELEASE);
    __atomic_store_n(&order.failed, uint64_t{0}, __ATOMIC_RELEASE);
    for (gc_board_line& line : order.lines) __atomic_store_n(&line.arrival, uint64_t{0}, __ATOMIC_RELEASE);
  }
  for (uint64_t& word : entry.starts.started) __atomic_store_n(&word, uint64_t{0}, __ATOMIC_RELEASE);
  for (uint64_t& word : entry.starts.held) __atomic_store_n(&word, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.starts.read, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.starts.scheduled, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.starts.number, uint64_t{0}, __ATOMIC_RELEASE);
  for (gc_board_meeting& meeting : entry.meetings) __atomic_store_n(&meeting.met, uint64_t{0}, __ATOMIC_RELEASE);
  for (uint64_t& hints : entry.device_hints) __atomic_store_n(&hints, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.ending, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.left, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.key[0], key.word[0], __ATOMIC_RELAXED);
  __atomic_store_n(&entry.key[1], key.word[1], __ATOMIC_RELEASE);  // partner: find()
  return &entry;
}

}  // namespace

Result<Board> Board::create() {
  Board board;
  GC_TRY_AS(board.memory_, SharedMemory::create(kBytes, "gpucoll-board"));
  board.board().launch_number = GC_NUMBER_COMING;
  return board;
}

Result<Board> Board::open(const SharedMemoryName& name) {
  if (name.bytes != kBytes)
    return Status::error(Code::invalid_usage,
                         "the arrival board of process %d has another format: install one version "
                         "of gpucoll everywhere",
                         name.pid);
  Board board;
  GC_TRY_AS(board.memory_, SharedMemory::open(name));
  return board;
}

Result<Board> Board::create_copy() {
  Board board;
  GC_TRY_AS(board.memory_, SharedMemory::create_unnamed(kBytes));
  return board;
}

gc_board_entry* Board::claim(const BoardKey& key) noexcept {
  std::lock_guard lock(mutex_);
  for (int probe = 0; probe < kSlots; ++probe) {
    gc_board_entry& entry = board().entries[slot(key, probe)];
    if (!entry.key[1] || entry.left) return take(entry, key);
  }
  return nullptr;
}

void Board::release(gc_board_entry* entry) noexcept {
  std::lock_guard lock(mutex_);
  if (entry->left) return;
  ++released_;
  remember({{entry->key[0], entry->key[1]}});
  __atomic_store_n(&entry->left, uint64_t{1},
                   __ATOMIC_RELEASE);  // partner: the peers' looks (coll/match/call_matcher.cpp)
}

void Board::remember(const BoardKey& key) noexcept {
  uint64_t probe = 0;
  while (probe < GC_BOARD_PROBE && gone(key, probe) != 0) ++probe;
  if (probe == GC_BOARD_PROBE) probe = released_ % GC_BOARD_PROBE;     // one that is long gone, most likely
  __atomic_store_n(&gone(key, probe), key.word[1], __ATOMIC_RELEASE);  // partner: is_gone()
}

bool Board::is_gone(const BoardKey& key) const noexcept {
  for (uint64_t probe = 0; probe < GC_BOARD_PROBE; ++probe) {
    const uint64_t seen = __atomic_load_n(&gone(key, probe), __ATOMIC_ACQUIRE);
    if (seen == key.word[1] || seen == 0) return seen != 0;
  }
  return false;
}

void Board::end() noexcept {
  __atomic_store_n(&board().pulse.beat_ns, uint64_t{0}, __ATOMIC_RELAXED);  // nobody need wait for it
  __atomic_store_n(&board().ended, uint64_t{1}, __ATOMIC_RELEASE);          // partner: has_ended()
}

// Release: whoever sees this sees what the process had released before.
void Board::begin_again() noexcept { __atomic_store_n(&board().ended, uint64_t{0}, __ATOMIC_RELEASE); }

// All are sequentially consistent, as are the stores and loads around them that count (proto/format/board.h).
uint64_t Board::take_number() const noexcept {
  return __atomic_add_fetch(&board().launch_number, uint64_t{1}, __ATOMIC_SEQ_CST);
}

void Board::raise_number(uint64_t number) const noexcept {
  uint64_t& last = board().launch_number;
  uint64_t seen = __atomic_load_n(&last, __ATOMIC_SEQ_CST);
  while (seen < number &&
         !__atomic_compare_exchange_n(&last, &seen, number, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
}

uint64_t Board::last_number() const noexcept { return __atomic_load_n(&board().launch_number, __ATOMIC_SEQ_CST); }

bool Board::has_ended() const noexcept { return __atomic_load_n(&board().ended, __ATOMIC_ACQUIRE) != 0; }

// An entry that is being changed looks as if it had never been used: then the next look finds what there is.
const gc_board_entry* Board::find(const BoardKey& key) const noexcept {
  for (int probe = 0; probe < kSlots; ++probe) {
    const gc_board_entry& entry = board().entries[slot(key, probe)];
    const uint64_t seen = __atomic_load_n(&entry.key[1], __ATOMIC_ACQUIRE);
    if (seen == key.word[1] && __atomic_load_n(&entry.key[0], __ATOMIC_RELAXED) == key.word[0]) return &entry;
    if (seen == 0) return nullptr;
  }
  return nullptr;
}

}  // namespace gpucoll::core
