#include "coll/call/moves.h"

#include "mpi/datatype/call_blocks.h"
#include "mpi/staging/packing.h"
#include "task/collective_task.h"

namespace gpucoll::coll {
namespace {

using proto::Function;

class MoveMaker {
 public:
  MoveMaker(const gc_call& call, const CallContext& context)
      : call_(call), context_(context), rank_(context.rank), n_(context.n_ranks) {}
  Status make();

 private:
  void add_move(Function function, const Block& send, const void* recv, size_t bytes);
  core::SendRecvTask message(const Block& block) const;
  void send(int peer, const Block& block);
  void receive(int peer, const Block& block);
  Status check_own(size_t sent_bytes, size_t received_bytes) const;
  Status own(const Block& from, const Block& to);
  void broadcast();
  Status all_gather();
  Status all_gather_blocks();
  Status all_to_all_equal();
  Status all_to_all();
  Status all_to_all_in_place();
  Status gather_equal();
  Status gather();
  Status scatter_equal();
  Status scatter();
  Status neighbors();
  Status alone();
  Status check_self_edges() const;
  Block to_neighbor(int i) const;

  Block sent(int rank) const { return block_of(call_.send, rank, n_); }
  Block received(int rank) const { return block_of(call_.recv, rank, n_); }
  bool at_root() const { return rank_ == call_.root; }

  gc_call call_;
  const CallContext& context_;
  const int rank_, n_;
};

// Adds a move. Its buffers have been checked, and have addresses for kernels where they were packed.
void MoveMaker::add_move(Function function, const Block& send, const void* recv, size_t bytes) {
  core::CollectiveTask task = moving_task(function);
  task.send = context_.device.kernel_address(send.address);
  task.recv = context_.device.kernel_address(recv);
  task.count = bytes;
  task.element_bytes = 1;
  task.root = call_.root < 0 ? 0 : static_cast<uint32_t>(call_.root);
  context_.queue.add(task);
}

void MoveMaker::send(int peer, const Block& block) {
  if (block.bytes) context_.queue.add_send(peer, message(block));
}
void MoveMaker::receive(int peer, const Block& block) {
  if (block.bytes) context_.queue.add_recv(peer, message(block));
}
core::SendRecvTask MoveMaker::message(const Block& block) const {
  const bool all_to_all =
      !call_.sources && (call_.function == GC_FUNCTION_alltoallv || call_.function == GC_FUNCTION_alltoallw ||
                         call_.function == GC_FUNCTION_allgatherv);
  return {context_.device.kernel_address(block.address), block.bytes, nullptr, all_to_all};
}

// Compares what this rank sends to itself, in functions of equal blocks to each rank, with what it receives from there.
Status MoveMaker::check_own(size_t sent_bytes, size_t received_bytes) const {
  if (sent_bytes == received_bytes) return {};
  return Status::error(sent_bytes > received_bytes ? Code::truncated : Code::invalid_argument,
                       "rank %d sends %zu bytes to itself, but receives %zu: make counts and types of both equal",
                       rank_, sent_bytes, received_bytes);
}

// From this rank to itself.
Status MoveMaker::own(const Block& from, const Block& to) {
  GC_TRY(check_own(from.bytes, to.bytes));
  send(rank_, from);
  receive(rank_, to);
  return {};
}

void MoveMaker::broadcast() {
  const Block data = whole(call_.recv);
  add_move(Function::broadcast, data, data.address, data.bytes);
}

Status MoveMaker::all_gather() {
  const Block mine = call_.send.given ? whole(call_.send) : received(rank_);
  GC_TRY(check_own(mine.bytes, received(rank_).bytes));
  add_move(Function::all_gather, mine, call_.recv.address, mine.bytes);
  return {};
}

Status MoveMaker::all_gather_blocks() {
  const Block mine = call_.send.given ? whole(call_.send) : received(rank_);
  if (call_.send.given) GC_TRY(own(mine, received(rank_)));
  for (int r = 0; r < n_; ++r) {
    if (r == rank_) continue;
    send(r, mine);
    receive(r, received(r));
  }
  return {};
}

Status MoveMaker::all_to_all() {
  if (!call_.send.given) return all_to_all_in_place();
  GC_TRY(own(sent(rank_), received(rank_)));
  for (int r = 0; r < n_; ++r) {
    if (r == rank_) continue;
    send(r, sent(r));
    receive(r, received(r));
  }
  return {};
}

// Exchanges in place. It copies the data to be sent to scratch memory first.
Status MoveMaker::all_to_all_in_place() {
  size_t total = 0;
  for (int r = 0; r < n_; ++r) total += r == rank_ ? 0 : packs(received(r).bytes);
  GC_TRY_AS(uint8_t * aside, context_.scratch.get(context_.device, total));
  for (int r = 0; r < n_; ++r) {
    const Block block = received(r);
    if (r == rank_ || block.bytes == 0) continue;
    add_copy(context_.queue, &context_.queue.before, aside, context_.device.kernel_address(block.address), block.bytes);
    context_.queue.add_send(r, message({aside, block.bytes}));
    receive(r, block);
    aside += packs(block.bytes);
  }
  return {};
}

// One block for each pair of ranks, or for each pair with the root, of one size on all ranks.
Status MoveMaker::all_to_all_equal() {
  if (!call_.send.given) {
    // Other ranks may have packed what they send: a copy of it here as well, so that all exchange in one way.
    GC_TRY_AS(uint8_t * aside, context_.scratch.get(context_.device, packs(call_.recv.bytes)));
    add_copy(context_.queue, &context_.queue.before, aside, context_.device.kernel_address(call_.recv.address),
             call_.recv.bytes);
    call_.send = call_.recv;
    call_.send.address = aside;
  }
  GC_TRY(check_own(sent(rank_).bytes, received(rank_).bytes));
  add_move(Function::all_to_all, whole(call_.send), call_.recv.address, sent(rank_).bytes);
  return {};
}

Status MoveMaker::gather_equal() {
  const Block mine = call_.send.given ? whole(call_.send) : received(rank_);
  if (at_root()) GC_TRY(check_own(mine.bytes, received(rank_).bytes));
  add_move(Function::gather, mine, at_root() ? call_.recv.address : nullptr, mine.bytes);
  return {};
}

Status MoveMaker::scatter_equal() {
  const Block mine = call_.recv.given ? whole(call_.recv) : sent(rank_);
  if (at_root()) GC_TRY(check_own(sent(rank_).bytes, mine.bytes));
  add_move(Function::scatter, at_root() ? whole(call_.send) : Block{nullptr, 0}, mine.address, mine.bytes);
  return {};
}

Status MoveMaker::gather() {
  if (!at_root()) {
    send(call_.root, whole(call_.send));
    return {};
  }
  if (call_.send.given) GC_TRY(own(whole(call_.send), received(rank_)));
  for (int r = 0; r < n_; ++r)
    if (r != rank_) receive(r, received(r));
  return {};
}

Status MoveMaker::scatter() {
  if (!at_root()) {
    receive(call_.root, whole(call_.recv));
    return {};
  }
  if (call_.recv.given) GC_TRY(own(sent(rank_), whole(call_.recv)));
  for (int r = 0; r < n_; ++r)
    if (r != rank_) send(r, sent(r));
  return {};
}

Block MoveMaker::to_neighbor(int i) const {
  return call_.send.block_bytes ? block_of(call_.send, i, call_.n_destinations) : whole(call_.send);
}

// A rank that is its own neighbour sends to itself what it receives from itself.
Status MoveMaker::check_self_edges() const {
  int in = 0;
  for (int out = 0; out < call_.n_destinations; ++out) {
    if (call_.destinations[out] != rank_) continue;
    while (in < call_.n_sources && call_.sources[in] != rank_) ++in;
    const size_t sends = to_neighbor(out).bytes, receives = in < call_.n_sources ? received(in).bytes : 0;
    GC_TRY(check_own(sends, receives));
    ++in;
  }
  return {};
}

Status MoveMaker::neighbors() {
  GC_TRY(check_self_edges());
  for (int i = 0; i < call_.n_destinations; ++i) send(call_.destinations[i], to_neighbor(i));
  for (int i = 0; i < call_.n_sources; ++i) receive(call_.sources[i], received(i));
  return {};
}

// Behind what is packed, before what is unpacked.
Status MoveMaker::alone() {
  const Block from = sent(rank_), to = received(rank_);
  GC_TRY(check_own(from.bytes, to.bytes));
  add_copy(context_.queue, &context_.queue.spread, context_.device.kernel_address(to.address),
           context_.device.kernel_address(from.address), from.bytes);
  return {};
}

Status MoveMaker::make() {
  if (call_.sources) return neighbors();
  if (n_ == 1) return alone();
  switch (call_.function) {
    case GC_FUNCTION_bcast: broadcast(); return {};
    case GC_FUNCTION_allgather: return all_gather();
    case GC_FUNCTION_allgatherv: return all_gather_blocks();
    case GC_FUNCTION_alltoall: return all_to_all_equal();
    case GC_FUNCTION_alltoallv:
    case GC_FUNCTION_alltoallw: return all_to_all();
    case GC_FUNCTION_gather: return gather_equal();
    case GC_FUNCTION_gatherv: return gather();
    case GC_FUNCTION_scatter: return scatter_equal();
    case GC_FUNCTION_scatterv: return scatter();
    default: return Status::error(Code::internal, "no such collective: %u", call_.function);
  }
}

}  // namespace

Status add_moves(const gc_call& call, const CallContext& context) { return MoveMaker(call, context).make(); }

}  // namespace gpucoll::coll
