// Where a case's buffers lie, and what every byte is before and after.
#include <algorithm>
#include <cstring>

#include "gpucoll/gpucoll.h"
#include "random_case.h"
#include "reference.h"

namespace gpucoll_test {
namespace {

size_t element_bytes(const Call& call) { return gpucollTypeSize(static_cast<gpucollDataType_t>(call.type)); }
// Types of 16 bytes are pairs of 8; those of 8 may be pairs of 4, but 8 will do for them as well.
size_t alignment(const Call& call) { return std::min<size_t>(element_bytes(call), 8); }

int size_of(const Case& c, const Call& call) {
  return static_cast<int>(c.comms[static_cast<size_t>(call.comm)].members.size());
}
int member(const Case& c, const Call& call, int rank) {
  return c.comms[static_cast<size_t>(call.comm)].members[static_cast<size_t>(rank)];
}

size_t cell(int from, int to, int n) { return static_cast<size_t>(from * n + to); }

// The bytes that all parts of a rank reach over.
size_t reach(const Call& call, const std::vector<size_t>& displs, int rank, int n, bool sends) {
  size_t end = 0;
  for (int other = 0; other < n; ++other) {
    const size_t place = sends ? cell(rank, other, n) : cell(other, rank, n);
    end = std::max(end, displs[place] + call.counts[place]);
  }
  return end * element_bytes(call);
}

// In place, these have the smaller buffer in the larger one: of the root alone, or of every rank.
bool sends_from_recv(const Call& call, int rank) {
  return call.in_place && (call.kind == Kind::all_gather || (call.kind == Kind::gather && rank == call.root));
}
bool receives_into_send(const Call& call, int rank) {
  if (call.kind == Kind::bcast) return true;
  if (!call.in_place) return false;
  return reduces(call.kind) || call.kind == Kind::broadcast || call.kind == Kind::all_to_all ||
         (call.kind == Kind::scatter && rank == call.root);
}

// Hands out pieces of all arenas, with gaps of random sizes.
class Places {
 public:
  Places(Case* c, std::mt19937_64& random) : ends_(static_cast<size_t>(c->n_ranks), 64), random_(random) {}
  size_t take(int rank, size_t bytes, size_t alignment) {
    size_t& end = ends_[static_cast<size_t>(rank)];
    const size_t gap = 16 + random_() % 48;
    const size_t place = (end + gap + alignment - 1) / alignment * alignment;
    end = place + bytes;
    return place;
  }
  size_t end() const { return *std::max_element(ends_.begin(), ends_.end()) + 64; }

 private:
  std::vector<size_t> ends_;
  std::mt19937_64& random_;
};

// Whether `call` may read what an earlier call wrote: it has room for its input, at a place aligned for it.
bool can_read(const Case& c, const Call& call, const Call& earlier) {
  const int n = size_of(c, call);
  const bool exact = !reduces(call.kind) || is_integer(call.type);
  if (!exact || call.comm != earlier.comm || call.stream != earlier.stream || earlier.kind == Kind::barrier)
    return false;
  if (call.in_place && (call.kind == Kind::all_gather || call.kind == Kind::gather)) return false;
  for (int rank = 0; rank < n; ++rank) {
    if (recv_place(earlier, rank, n) % alignment(call) != 0) return false;
    if (send_bytes(call, rank, n) > recv_bytes(earlier, rank, n)) return false;
  }
  return true;
}

// The last call of an earlier group that fits, used once.
const Call* draw_earlier(const Case& c, const Call& call, std::vector<const Call*>* earlier) {
  for (size_t i = earlier->size(); i-- > 0;) {
    const Call* candidate = (*earlier)[i];
    if (!can_read(c, call, *candidate)) continue;
    earlier->erase(earlier->begin() + static_cast<std::ptrdiff_t>(i));
    return candidate;
  }
  return nullptr;
}

void place_call(const Case& c, Call* call, const Call* input, Places* places) {
  const int n = size_of(c, *call);
  call->fresh = !input;
  for (int rank = 0; rank < n; ++rank) {
    const int arena = member(c, *call, rank);
    call->send.push_back(input ? recv_place(*input, rank, n)
                               : places->take(arena, send_bytes(*call, rank, n), alignment(*call)));
    call->recv.push_back(places->take(arena, recv_bytes(*call, rank, n), alignment(*call)));
  }
}

// ---- what calls do ----

struct Parts {
  const Case& c;
  const Call& call;
  Memory& memory;
  int n = size_of(c, call);
  std::vector<std::vector<uint8_t>> inputs = {};

  uint8_t* at(int rank, size_t place) { return memory[static_cast<size_t>(member(c, call, rank))].data() + place; }
  const uint8_t* input(int rank) const { return inputs[static_cast<size_t>(rank)].data(); }
  uint8_t* output(int rank) { return at(rank, recv_place(call, rank, n)); }
  void copy(int to, size_t to_offset, int from, size_t from_offset, size_t bytes) {
    if (bytes) std::memcpy(output(to) + to_offset, input(from) + from_offset, bytes);
  }
};

void reduce_into(Parts& parts, int rank, size_t first) {
  std::vector<const uint8_t*> inputs;
  for (int r = 0; r < parts.n; ++r) inputs.push_back(parts.input(r) + first * element_bytes(parts.call));
  reduce(parts.call.type, parts.call.op, inputs, parts.output(rank), parts.call.count);
}

void exchange(Parts& parts, int from, int to) {
  const Call& call = parts.call;
  const size_t element = element_bytes(call), place = cell(from, to, parts.n);
  if (!call.counts.empty()) {
    parts.copy(to, call.recv_displs[place] * element, from, call.send_displs[place] * element,
               call.counts[place] * element);
    return;
  }
  const size_t bytes = call.count * element;
  const bool one_sent = call.kind == Kind::gather || call.kind == Kind::all_gather;
  const bool one_received = call.kind == Kind::scatter;
  parts.copy(to, one_received ? 0 : static_cast<size_t>(from) * bytes, from,
             one_sent ? 0 : static_cast<size_t>(to) * bytes, bytes);
}

void apply_to_rank(Parts& parts, int rank) {
  const Call& call = parts.call;
  const size_t bytes = call.count * element_bytes(call);
  switch (call.kind) {
    case Kind::all_reduce: return reduce_into(parts, rank, 0);
    case Kind::reduce_scatter: return reduce_into(parts, rank, static_cast<size_t>(rank) * call.count);
    case Kind::reduce:
      if (rank == call.root) reduce_into(parts, rank, 0);
      return;
    case Kind::broadcast:
    case Kind::bcast: return parts.copy(rank, 0, call.root, 0, bytes);
    case Kind::message:
      if (rank == call.peer) parts.copy(rank, 0, call.root, 0, bytes);
      return;
    case Kind::all_gather:
    case Kind::all_to_all:
    case Kind::all_to_all_v:
      for (int from = 0; from < parts.n; ++from) exchange(parts, from, rank);
      return;
    case Kind::gather:
    case Kind::gather_v:
      for (int from = 0; from < parts.n && rank == call.root; ++from) exchange(parts, from, rank);
      return;
    case Kind::scatter:
    case Kind::scatter_v: return exchange(parts, call.root, rank);
    case Kind::barrier: return;
  }
}

void apply(const Case& c, const Call& call, Memory* memory) {
  Parts parts{c, call, *memory};
  for (int rank = 0; rank < parts.n; ++rank) {
    const uint8_t* data = parts.at(rank, send_place(call, rank, parts.n));
    parts.inputs.emplace_back(data, data + send_bytes(call, rank, parts.n));
  }
  for (int rank = 0; rank < parts.n; ++rank) apply_to_rank(parts, rank);
}

}  // namespace

size_t send_bytes(const Call& call, int rank, int n) {
  const size_t part = call.count * element_bytes(call);
  switch (call.kind) {
    case Kind::all_to_all_v:
    case Kind::scatter_v: return reach(call, call.send_displs, rank, n, true);
    case Kind::gather_v: return call.counts[cell(rank, call.root, n)] * element_bytes(call);
    case Kind::reduce_scatter:
    case Kind::all_to_all:
    case Kind::scatter: return part * static_cast<size_t>(n);
    case Kind::barrier: return 0;
    default: return part;
  }
}

size_t recv_bytes(const Call& call, int rank, int n) {
  const size_t part = call.count * element_bytes(call);
  switch (call.kind) {
    case Kind::all_to_all_v:
    case Kind::gather_v: return reach(call, call.recv_displs, rank, n, false);
    case Kind::scatter_v: return call.counts[cell(call.root, rank, n)] * element_bytes(call);
    case Kind::all_gather:
    case Kind::all_to_all:
    case Kind::gather: return part * static_cast<size_t>(n);
    case Kind::barrier: return 0;
    default: return part;
  }
}

size_t send_place(const Call& call, int rank, int) {
  const auto r = static_cast<size_t>(rank);
  return sends_from_recv(call, rank) ? call.recv[r] + r * call.count * element_bytes(call) : call.send[r];
}

size_t recv_place(const Call& call, int rank, int) {
  const auto r = static_cast<size_t>(rank);
  if (!receives_into_send(call, rank)) return call.recv[r];
  const bool own_part = call.kind == Kind::reduce_scatter || call.kind == Kind::scatter;
  return call.send[r] + (own_part ? r * call.count * element_bytes(call) : 0);
}

void lay_out(Case* c, bool chain) {
  std::mt19937_64 random(c->seed ^ 0x6c61796f7574);
  Places places(c, random);
  std::vector<const Call*> earlier;
  for (Group& group : c->groups) {
    std::vector<const Call*> outputs;
    for (Call& call : group.calls) {
      const Call* input = chain && random() % 3 == 0 ? draw_earlier(*c, call, &earlier) : nullptr;
      place_call(*c, &call, input, &places);
      outputs.push_back(&call);
    }
    earlier.insert(earlier.end(), outputs.begin(), outputs.end());
  }
  c->arena_bytes = places.end();
}

Memory first_memory(const Case& c) {
  Memory memory(static_cast<size_t>(c.n_ranks));
  std::mt19937_64 random(c.seed ^ 0x6d656d6f7279);
  for (auto& arena : memory) {
    arena.resize(c.arena_bytes);
    for (size_t i = 0; i + 8 <= arena.size(); i += 8) {
      const uint64_t bits = random();
      std::memcpy(&arena[i], &bits, 8);
    }
  }
  for (const Group& group : c.groups) {
    for (const Call& call : group.calls) {
      const int n = size_of(c, call);
      std::mt19937_64 values(call.seed);
      for (int rank = 0; rank < n && call.fresh && reduces(call.kind); ++rank)
        small_values(call.type, call.op,
                     memory[static_cast<size_t>(member(c, call, rank))].data() + send_place(call, rank, n),
                     send_bytes(call, rank, n) / element_bytes(call), values);
    }
  }
  return memory;
}

Memory expected_memory(const Case& c) {
  Memory memory = first_memory(c);
  for (const Group& group : c.groups)
    for (const Call& call : group.calls) apply(c, call, &memory);
  return memory;
}

}  // namespace gpucoll_test
