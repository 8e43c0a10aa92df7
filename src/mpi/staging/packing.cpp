#include "mpi/staging/packing.h"

#include <algorithm>

#include "gpucoll/gpucoll.h"
#include "kernels/kernels.h"
#include "mpi/datatype/address.h"

namespace gpucoll::coll {
namespace {

ptrdiff_t elements_extent(const gc_type_map& map, size_t bytes) {
  return static_cast<ptrdiff_t>(bytes / map.size) * map.extent;
}

// Where a side is one on consecutive bytes.
bool takes_whole(const gc_buffer& buffer) { return buffer.block_bytes == nullptr; }

}  // namespace

Span span_of(const gc_type_map& map, size_t bytes_of_data) {
  const ptrdiff_t last = elements_extent(map, bytes_of_data - map.size);
  const ptrdiff_t low = map.true_lb + std::min<ptrdiff_t>(last, 0);
  return {low, map.true_extent + static_cast<size_t>(std::abs(last))};
}

bool reduces_pairs_with_gaps(const gc_call& call) {
  return call.reduces && (call.type == gpucollDoubleInt || call.type == gpucollLongInt || call.type == gpucollShortInt);
}

void add_copy(core::TaskQueue& queue, std::vector<proto::PackItem>* when, void* to, const void* from, size_t bytes) {
  append_copy(when, to, from, bytes);
  if (bytes > 0) queue.packing = packing_kernel();
}

Packing::Side Packing::send_side(const gc_call& call) const {
  if (call.sources)
    return {call.send, call.send.block_bytes ? call.n_destinations : 1, Blocks::all, Blocks::none, false};
  switch (call.function) {
    case GC_FUNCTION_alltoall:
    case GC_FUNCTION_alltoallv:
    case GC_FUNCTION_alltoallw:
      // In place, all that is sent is put aside: the call becomes one with two buffers.
      if (!call.send.given) return {call.recv, n_, Blocks::all, Blocks::none, true};
      return {call.send, n_, Blocks::all, Blocks::none, false};
    case GC_FUNCTION_scatter:
    case GC_FUNCTION_scatterv:
      return {call.send, n_, call.recv.given ? Blocks::all : Blocks::others, Blocks::none, false};
    default: return {call.send, 1, Blocks::all, Blocks::none, false};
  }
}

Packing::Side Packing::recv_side(const gc_call& call) const {
  if (call.sources) return {call.recv, call.combines ? 1 : call.n_sources, Blocks::none, Blocks::all, false};
  const bool in_place = !call.send.given;
  switch (call.function) {
    case GC_FUNCTION_bcast:
      if (rank_ == call.root) return {call.recv, 1, Blocks::all, Blocks::none, false};
      return {call.recv, 1, Blocks::none, Blocks::all, false};
    case GC_FUNCTION_allgather:
    case GC_FUNCTION_allgatherv:
      if (in_place) return {call.recv, n_, Blocks::own, Blocks::others, false};
      return {call.recv, n_, Blocks::none, Blocks::all, false};
    case GC_FUNCTION_gather:
    case GC_FUNCTION_gatherv: return {call.recv, n_, Blocks::none, in_place ? Blocks::others : Blocks::all, false};
    case GC_FUNCTION_alltoall:
    case GC_FUNCTION_alltoallv:
    case GC_FUNCTION_alltoallw: return {call.recv, n_, Blocks::none, Blocks::all, false};
    default: break;
  }
  // Reductions: rank 0 of an exscan gets nothing.
  const bool gets_none = call.function == GC_FUNCTION_exscan && rank_ == 0;
  return {call.recv, 1, in_place ? Blocks::all : Blocks::none, gets_none ? Blocks::none : Blocks::all, false};
}

bool Packing::takes(Blocks which, int block) const {
  switch (which) {
    case Blocks::none: return false;
    case Blocks::own: return block == rank_;
    case Blocks::others: return block != rank_;
    case Blocks::all: return true;
  }
  return false;
}

size_t Packing::area_bytes(const Side& side) {
  const gc_buffer& buffer = side.buffer;
  if (!has_gaps(buffer) && !side.aside) return 0;
  if (takes_whole(buffer)) return packs(buffer.bytes);
  size_t bytes = 0;
  for (int r = 0; r < side.blocks; ++r)
    if (side.aside || buffer.block_maps[r]) bytes += packs(buffer.block_bytes[r]);
  return bytes;
}

Status Packing::add_piece(const Side& side, const Piece& piece, const CallContext& context, bool unpacks) {
  if (piece.bytes == 0) return {};
  if (side.host) {
    on_host_.add(moved(piece.address, 0), piece.map, piece.packed, piece.bytes, unpacks);
    return {};
  }
  const proto::PackRuns* runs = nullptr;
  const uint32_t* starts = nullptr;
  TypeLayout layout;
  ptrdiff_t low = 0;
  if (piece.map) {
    GC_TRY_AS(TypeCache::Pointer known, TypeCache::instance().get(*piece.map, context.device));
    layout = known->layout;
    runs = known->runs;
    starts = known->starts;
    low = piece.map->true_lb;
    types_.push_back(std::move(known));
  } else {
    layout = plain_layout(piece.bytes);
  }
  uint8_t* const memory = kernel_origin(context.device, piece.address, low);
  auto& items = unpacks ? context.queue.after : context.queue.before;
  items.push_back(pack_item(layout, runs, starts, memory, piece.packed, piece.bytes, unpacks));
  return {};
}

// Equal blocks that follow each other, as few pieces as possible.
Status Packing::add_ranges(const Side& side, Blocks which, uint8_t* area, const CallContext& context, bool unpacks) {
  const gc_buffer& buffer = side.buffer;
  const size_t bytes = buffer.bytes / static_cast<size_t>(side.blocks);
  for (int first = 0; first < side.blocks;) {
    int past = first;
    while (past < side.blocks && takes(which, past) == takes(which, first)) ++past;
    const size_t before = static_cast<size_t>(first) * bytes, length = static_cast<size_t>(past - first) * bytes;
    const ptrdiff_t offset = buffer.map ? elements_extent(*buffer.map, before) : static_cast<ptrdiff_t>(before);
    if (takes(which, first))
      GC_TRY(add_piece(side, {moved(buffer.address, offset), length, buffer.map, area + before}, context, unpacks));
    first = past;
  }
  return {};
}

Status Packing::add_blocks(const Side& side, Target& target, std::vector<ptrdiff_t>* offsets, gc_buffer* packed) {
  const gc_buffer& buffer = side.buffer;
  uint8_t*& area = side.host ? target.pinned : target.scratch;
  offsets->assign(buffer.block_offsets, buffer.block_offsets + side.blocks);
  for (int r = 0; r < side.blocks; ++r) {
    const gc_type_map* const map = buffer.block_maps ? buffer.block_maps[r] : nullptr;
    if (!map && !side.aside) continue;
    const Piece piece = {moved(buffer.address, buffer.block_offsets[r]), buffer.block_bytes[r], map, area};
    if (takes(side.packs, r)) GC_TRY(add_piece(side, piece, target.context, false));
    if (takes(side.unpacks, r)) GC_TRY(add_piece(side, piece, target.context, true));
    (*offsets)[static_cast<size_t>(r)] =
        static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(area) - reinterpret_cast<uintptr_t>(buffer.address));
    area += packs(buffer.block_bytes[r]);
  }
  packed->block_offsets = offsets->data();
  packed->block_maps = nullptr;
  return {};
}

Status Packing::add(const Side& side, Target& target, std::vector<ptrdiff_t>* offsets, gc_buffer* packed) {
  if (!has_gaps(side.buffer) && !side.aside) return {};
  *packed = side.buffer;
  if (!takes_whole(side.buffer)) return add_blocks(side, target, offsets, packed);
  uint8_t*& area = side.host ? target.pinned : target.scratch;
  packed->address = area;
  packed->map = nullptr;
  GC_TRY(add_ranges(side, side.packs, area, target.context, false));
  GC_TRY(add_ranges(side, side.unpacks, area, target.context, true));
  area += packs(side.buffer.bytes);
  return {};
}

Status Packing::pack(gc_call* call, const CallContext& context) {
  rank_ = context.rank;
  n_ = context.n_ranks;
  Side send = send_side(*call), recv = recv_side(*call);
  send.host = send.aside ? context.recv_on_host : context.send_on_host;
  recv.host = context.recv_on_host;
  send.aside |= send.host;
  recv.aside |= recv.host;
  // Data that are copied back hold the gaps, too.
  if (recv.host && recv.packs == Blocks::none && reduces_pairs_with_gaps(*call)) recv.packs = recv.unpacks;
  Target target = {context, nullptr, nullptr};
  if (const size_t bytes = area_bytes(send, false) + area_bytes(recv, false)) {
    GC_TRY_AS(target.scratch, context.scratch.get(context.device, bytes));
  }
  if (const size_t bytes = area_bytes(send, true) + area_bytes(recv, true)) {
    GC_TRY_AS(target.pinned, on_host_.reserve(context.device, bytes));
  }
  GC_TRY(add(send, target, &send_offsets_, &call->send));
  GC_TRY(add(recv, target, &recv_offsets_, &call->recv));
  context.queue.packing = packing_kernel();
  return {};
}

}  // namespace gpucoll::coll
