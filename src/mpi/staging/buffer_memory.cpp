#include "mpi/staging/buffer_memory.h"

#include <algorithm>
#include <atomic>

#include "base/mutant.h"
#include "base/observe/causes.h"
#include "gpu/known_memory.h"
#include "gpu/program_copies.h"
#include "mpi/datatype/call_blocks.h"
#include "mpi/staging/packing.h"
#include "mpi/staging/program_memory.h"

namespace gpucoll::coll {
namespace {

std::atomic<gpu::Device*> last_used{nullptr};

enum class Gaps { none, between, behind };  // behind: between, too

// Looks whether a block that is not all in the allocation of its first byte, of which `info` tells, lies in others.
// Gaps may lead over anything.
Status check_rest(gpu::Platform& platform, const gpu::PointerInfo& info, const Block& block, Gaps gaps) {
  if (gaps == Gaps::none) return check_allocated(platform, info, block.address, block.bytes);
  GC_TRY(check_allocated(platform, info, block.address, 1));
  if (gaps == Gaps::behind) return {};
  const uint8_t* const last = block.address + block.bytes - 1;
  return check_allocated(platform, platform.classify(last), last, 1);
}

// The memory of one block: of the device, which is found by the way, or of the host. Kernels see managed and
// page-locked memory as well, wherever it is, where all of the block is page-locked.
Status look_at_block(const Block& block, Gaps gaps, BufferMemory* memory, bool* on_host) {
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  const gpu::PointerInfo info = platform->classify(block.address);
  memory->results_on_host |= info.kind != gpu::MemoryKind::device;
  *on_host = info.kind == gpu::MemoryKind::host || is_partly_pinned(*platform, info, block.address, block.bytes);
  if (info.kind != gpu::MemoryKind::device) return {};
  if (!is_inside(info, block.address, block.bytes)) {
    Status allocated = check_rest(*platform, info, block, gaps);
    memory->lacks_memory = !allocated;
    if (memory->lacks_memory) return allocated;
    return Status::error(Code::unsupported, "%zu bytes at %p", block.bytes, static_cast<const void*>(block.address))
        .because(Cause::several_allocations);
  }
  if (!memory->device) {
    GC_TRY_AS(memory->device, platform->open(info.device));
  }
  gpu::await_program_copies(block.address, info);
  last_used.store(memory->device, std::memory_order_relaxed);
  if (memory->device->index() == info.device) return {};
  return Status::error(Code::unsupported, "devices %d and %d", memory->device->index(), info.device)
      .because(Cause::several_devices);
}

const gc_type_map* map_of(const gc_buffer& buffer, int block) {
  if (!buffer.block_bytes) return buffer.map;
  return buffer.block_maps ? buffer.block_maps[block] : nullptr;
}

// Returns the bytes of a block with those between them.
Block spanned_block(const gc_buffer& buffer, int block, int n_blocks) {
  const Block data = buffer.block_bytes ? block_of(buffer, block, n_blocks) : whole(buffer);
  const gc_type_map* const map = map_of(buffer, block);
  if (data.bytes == 0 || !map) return data;
  const Span span = span_of(*map, data.bytes);
  return {moved(data.address, span.low), span.bytes};
}

int blocks_of(const gc_buffer& buffer, int n_blocks) { return !buffer.given ? 0 : buffer.block_bytes ? n_blocks : 1; }

// A buffer is host memory, or it is not.
Status look_at_buffer(const gc_buffer& buffer, int n_blocks, Gaps gaps, BufferMemory* memory, bool* on_host) {
  bool seen = false;
  for (int i = 0; i < blocks_of(buffer, n_blocks); ++i) {
    const Block block = spanned_block(buffer, i, n_blocks);
    if (block.bytes == 0) continue;
    bool host = false;
    GC_TRY(look_at_block(block, map_of(buffer, i) ? Gaps::between : gaps, memory, &host));
    (host ? *on_host : seen) = true;
  }
  memory->seen |= seen;
  if (!*on_host) return {};
  return seen ? Status::error(Code::unsupported, "its blocks").because(Cause::partly_host) : Status();
}

// Returns what lies between the first byte of a buffer without gaps and its last one.
Block extent_of(const gc_buffer& buffer, int n_blocks) {
  if (!buffer.given) return {};
  if (!buffer.block_bytes) return whole(buffer);
  Block all = {};
  for (int i = 0; i < n_blocks; ++i) {
    const Block block = block_of(buffer, i, n_blocks);
    if (block.bytes == 0) continue;
    if (all.bytes == 0) all = block;
    const uint8_t* const begin = std::min(all.address, block.address);
    const uint8_t* const end = std::max(all.address + all.bytes, block.address + block.bytes);
    all = {begin, static_cast<size_t>(end - begin)};
  }
  return all;
}

}  // namespace

std::optional<KnownBuffer> KnownBuffer::of(const gc_buffer& buffer, int n_blocks) noexcept {
  KnownBuffer known;
  const Block all = extent_of(buffer, n_blocks);
  if (all.bytes == 0) return known;
  if (auto platform = gpu::platform()) known.platform_ = *platform;
  known.address_ = all.address;
  if (known.platform_) known.info_ = known.platform_->classify(all.address);
  const gpu::PointerInfo& info = known.info_;
  if (info.kind != gpu::MemoryKind::device || info.device < 0) return std::nullopt;
  if (!info.bytes) return buffer.block_bytes ? std::nullopt : std::optional(known);  // blocks may be in several
  const bool is_inside = all.address + all.bytes <= static_cast<const uint8_t*>(info.base) + info.bytes;
  return is_inside ? std::optional(known) : std::nullopt;
}

bool KnownBuffer::is_still() const noexcept {
  if (!platform_) return true;
  const gpu::PointerInfo info = platform_->classify(address_);
  if (!gpu::are_same(info, info_) && !gc_mutant(360)) return false;
  gpu::await_program_copies(address_, info);
  return true;
}

void RememberedMemory::remember(const gc_call& call, int n_ranks) {
  pieces_.clear();
  auto platform = gpu::platform();
  if (!platform) return;
  remember(**platform, call.send, call.sources ? call.n_destinations : n_ranks);
  remember(**platform, call.recv, call.sources ? call.n_sources : n_ranks);
}

// Blocks of one allocation become one piece.
void RememberedMemory::remember(gpu::Platform& platform, const gc_buffer& buffer, int n_blocks) {
  for (int i = 0; i < blocks_of(buffer, n_blocks); ++i) {
    const Block block = spanned_block(buffer, i, n_blocks);
    if (block.bytes == 0) continue;
    Piece* const last = pieces_.empty() ? nullptr : &pieces_.back();
    const size_t end = last ? static_cast<size_t>(block.address - last->address) + block.bytes : 0;
    if (last && last->info.bytes && block.address >= last->address && is_inside(last->info, last->address, end)) {
      last->bytes = std::max(last->bytes, end);
      continue;
    }
    const gpu::PointerInfo info = platform.classify(block.address);
    if (info.kind != gpu::MemoryKind::host) pieces_.push_back({block.address, block.bytes, info});
  }
}

Status RememberedMemory::check() {
  if (pieces_.empty()) return {};
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  for (Piece& piece : pieces_) {
    if (gpu::are_same(platform->classify(piece.address), piece.info) || gc_mutant(595)) continue;
    GC_TRY(renew(*platform, &piece));
  }
  return {};
}

Status RememberedMemory::renew(gpu::Platform& platform, Piece* piece) {
  const gpu::PointerInfo info = platform.classify(piece->address);
  GC_TRY(check_allocated(platform, info, piece->address, piece->bytes));
  const bool in_one = info.kind != gpu::MemoryKind::device || is_inside(info, piece->address, piece->bytes);
  if (info.kind != piece->info.kind || info.device != piece->info.device || !in_one)
    return Status::error(
        Code::invalid_argument,
        "the buffer %p is in another kind of memory than when its request was made: make the request anew",
        static_cast<const void*>(piece->address));
  gpu::await_program_copies(piece->address, info);
  piece->info = info;
  return {};
}

gpu::Device* used_device() noexcept { return last_used.load(std::memory_order_relaxed); }

Status look_at_memory(const gc_call& call, int n_ranks, gpu::Device* usual, BufferMemory* memory) {
  const bool among_neighbors = call.sources;
  const int n_sent = among_neighbors ? call.n_destinations : n_ranks;
  const int n_received = among_neighbors ? call.n_sources : n_ranks;
  const Gaps gaps = reduces_pairs_with_gaps(call) ? Gaps::behind : Gaps::none;
  GC_TRY(look_at_buffer(call.send, n_sent, gaps, memory, &memory->send_on_host));
  GC_TRY(look_at_buffer(call.recv, n_received, gaps, memory, &memory->recv_on_host));
  if (!memory->device) memory->device = usual ? usual : used_device();
  if (memory->device) return {};
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  GC_TRY_AS(memory->device, platform->open(platform->current_device()));
  return {};
}

}  // namespace gpucoll::coll
