// The arrival board of this process, and the boards of others. Format: proto/format/board.h.
//
// Thread safety: claim() and release() from any thread; entries are written by their communicator's thread only.
// Ownership: a Board owns its memory; entries are borrowed until release().
#pragma once
#include <cstdint>
#include <mutex>

#include "base/shared_memory.h"
#include "base/status.h"
#include "proto/format/board.h"

namespace gpucoll::core {

struct BoardKey {
  uint64_t word[2];
};

// Returns whether a rank is ready for call `number` (proto/format/board.h): in the order in which the rank stores it.
inline bool is_ready(const gc_board_line& line, uint64_t number) noexcept {
  const uint64_t arrival = __atomic_load_n(&line.arrival, __ATOMIC_SEQ_CST);
  return gc_arrival_number(arrival) == number && __atomic_load_n(&line.number, __ATOMIC_SEQ_CST) != GC_NUMBER_NONE;
}

class Board {
 public:
  static Result<Board> create();
  static Result<Board> open(const SharedMemoryName& name);
  // Makes a board that stands for one in another node's memory; nobody opens it.
  static Result<Board> create_copy();
  Board() = default;
  Board(Board&& other) noexcept : memory_(std::move(other.memory_)) {}
  Board& operator=(Board&& other) noexcept {
    memory_ = std::move(other.memory_);
    return *this;
  }

  SharedMemoryName name() const noexcept { return memory_.name(); }
  // Returns a cleared entry under `key`, or null where all places near the key are taken. REQUIRES: created here.
  gc_board_entry* claim(const BoardKey& key) noexcept;
  void release(gc_board_entry* entry) noexcept;
  // Returns the entry of a key, also after its release, until it is claimed anew. Null while the owner has not claimed
  // it.
  const gc_board_entry* find(const BoardKey& key) const noexcept;
  // Tells the others that this process enters no collective any more.
  void end() noexcept;
  // Takes back end(): MPI has begun again in this process, in another session.
  void begin_again() noexcept;
  bool has_ended() const noexcept;
  // Tells whether the process runs (core/peer/heart.h).
  gc_pulse& pulse() const noexcept { return board().pulse; }
  // Returns whether the key's entry has been released. The board remembers the last hundred thousand or so. Callers ask
  // this where find() returns null.
  bool is_gone(const BoardKey& key) const noexcept;
  // Count for the launch order (proto/format/board.h). take_number() returns a number that is greater than all before.
  // raise_number() lets all later ones be greater than `number`. last_number() returns the last one, or what it was
  // raised to.
  uint64_t take_number() const noexcept;
  void raise_number(uint64_t number) const noexcept;
  uint64_t last_number() const noexcept;

 private:
  gc_board& board() const noexcept { return *static_cast<gc_board*>(memory_.data()); }
  uint64_t& gone(const BoardKey& key, uint64_t probe) const noexcept {
    return board().gone[(key.word[0] + probe) % GC_BOARD_GONE];
  }
  void remember(const BoardKey& key) noexcept;
  SharedMemory memory_;
  std::mutex mutex_;
  uint64_t released_ = 0;  // how many entries have been released
};

}  // namespace gpucoll::core
