#include "core/board.h"

#include <cstring>

namespace gpucoll::core {
namespace {

constexpr size_t kBytes = sizeof(gc_board_entry) * GC_BOARD_ENTRIES;

size_t slot(const BoardKey& key, int probe) { return (key.word[0] + static_cast<uint64_t>(probe)) % GC_BOARD_ENTRIES; }

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
  for (int probe = 0; probe < GC_BOARD_PROBE; ++probe) {
    gc_board_entry& entry = entries()[slot(key, probe)];
    if (entry.key[1]) continue;
    std::memset(entry.lines, 0, sizeof entry.lines);
    entry.key[0] = key.word[0];
    __atomic_store_n(&entry.key[1], key.word[1], __ATOMIC_RELEASE);  // partner: find()
    return &entry;
  }
  return nullptr;
}

void Board::release(gc_board_entry* entry) noexcept {
  std::lock_guard lock(mutex_);
  __atomic_store_n(&entry->key[1], uint64_t{0}, __ATOMIC_RELEASE);
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
