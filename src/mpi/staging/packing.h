// Turns a call on types with gaps, or on host memory, into one on consecutive bytes that kernels see: in scratch
// memory, with what is to be packed before it and unpacked after it; or in page-locked memory, to be loaded and stored.
//
// It packs only those blocks of a buffer that this rank sends or, in place, contributes, and unpacks only those that
// this rank receives. It writes nothing into others' blocks and into gaps.
// Thread safety: one caller at a time. Ownership: the new call points to offsets and page-locked memory that Packing
// owns, and what is packed by to lists that it holds.
#pragma once
#include <cstdint>
#include <vector>

#include "abi/abi.h"
#include "base/status.h"
#include "core/plan/copy_items.h"
#include "core/plan/task.h"
#include "mpi/datatype/type_cache.h"
#include "mpi/staging/call_context.h"
#include "mpi/staging/pinned_copies.h"

namespace gpucoll::coll {

// Where the data of elements with gaps lie: from the first byte to the last.
struct Span {
  ptrdiff_t low;
  size_t bytes;
};
Span span_of(const gc_type_map& map, size_t bytes_of_data);

// So many bytes, in whole packs: what lies behind them is aligned as well.
constexpr size_t packs(size_t bytes) {
  return (bytes + sizeof(proto::Pack) - 1) / sizeof(proto::Pack) * sizeof(proto::Pack);
}

// Returns whether the call reduces pairs that have a gap between or behind their members. Results keep what lies there.
bool reduces_pairs_with_gaps(const gc_call& call);

using core::append_copy;
// Adds a copy to `when`: &queue.before or &queue.after. Kernel addresses.
void add_copy(core::TaskQueue& queue, std::vector<proto::PackItem>* when, void* to, const void* from, size_t bytes);

class Packing {
 public:
  static bool has_gaps(const gc_call& call) { return has_gaps(call.send) || has_gaps(call.recv); }
  // Makes *call one on kernel addresses where it has gaps or host memory, and adds to the queue what that takes.
  // Errors: no memory.
  Status pack(gc_call* call, const CallContext& context);
  // Before the queue is begun, and once it is done.
  const PinnedCopies& on_host() const { return on_host_; }
  // The queue is worked off.
  void clear() {
    types_.clear();
    on_host_.clear();
  }

 private:
  enum class Blocks { none, own, others, all };
  struct Side {
    gc_buffer buffer;
    int blocks;  // one, or one for each rank or neighbour
    Blocks packs, unpacks;
    bool aside;  // blocks without gaps are copied as well
    bool host = false;
  };
  struct Target {
    const CallContext& context;
    uint8_t *scratch, *pinned;  // what is left of them
  };
  // A block, or several of one map that follow each other.
  struct Piece {
    const void* address;
    size_t bytes;
    const gc_type_map* map;
    uint8_t* packed;
  };

  static bool has_gaps(const gc_buffer& buffer) { return buffer.given && (buffer.map || buffer.block_maps); }
  Side send_side(const gc_call& call) const;
  Side recv_side(const gc_call& call) const;
  bool takes(Blocks which, int block) const;
  static size_t area_bytes(const Side& side);
  static size_t area_bytes(const Side& side, bool host) { return side.host == host ? area_bytes(side) : 0; }
  Status add(const Side& side, Target& target, std::vector<ptrdiff_t>* offsets, gc_buffer* packed);
  Status add_blocks(const Side& side, Target& target, std::vector<ptrdiff_t>* offsets, gc_buffer* packed);
  Status add_ranges(const Side& side, Blocks which, uint8_t* area, const CallContext& context, bool unpacks);
  Status add_piece(const Side& side, const Piece& piece, const CallContext& context, bool unpacks);

  int rank_ = 0, n_ = 0;
  std::vector<TypeCache::Pointer> types_;
  std::vector<ptrdiff_t> send_offsets_, recv_offsets_;
  PinnedCopies on_host_;
};

}  // namespace gpucoll::coll
