#include "perf/collective.h"

#include <algorithm>
#include <cstring>

namespace gpucoll::perf {
namespace {

struct Shape {
  const char* name;
  Collective even;
  bool reduces;
  bool send_blocks, recv_blocks;  // one block for every rank, or a single one
  bool root_only_input, root_only_output;
};

using C = Collective;
const Shape kShapes[] = {
    {"allreduce", C::allreduce, true, false, false, false, false},
    {"bcast", C::bcast, false, false, false, true, false},
    {"reduce", C::reduce, true, false, false, false, true},
    {"allgather", C::allgather, false, false, true, false, false},
    {"reduce_scatter", C::reduce_scatter, true, true, false, false, false},
    {"alltoall", C::alltoall, false, true, true, false, false},
    {"gather", C::gather, false, false, true, false, true},
    {"scatter", C::scatter, false, true, false, true, false},
    {"scan", C::scan, true, false, false, false, false},
    {"exscan", C::exscan, true, false, false, false, false},
    {"sendrecv", C::sendrecv, false, false, false, false, false},
    {"pair", C::pair, false, false, false, false, false},
    {"allgatherv", C::allgather, false, false, true, false, false},
    {"reduce_scatterv", C::reduce_scatter, true, true, false, false, false},
    {"alltoallv", C::alltoall, false, true, true, false, false},
    {"gatherv", C::gather, false, false, true, false, true},
    {"scatterv", C::scatter, false, true, false, true, false},
    {"barrier", C::barrier, false, false, false, false, false},
    {"latency", C::latency, false, false, false, false, false},
    {"bandwidth", C::bandwidth, false, false, false, false, false},
    {"bibw", C::bibw, false, false, false, false, false},
};

const Shape& shape(Collective collective) { return kShapes[static_cast<int>(collective)]; }
bool at_root(const Call& call) { return call.rank == call.root; }
size_t as_size(int n) { return static_cast<size_t>(n); }

size_t slot_elements(const Call& call) { return call.shape ? call.shape->extent : call.count; }

// Elements of a whole buffer: a block for every rank, or a single one.
size_t elements(bool many, const Call& call) {
  if (many) return call.count * as_size(call.ranks);
  if (is_message_test(call.collective)) return slot_elements(call) * slots(call);
  return is_uneven(call.collective) ? own_block(call).elements : call.count;
}

// Of the larger buffer.
size_t blocks(const Call& call) {
  const Shape& s = shape(call.collective);
  return s.send_blocks || s.recv_blocks ? as_size(call.ranks) : 1;
}

// Block `index` of ranks' blocks in a row. Two neighbours have as much as two equal ones; a last odd one has its share.
Block uneven_block(const Call& call, int index) {
  const size_t start = as_size(index) * call.count, skew = call.count / 2;
  if (index % 2) return {start - skew, call.count + skew};
  return {start, index + 1 < call.ranks ? call.count - skew : call.count};
}

// What two ranks have for each other is the same both ways, so that alltoallv works in place: block (a + b) mod ranks
// of those above. A rank's blocks are then all of these, beginning with its own number.
Block uneven_exchange(const Call& call, int rank, int peer) {
  const Block block = uneven_block(call, (rank + peer) % call.ranks);
  const size_t first = uneven_block(call, rank).offset;
  const size_t wrapped = rank + peer < call.ranks ? 0 : call.count * as_size(call.ranks);
  return {block.offset + wrapped - first, block.elements};
}

// The rank whose block holds element `index` of this rank's buffer.
int peer_at(const Call& call, size_t index) {
  if (!is_uneven(call.collective)) return static_cast<int>(index / call.count);
  int peer = 0;
  for (Block block = block_of(call, call.rank, 0); index >= block.offset + block.elements;)
    block = block_of(call, call.rank, ++peer);
  return peer;
}

// Who made output element `index` of a collective that only moves data, which of its elements it was, and how many
// more like it follow.
struct Origin {
  int rank;
  uint64_t index;
  size_t left;
};

Origin origin(const Call& call, size_t index) {
  const size_t left = output_elements(call) - index;
  if (is_pairwise(call.collective)) return {partners_of(call).from, index, left};
  switch (even(call.collective)) {
    case Collective::bcast: return {call.root, index, left};
    case Collective::scatter: return {call.root, block_of(call, call.root, call.rank).offset + index, left};
    default: break;
  }
  const int peer = peer_at(call, index);
  const Block block = block_of(call, call.rank, peer);
  const size_t in_block = index - block.offset;
  const size_t start = even(call.collective) == Collective::alltoall ? block_of(call, peer, call.rank).offset : 0;
  return {peer, start + in_block, block.elements - in_block};
}

void expect_reduced(const Call& call, const Recipe& recipe, size_t first, size_t count, void* out, void* scratch) {
  uint64_t start = first;
  if (even(call.collective) == Collective::reduce_scatter) start += own_block(call).offset;
  int ranks = call.ranks;
  if (is_scan(call.collective)) ranks = call.rank + (call.collective == Collective::scan ? 1 : 0);
  generate(recipe, 0, start, count, out);
  for (int rank = 1; rank < ranks; ++rank) {
    generate(recipe, rank, start, count, scratch);
    combine(call.type, call.op, scratch, out, count);
  }
}

// The bytes between the elements of a message stay as they were.
void expect_gaps(const Call& call, size_t first, size_t count, char* out) {
  const size_t bytes = info(call.type).bytes;
  for (size_t i = 0; i < count; ++i)
    if (!call.shape->data[(first + i) % call.shape->extent]) std::memset(out + i * bytes, kPoison, bytes);
}

void expect_moved(const Call& call, const Recipe& recipe, size_t first, size_t count, void* out) {
  size_t bytes = info(call.type).bytes;
  for (size_t done = 0; done < count;) {
    Origin from = origin(call, first + done);
    size_t n = std::min(count - done, from.left);
    generate(recipe, from.rank, from.index, n, static_cast<char*>(out) + done * bytes);
    done += n;
  }
  if (call.shape) expect_gaps(call, first, count, static_cast<char*>(out));
}

}  // namespace

bool find_collective(const std::string& name, Collective* collective) {
  for (const Shape& s : kShapes) {
    if (name != s.name) continue;
    *collective = static_cast<Collective>(&s - kShapes);
    return true;
  }
  return false;
}

const char* name(Collective collective) { return shape(collective).name; }
bool reduces(Collective collective) { return shape(collective).reduces; }
Collective even(Collective collective) { return shape(collective).even; }
bool is_uneven(Collective collective) { return even(collective) != collective; }
bool is_scan(Collective collective) { return collective == Collective::scan || collective == Collective::exscan; }
bool in_api(Collective collective) {
  return !is_scan(collective) && collective != Collective::allgatherv && collective != Collective::reduce_scatterv;
}
bool is_pairwise(Collective collective) {
  return collective == Collective::sendrecv || collective == Collective::pair || is_message_test(collective);
}

bool is_message_test(Collective collective) { return collective >= Collective::latency; }

Partners partners_of(const Call& call) {
  if (is_message_test(call.collective)) {
    const int half = call.ranks / 2, partner = call.rank < half ? call.rank + half : call.rank - half;
    if (call.collective != Collective::bandwidth) return {partner, partner};
    return call.rank < half ? Partners{partner, -1} : Partners{-1, partner};
  }
  if (call.collective == Collective::sendrecv)
    return {(call.rank + 1) % call.ranks, (call.rank + call.ranks - 1) % call.ranks};
  const bool sends = call.rank % 2 == 0 && call.rank + 1 < call.ranks;
  return {sends ? call.rank + 1 : -1, call.rank % 2 ? call.rank - 1 : -1};
}

size_t slots(const Call& call) {
  constexpr size_t kBytes = 16 << 20;
  return std::clamp<size_t>(kBytes / std::max<size_t>(slot_bytes(call), 1), 1, as_size(call.window));
}

size_t slot_bytes(const Call& call) { return slot_elements(call) * info(call.type).bytes; }

size_t message_offset(const Call& call, int i) { return as_size(i) % slots(call) * slot_bytes(call); }

std::string collective_names() {
  std::string names;
  for (const Shape& s : kShapes) names += (names.empty() ? "" : ", ") + std::string(s.name);
  return names;
}

Block block_of(const Call& call, int rank, int peer) {
  if (!is_uneven(call.collective)) return {as_size(peer) * call.count, call.count};
  return even(call.collective) == Collective::alltoall ? uneven_exchange(call, rank, peer) : uneven_block(call, peer);
}

Block own_block(const Call& call) { return block_of(call, call.rank, call.rank); }

size_t send_elements(const Call& call) { return elements(shape(call.collective).send_blocks, call); }

size_t recv_elements(const Call& call) {
  const size_t out = elements(shape(call.collective).recv_blocks, call);
  return call.in_place && input_in_recv(call) ? std::max(out, input_offset(call) + input_elements(call)) : out;
}

size_t input_elements(const Call& call) {
  if (is_pairwise(call.collective) && partners_of(call).to < 0) return 0;
  return shape(call.collective).root_only_input && !at_root(call) ? 0 : send_elements(call);
}

size_t output_elements(const Call& call) {
  const Shape& s = shape(call.collective);
  if (s.root_only_output && !at_root(call)) return 0;
  if (is_pairwise(call.collective) && partners_of(call).from < 0) return 0;
  if (call.collective == Collective::exscan && call.rank == 0) return 0;
  // The root of an in-place scatter keeps its block in the send buffer.
  if (even(call.collective) == Collective::scatter && call.in_place && at_root(call)) return 0;
  return elements(s.recv_blocks, call);
}

bool input_in_recv(const Call& call) {
  switch (even(call.collective)) {
    case Collective::bcast: return true;
    case Collective::scatter: return false;
    case Collective::reduce:
    case Collective::gather: return call.in_place && at_root(call);
    default: return call.in_place;
  }
}

size_t input_offset(const Call& call) {
  const Collective kind = even(call.collective);
  const bool in_its_block = kind == Collective::allgather || kind == Collective::gather;
  return in_its_block && input_in_recv(call) ? own_block(call).offset : 0;
}

size_t output_offset(const Call& call) {
  const bool in_its_block = call.collective == Collective::reduce_scatter && call.in_place && call.api;
  return in_its_block ? own_block(call).offset : 0;
}

size_t count_for(const Call& call, size_t bytes) {
  if (call.collective == Collective::barrier) return 0;
  return bytes / info(call.type).bytes / blocks(call);
}

size_t table_bytes(const Call& call) { return call.count * info(call.type).bytes * blocks(call); }

double bus_factor(const Call& call) {
  double n = call.ranks;
  if (is_pairwise(call.collective)) return 1;
  switch (even(call.collective)) {
    case Collective::allreduce: return 2 * (n - 1) / n;
    case Collective::bcast:
    case Collective::reduce:
    case Collective::scan:
    case Collective::exscan: return 1;
    default: return (n - 1) / n;
  }
}

Recipe recipe(const Call& call, uint64_t run) {
  Recipe made;
  made.type = call.type;
  made.op = call.op;
  made.reduces = reduces(call.collective);
  // In MPI only allreduce runs on the device for every type today; the others may pass through MPI's own reductions.
  made.may_wrap = call.api || call.collective == Collective::allreduce;
  made.ranks = call.ranks;
  made.run = run;
  return made;
}

void expected(const Call& call, const Recipe& recipe, size_t first, size_t count, void* out, void* scratch) {
  if (reduces(call.collective))
    expect_reduced(call, recipe, first, count, out, scratch);
  else
    expect_moved(call, recipe, first, count, out);
}

}  // namespace gpucoll::perf
