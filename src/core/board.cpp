#include "core/board.h"

#include <cstring>

namespace gpucoll::core {
namespace {

constexpr size_t kBytes = sizeof(gc_board_entry) * GC_BOARD_ENTRIES;

size_t slot(const BoardKey& key, int probe) { return (key.word[0] + static_cast<uint64_t>(probe)) % GC_BOARD_ENTRIES; }

// A reader that still looks at the old key sees that it has gone before anything else changes.
gc_board_entry* take(gc_board_entry& entry, const BoardKey& key) noexcept {
  __atomic_store_n(&entry.key[1], uint64_t{0}, __ATOMIC_RELEASE);
  for (gc_board_order& order : entry.orders) {
    order.decided = order.failed = 0;
    for (gc_board_line& line : order.lines) __atomic_store_n(&line.arrival, uint64_t{0}, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&entry.met, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.left, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.key[0], key.word[0], __ATOMIC_RELAXED);
  __atomic_store_n(&entry.key[1], key.word[1], __ATOMIC_RELEASE);  // partner: find()
  return &entry;
}

}  // namespace

Result<Board> Board::create() {
  Board board;
  GC_TRY_AS(board.memory_, SharedMemory::create(kBytes, "gpucoll-board"));
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

gc_board_entry* Board::claim(const BoardKey& key) noexcept {
  std::lock_guard lock(mutex_);
  gc_board_entry* oldest = nullptr;
  for (int probe = 0; probe < GC_BOARD_PROBE; ++probe) {
    gc_board_entry& entry = entries()[slot(key, probe)];
    if (!entry.key[1]) return take(entry, key);
    if (entry.left && (!oldest || entry.left < oldest->left)) oldest = &entry;
  }
  return oldest ? take(*oldest, key) : nullptr;
}

void Board::release(gc_board_entry* entry) noexcept {
  std::lock_guard lock(mutex_);
  __atomic_store_n(&entry->left, ++released_, __ATOMIC_RELEASE);  // partner: the peers' looks (coll/arrivals.cpp)
}

const gc_board_entry* Board::find(const BoardKey& key) const noexcept {
  for (int probe = 0; probe < GC_BOARD_PROBE; ++probe) {
    const gc_board_entry& entry = entries()[slot(key, probe)];
    if (__atomic_load_n(&entry.key[1], __ATOMIC_ACQUIRE) == key.word[1] &&
        __atomic_load_n(&entry.key[0], __ATOMIC_RELAXED) == key.word[0])
      return &entry;
  }
  return nullptr;
}

}  // namespace gpucoll::core
