#include "coll/mpi_call.h"

#include <algorithm>
#include <atomic>

#include "coll/address.h"
#include "coll/call_line.h"
#include "coll/collectives.h"
#include "coll/kernels.h"
#include "coll/types.h"
#include "core/collective_messages.h"

namespace gpucoll::coll {
namespace {

using proto::Function;

std::atomic<gpu::Device*> last_used{nullptr};

struct Block {
  const uint8_t* address;  // the caller's
  size_t bytes;
};

// What goes to or comes from one rank.
Block block_of(const gc_buffer& buffer, int rank, int n_ranks) {
  const auto r = static_cast<size_t>(rank);
  if (buffer.block_bytes) return {moved(buffer.address, buffer.block_offsets[r]), buffer.block_bytes[r]};
  const size_t bytes = buffer.bytes / static_cast<size_t>(n_ranks);
  return {static_cast<const uint8_t*>(buffer.address) + r * bytes, bytes};
}
Block whole(const gc_buffer& buffer) { return {static_cast<const uint8_t*>(buffer.address), buffer.bytes}; }

class PartMaker {
 public:
  PartMaker(const gc_call& call, int rank, int n_ranks, Scratch& scratch, DevicePart* part)
      : call_(call),
        rank_(rank),
        n_(n_ranks),
        scratch_(scratch),
        part_(*part),
        element_(call.reduces ? type_size(static_cast<gpucollDataType_t>(call.type)) : 1) {}
  Status make(gpu::Device* usual);

 private:
  enum class Memory { host, seen };  // by kernels
  Result<Memory> look_at(const Block& block);
  Status look_at(const gc_buffer& buffer, int n_blocks, bool* on_host);
  Status find_device(gpu::Device* usual);
  Status add(Function function, const Block& send, const void* recv, size_t count);
  static Status check_own(const Block& from, const Block& to);
  Status own(const Block& send, const Block& recv);
  void add_move(Function function, const Block& send, const void* recv, size_t bytes);
  void add_copy(std::vector<proto::PackItem>* when, void* to, const void* from, size_t bytes);
  core::PairTask message(const Block& block) const;
  void send(int peer, const Block& block);
  void receive(int peer, const Block& block);
  Status all_gather();
  Status all_gather_blocks();
  Status all_to_all_equal();
  Status gather_equal();
  Status scatter_equal();
  Status all_to_all();
  Status all_to_all_in_place();
  Status gather();
  Status scatter();
  Status neighbors();
  Status check_self_edges() const;
  Block to_neighbor(int i) const;
  Status reduce_scatter();
  Status reduce_scatter_blocks();
  Result<uint8_t*> result_in_scratch(size_t bytes);
  bool equal_counts() const;

  gpu::Device& device() const { return *part_.device; }
  Block sent(int rank) const { return block_of(call_.send, rank, n_); }
  Block received(int rank) const { return block_of(call_.recv, rank, n_); }
  bool at_root() const { return rank_ == call_.root; }

  gc_call call_;  // without gaps once they are packed
  int rank_, n_;
  Scratch& scratch_;
  DevicePart& part_;
  size_t element_;  // bytes
  bool send_on_host_ = false, recv_on_host_ = false;
};

// The memory of a block: of one device, which is found by the way, or of the host. Kernels see managed and page-locked
// memory as well, wherever it is.
Result<PartMaker::Memory> PartMaker::look_at(const Block& block) {
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  const gpu::PointerInfo info = platform->classify(block.address);
  part_.queue.results_on_host |= info.kind != gpu::MemoryKind::device;
  if (info.kind == gpu::MemoryKind::host) return Memory::host;
  if (info.kind != gpu::MemoryKind::device) return Memory::seen;
  const auto offset = static_cast<size_t>(block.address - static_cast<const uint8_t*>(info.base));
  if (info.device < 0 || (info.bytes && block.bytes > info.bytes - offset))
    return Status::error(Code::unsupported, "%zu bytes at %p are not all memory of a device", block.bytes,
                         static_cast<const void*>(block.address));
  if (!part_.device) {
    GC_TRY_AS(part_.device, platform->open(info.device));
  }
  last_used.store(part_.device, std::memory_order_relaxed);
  if (part_.device->index() == info.device) return Memory::seen;
  return Status::error(Code::unsupported, "its buffers are on devices %d and %d", part_.device->index(), info.device);
}

// A buffer is host memory, or it is not.
Status PartMaker::look_at(const gc_buffer& buffer, int n_blocks, bool* on_host) {
  bool seen = false;
  const int n = !buffer.given ? 0 : buffer.block_bytes ? n_blocks : 1;
  for (int i = 0; i < n; ++i) {
    Block block = buffer.block_bytes ? block_of(buffer, i, n_blocks) : whole(buffer);
    const gc_type_map* const map = !buffer.block_bytes ? buffer.map
                                   : buffer.block_maps ? buffer.block_maps[i]
                                                       : nullptr;
    if (block.bytes == 0) continue;
    if (map) {
      const Span span = span_of(*map, block.bytes);
      block = {moved(block.address, span.low), span.bytes};
    }
    GC_TRY_AS(const Memory memory, look_at(block));
    (memory == Memory::host ? *on_host : seen) = true;
  }
  part_.has_device_memory |= seen;
  if (!*on_host) return {};
  return seen ? Status::error(Code::unsupported, "one of its buffers is partly host memory") : Status();
}

// Of all buffers; where this rank has no bytes, its usual one.
Status PartMaker::find_device(gpu::Device* usual) {
  GC_TRY(look_at(call_.send, call_.sources ? call_.n_destinations : n_, &send_on_host_));
  GC_TRY(look_at(call_.recv, call_.sources ? call_.n_sources : n_, &recv_on_host_));
  part_.has_host_memory = send_on_host_ || recv_on_host_;
  if (!part_.device) part_.device = usual ? usual : used_device();
  if (part_.device) return {};
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  GC_TRY_AS(part_.device, platform->open(platform->current_device()));
  return {};
}

// recv: the caller's address; count: of elements of the reduction.
Status PartMaker::add(Function function, const Block& send, const void* recv, size_t count) {
  const Caller caller = {device(), rank_, n_, nullptr};
  CollectiveCall call = {function,
                         send.address,
                         const_cast<void*>(recv),
                         count,
                         static_cast<gpucollDataType_t>(call_.type),
                         static_cast<gpucollRedOp_t>(call_.op),
                         call_.root,
                         nullptr};
  call.looked_at = send_on_host_ || recv_on_host_;
  GC_TRY_AS(const core::CollectiveTask task, make_task(caller, call));
  part_.queue.add(task);
  return {};
}

// What only moves has been checked, and has addresses for kernels where it was packed.
void PartMaker::add_move(Function function, const Block& send, const void* recv, size_t bytes) {
  core::CollectiveTask task = {};
  task.function = function;
  task.one_shot = one_shot_move_kernel();
  task.send = device().kernel_address(send.address);
  task.recv = device().kernel_address(recv);
  task.count = bytes;
  task.element_bytes = 1;
  task.root = call_.root < 0 ? 0 : static_cast<uint32_t>(call_.root);
  part_.queue.add(task);
}

// Kernel addresses.
void PartMaker::add_copy(std::vector<proto::PackItem>* when, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  auto* const source = static_cast<uint8_t*>(const_cast<void*>(from));
  when->push_back(pack_item(plain_layout(bytes), nullptr, nullptr, source, static_cast<uint8_t*>(to), bytes, false));
  part_.queue.packing = packing_kernel();
}

void PartMaker::send(int peer, const Block& block) {
  if (block.bytes) part_.queue.add_send(peer, message(block));
}
void PartMaker::receive(int peer, const Block& block) {
  if (block.bytes) part_.queue.add_recv(peer, message(block));
}
core::PairTask PartMaker::message(const Block& block) const {
  const bool all_to_all = call_.function == GC_FUNCTION_alltoallv || call_.function == GC_FUNCTION_alltoallw ||
                          call_.function == GC_FUNCTION_allgatherv;
  return {device().kernel_address(block.address), block.bytes, nullptr,
          all_to_all && !core::copies_suit_all_to_all(n_)};
}

Status PartMaker::check_own(const Block& from, const Block& to) {
  if (from.bytes == to.bytes) return {};
  return Status::error(Code::invalid_argument, "this rank sends %zu bytes to itself, but receives %zu", from.bytes,
                       to.bytes);
}

// From this rank to itself.
Status PartMaker::own(const Block& from, const Block& to) {
  GC_TRY(check_own(from, to));
  send(rank_, from);
  receive(rank_, to);
  return {};
}

Status PartMaker::all_gather() {
  const Block mine = call_.send.given ? whole(call_.send) : received(rank_);
  if (mine.bytes != received(rank_).bytes)
    return Status::error(Code::invalid_argument, "this rank sends %zu bytes, but receives %zu from each", mine.bytes,
                         received(rank_).bytes);
  add_move(Function::all_gather, mine, call_.recv.address, mine.bytes);
  return {};
}

Status PartMaker::all_gather_blocks() {
  const Block mine = call_.send.given ? whole(call_.send) : received(rank_);
  if (call_.send.given) GC_TRY(own(mine, received(rank_)));
  for (int r = 0; r < n_; ++r) {
    if (r == rank_) continue;
    send(r, mine);
    receive(r, received(r));
  }
  return {};
}

Status PartMaker::all_to_all() {
  if (!call_.send.given) return all_to_all_in_place();
  GC_TRY(own(sent(rank_), received(rank_)));
  for (int r = 0; r < n_; ++r) {
    if (r == rank_) continue;
    send(r, sent(r));
    receive(r, received(r));
  }
  return {};
}

// What is sent is put aside first.
Status PartMaker::all_to_all_in_place() {
  size_t total = 0;
  for (int r = 0; r < n_; ++r) total += r == rank_ ? 0 : packs(received(r).bytes);
  GC_TRY_AS(uint8_t * aside, scratch_.get(device(), total));
  for (int r = 0; r < n_; ++r) {
    const Block block = received(r);
    if (r == rank_ || block.bytes == 0) continue;
    add_copy(&part_.queue.before, aside, device().kernel_address(block.address), block.bytes);
    part_.queue.add_send(r, message({aside, block.bytes}));
    receive(r, block);
    aside += packs(block.bytes);
  }
  return {};
}

// One block for each pair of ranks, or for each pair with the root, of one size on all ranks.
Status PartMaker::all_to_all_equal() {
  if (!call_.send.given) {
    // Other ranks may have packed what they send: a copy of it here as well, so that all exchange in one way.
    GC_TRY_AS(uint8_t * aside, scratch_.get(device(), packs(call_.recv.bytes)));
    add_copy(&part_.queue.before, aside, device().kernel_address(call_.recv.address), call_.recv.bytes);
    call_.send = call_.recv;
    call_.send.address = aside;
  }
  GC_TRY(check_own(sent(rank_), received(rank_)));
  add_move(Function::all_to_all, whole(call_.send), call_.recv.address, sent(rank_).bytes);
  return {};
}

Status PartMaker::gather_equal() {
  const Block mine = call_.send.given ? whole(call_.send) : received(rank_);
  if (at_root()) GC_TRY(check_own(mine, received(rank_)));
  add_move(Function::gather, mine, at_root() ? call_.recv.address : nullptr, mine.bytes);
  return {};
}

Status PartMaker::scatter_equal() {
  const Block mine = call_.recv.given ? whole(call_.recv) : sent(rank_);
  if (at_root()) GC_TRY(check_own(sent(rank_), mine));
  add_move(Function::scatter, at_root() ? whole(call_.send) : Block{nullptr, 0}, mine.address, mine.bytes);
  return {};
}

Status PartMaker::gather() {
  if (!at_root()) {
    send(call_.root, whole(call_.send));
    return {};
  }
  if (call_.send.given) GC_TRY(own(whole(call_.send), received(rank_)));
  for (int r = 0; r < n_; ++r)
    if (r != rank_) receive(r, received(r));
  return {};
}

Status PartMaker::scatter() {
  if (!at_root()) {
    receive(call_.root, whole(call_.recv));
    return {};
  }
  if (call_.recv.given) GC_TRY(own(sent(rank_), whole(call_.recv)));
  for (int r = 0; r < n_; ++r)
    if (r != rank_) send(r, sent(r));
  return {};
}

Block PartMaker::to_neighbor(int i) const {
  return call_.send.block_bytes ? block_of(call_.send, i, call_.n_destinations) : whole(call_.send);
}

// A rank that is its own neighbour sends to itself what it receives from itself.
Status PartMaker::check_self_edges() const {
  int in = 0;
  for (int out = 0; out < call_.n_destinations; ++out) {
    if (call_.destinations[out] != rank_) continue;
    while (in < call_.n_sources && call_.sources[in] != rank_) ++in;
    const size_t sends = to_neighbor(out).bytes, receives = in < call_.n_sources ? received(in).bytes : 0;
    if (sends != receives)
      return Status::error(Code::invalid_argument, "this rank sends %zu bytes to itself, but receives %zu", sends,
                           receives);
    ++in;
  }
  return {};
}

Status PartMaker::neighbors() {
  GC_TRY(check_self_edges());
  for (int i = 0; i < call_.n_destinations; ++i) send(call_.destinations[i], to_neighbor(i));
  for (int i = 0; i < call_.n_sources; ++i) receive(call_.sources[i], received(i));
  return {};
}

// In place, MPI wants the result where the input begins: it is made in scratch memory.
Result<uint8_t*> PartMaker::result_in_scratch(size_t bytes) {
  GC_TRY_AS(uint8_t * result, scratch_.get(device(), bytes));
  const auto address = device().kernel_address(call_.recv.address);
  if (reduces_pairs_with_gaps(call_))
    add_copy(&part_.queue.before, result, address, bytes);  // they keep what they hold
  add_copy(&part_.queue.after, address, result, bytes);
  return result;
}

Status PartMaker::reduce_scatter() {
  const Block input = whole(input_of(call_)), mine = block_of(input_of(call_), rank_, n_);
  if (call_.send.given) return add(Function::reduce_scatter, input, call_.recv.address, mine.bytes / element_);
  GC_TRY(add(Function::reduce_scatter, input, mine.address, mine.bytes / element_));
  GC_TRY_AS(part_.queue.collectives.back().recv, result_in_scratch(mine.bytes));
  return {};
}

bool PartMaker::equal_counts() const {
  return std::all_of(call_.recvcounts, call_.recvcounts + n_, [&](int count) { return count == call_.recvcounts[0]; });
}

// A reduce to each rank, side by side.
Status PartMaker::reduce_scatter_blocks() {
  if (equal_counts()) return reduce_scatter();
  PartMaker maker(call_, rank_, n_, scratch_, &part_);
  maker.send_on_host_ = send_on_host_;
  maker.recv_on_host_ = recv_on_host_;
  const uint8_t* input = whole(input_of(call_)).address;
  for (int root = 0; root < n_; ++root) {
    const auto count = static_cast<size_t>(call_.recvcounts[root]);
    const Block block = {input, count * element_};
    input += block.bytes;
    if (count == 0) continue;
    maker.call_.root = root;
    const bool aside = root == rank_ && !call_.send.given;
    GC_TRY(maker.add(Function::reduce, block, aside ? block.address : call_.recv.address, count));
    if (aside) {
      GC_TRY_AS(part_.queue.collectives.back().recv, result_in_scratch(block.bytes));
    }
  }
  return {};
}

Status PartMaker::make(gpu::Device* usual) {
  GC_TRY(find_device(usual));
  if (send_on_host_ || recv_on_host_ || Packing::has_gaps(call_))
    GC_TRY(part_.packing.pack(&call_, {rank_, n_, device(), send_on_host_, recv_on_host_, scratch_, part_.queue}));
  const Block input = whole(input_of(call_));
  const size_t count = input.bytes / element_;
  switch (call_.function) {
    case GC_FUNCTION_allreduce: return add(Function::all_reduce, input, call_.recv.address, count);
    case GC_FUNCTION_reduce: return add(Function::reduce, input, call_.recv.address, count);
    case GC_FUNCTION_scan: return add(Function::scan, input, call_.recv.address, count);
    case GC_FUNCTION_exscan: return add(Function::exscan, input, call_.recv.address, count);
    case GC_FUNCTION_bcast: add_move(Function::broadcast, input, call_.recv.address, count); return {};
    case GC_FUNCTION_allgather: return all_gather();
    case GC_FUNCTION_allgatherv: return all_gather_blocks();
    case GC_FUNCTION_alltoall: return all_to_all_equal();
    case GC_FUNCTION_alltoallv:
    case GC_FUNCTION_alltoallw: return all_to_all();
    case GC_FUNCTION_gather: return gather_equal();
    case GC_FUNCTION_gatherv: return gather();
    case GC_FUNCTION_scatter: return scatter_equal();
    case GC_FUNCTION_scatterv: return scatter();
    case GC_FUNCTION_neighbor_allgather:
    case GC_FUNCTION_neighbor_allgatherv:
    case GC_FUNCTION_neighbor_alltoall:
    case GC_FUNCTION_neighbor_alltoallv:
    case GC_FUNCTION_neighbor_alltoallw: return neighbors();
    case GC_FUNCTION_reduce_scatter_block: return reduce_scatter();
    case GC_FUNCTION_reduce_scatter: return reduce_scatter_blocks();
    default: return Status::error(Code::internal, "no such collective: %u", call_.function);
  }
}

}  // namespace

gpu::Device* used_device() noexcept { return last_used.load(std::memory_order_relaxed); }

Status make_part(const gc_call& call, int rank, int n_ranks, gpu::Device* usual, Scratch& scratch, DevicePart* part) {
  part->clear();
  if (call.reduces && (call.type < 0 || call.op < 0))
    return Status::error(Code::unsupported, "there is no kernel for its type or operation");
  return PartMaker(call, rank, n_ranks, scratch, part).make(usual);
}

}  // namespace gpucoll::coll
