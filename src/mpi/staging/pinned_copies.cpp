#include "mpi/staging/pinned_copies.h"

#include <cstring>
#include <utility>

#include "base/observe/causes.h"
#include "mpi/staging/pinned_pool.h"

namespace gpucoll::coll {

Result<uint8_t*> PinnedCopies::reserve(gpu::Device& device, size_t bytes) {
  clear();
  block_ = PinnedPool::of_calls().get_pinned(device, bytes);
  if (block_.host) return static_cast<uint8_t*>(block_.kernel);
  return Status::error(Code::unsupported, "%zu bytes", bytes).because(Cause::pinned_bytes);
}

void PinnedCopies::add(uint8_t* memory, const gc_type_map* map, uint8_t* place, size_t bytes, bool stored) {
  const auto offset = static_cast<size_t>(place - static_cast<uint8_t*>(block_.kernel));
  Piece piece = {memory, offset, bytes, stored, bytes, 0, {}};
  if (map) {
    piece.element_bytes = map->size;
    piece.extent = map->extent;
    piece.runs.assign(map->runs, map->runs + map->n_runs);
  } else {
    piece.runs = {{0, bytes, 1, 0}};
  }
  pieces_.push_back(std::move(piece));
}

// move(where a run of data lies, where it is reserved, bytes), in the order of the data.
template <class Move>
void PinnedCopies::each_run(const Piece& piece, const Move& move) const {
  uint8_t* place = static_cast<uint8_t*>(block_.host) + piece.offset;
  // Numbers, as elements that lie at absolute addresses (MPI_BOTTOM) begin at 0.
  auto element = reinterpret_cast<uintptr_t>(piece.memory);
  for (size_t done = 0; done < piece.bytes; done += piece.element_bytes) {
    for (const gc_runs& runs : piece.runs) {
      uintptr_t run = element + static_cast<uintptr_t>(runs.offset);
      for (size_t i = 0; i < runs.count; ++i) {
        move(reinterpret_cast<uint8_t*>(run), place, runs.bytes);
        run += static_cast<uintptr_t>(runs.stride);
        place += runs.bytes;
      }
    }
    element += static_cast<uintptr_t>(piece.extent);
  }
}

void PinnedCopies::load_all() const {
  if (std::exchange(loaded_, true)) return;
  for (const Piece& piece : pieces_)
    if (!piece.stored)
      each_run(piece, [](uint8_t* memory, uint8_t* place, size_t bytes) { std::memcpy(place, memory, bytes); });
}

void PinnedCopies::store_all() const {
  loaded_ = false;
  for (const Piece& piece : pieces_)
    if (piece.stored)
      each_run(piece, [](uint8_t* memory, uint8_t* place, size_t bytes) { std::memcpy(memory, place, bytes); });
}

void PinnedCopies::clear() noexcept {
  if (block_.host) PinnedPool::of_calls().put(block_.host);
  block_ = {};
  loaded_ = false;
  pieces_.clear();
}

}  // namespace gpucoll::coll
