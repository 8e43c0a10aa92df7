// Turns a call on types with gaps into one on consecutive bytes in scratch memory, with what is to be packed before it
// and unpacked after it.
//
// Of a buffer's blocks only those are packed that this rank sends or, in place, contributes, and only those unpacked
// that it receives: of the others' memory, and of the gaps, nothing is written.
// Thread safety: one caller at a time. Ownership: the new call points to offsets that Packing owns, and what is packed
// by to lists that it holds.
#pragma once
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "coll/scratch.h"
#include "coll/type_layouts.h"
#include "core/abi.h"
#include "core/task.h"

namespace gpucoll::coll {

// Where the data of elements with gaps lie: from the first byte to the last.
struct Span {
  ptrdiff_t low;
  size_t bytes;
};
Span span_of(const gc_type_map& map, size_t bytes_of_data);

class Packing {
 public:
  static bool needed(const gc_call& call) { return has_gaps(call.send) || has_gaps(call.recv); }
  // Makes *call one on kernel addresses in `scratch` where it has gaps, and adds what that takes to *queue.
  // REQUIRES: the buffers are memory of `device`. Errors: unsupported, where it has gaps that nobody thought of.
  Status pack(gc_call* call, int rank, int n_ranks, gpu::Device& device, Scratch& scratch, core::TaskQueue* queue);
  // The queue is worked off.
  void clear() { types_.clear(); }

 private:
  enum class Blocks { none, own, others, all };
  struct Side {
    gc_buffer buffer;
    int blocks;  // one, or one for each rank or neighbour
    Blocks packs, unpacks;
    bool aside;  // blocks without gaps are copied as well
  };
  struct Target {
    gpu::Device& device;
    core::TaskQueue& queue;
    uint8_t* area;
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
  size_t area_bytes(const Side& side) const;
  Status add(const Side& side, Target& target, std::vector<ptrdiff_t>* offsets, gc_buffer* packed);
  Status add_blocks(const Side& side, Target& target, std::vector<ptrdiff_t>* offsets, gc_buffer* packed);
  Status add_ranges(const Side& side, Blocks which, Target& target, bool unpacks);
  Status add_piece(const Piece& piece, Target& target, bool unpacks);

  int rank_ = 0, n_ = 0;
  std::vector<TypeLayouts::Pointer> types_;
  std::vector<ptrdiff_t> send_offsets_, recv_offsets_;
};

}  // namespace gpucoll::coll
