#include "perf/collective.h"

#include <algorithm>

namespace gpucoll::perf {
namespace {

struct Shape {
  const char* name;
  bool reduces;
  bool send_blocks, recv_blocks;  // one block for every rank, or a single one
  bool root_only_input, root_only_output;
};

const Shape kShapes[] = {
    {"allreduce", true, false, false, false, false},     {"bcast", false, false, false, true, false},
    {"reduce", true, false, false, false, true},         {"allgather", false, false, true, false, false},
    {"reduce_scatter", true, true, false, false, false}, {"alltoall", false, true, true, false, false},
    {"gather", false, false, true, false, true},         {"scatter", false, true, false, true, false},
    {"scan", true, false, false, false, false},          {"exscan", true, false, false, false, false},
    {"sendrecv", false, false, false, false, false},     {"pair", false, false, false, false, false},
};

const Shape& shape(Collective collective) { return kShapes[static_cast<int>(collective)]; }
size_t blocks(bool many, const Call& call) { return many ? static_cast<size_t>(call.ranks) : 1; }
bool at_root(const Call& call) { return call.rank == call.root; }

// Who made output element `index` of a collective that only moves data, and which of its elements it was.
struct Origin {
  int rank;
  uint64_t index;
};

Origin origin(const Call& call, size_t index) {
  uint64_t mine = static_cast<uint64_t>(call.rank) * call.count;
  switch (call.collective) {
    case Collective::bcast: return {call.root, index};
    case Collective::scatter: return {call.root, mine + index};
    case Collective::alltoall: return {static_cast<int>(index / call.count), mine + index % call.count};
    case Collective::sendrecv:
    case Collective::pair: return {partners_of(call).from, index};
    default: return {static_cast<int>(index / call.count), index % call.count};
  }
}

void expect_reduced(const Call& call, const Recipe& recipe, size_t first, size_t count, void* out, void* scratch) {
  uint64_t start = first;
  if (call.collective == Collective::reduce_scatter) start += static_cast<uint64_t>(call.rank) * call.count;
  int ranks = call.ranks;
  if (is_scan(call.collective)) ranks = call.rank + (call.collective == Collective::scan ? 1 : 0);
  generate(recipe, 0, start, count, out);
  for (int rank = 1; rank < ranks; ++rank) {
    generate(recipe, rank, start, count, scratch);
    combine(call.type, call.op, scratch, out, count);
  }
}

void expect_moved(const Call& call, const Recipe& recipe, size_t first, size_t count, void* out) {
  size_t bytes = info(call.type).bytes;
  for (size_t done = 0; done < count;) {
    Origin from = origin(call, first + done);
    size_t left_in_block = call.count - (first + done) % call.count;
    size_t n = std::min(count - done, left_in_block);
    generate(recipe, from.rank, from.index, n, static_cast<char*>(out) + done * bytes);
    done += n;
  }
}

int run_pairwise(const Call& call, void* send, void* recv, MPI_Comm comm) {
  const Partners partners = partners_of(call);
  const int n = static_cast<int>(call.count), to = partners.to < 0 ? MPI_PROC_NULL : partners.to;
  const int from = partners.from < 0 ? MPI_PROC_NULL : partners.from;
  const MPI_Datatype type = mpi_type(call.type);
  return MPI_Sendrecv(send, n, type, to, 0, recv, n, type, from, 0, comm, MPI_STATUS_IGNORE);
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
bool is_scan(Collective collective) { return collective == Collective::scan || collective == Collective::exscan; }
bool is_pairwise(Collective collective) { return collective == Collective::sendrecv || collective == Collective::pair; }

Partners partners_of(const Call& call) {
  if (call.collective == Collective::sendrecv)
    return {(call.rank + 1) % call.ranks, (call.rank + call.ranks - 1) % call.ranks};
  const bool sends = call.rank % 2 == 0 && call.rank + 1 < call.ranks;
  return {sends ? call.rank + 1 : -1, call.rank % 2 ? call.rank - 1 : -1};
}

std::string collective_names() {
  std::string names;
  for (const Shape& s : kShapes) names += (names.empty() ? "" : ", ") + std::string(s.name);
  return names;
}

size_t send_elements(const Call& call) { return call.count * blocks(shape(call.collective).send_blocks, call); }

size_t recv_elements(const Call& call) {
  size_t elements = call.count * blocks(shape(call.collective).recv_blocks, call);
  return call.in_place && input_in_recv(call) ? std::max(elements, input_offset(call) + input_elements(call))
                                              : elements;
}

size_t input_elements(const Call& call) {
  if (call.collective == Collective::pair && partners_of(call).to < 0) return 0;
  return shape(call.collective).root_only_input && !at_root(call) ? 0 : send_elements(call);
}

size_t output_elements(const Call& call) {
  const Shape& s = shape(call.collective);
  if (s.root_only_output && !at_root(call)) return 0;
  if (call.collective == Collective::pair && partners_of(call).from < 0) return 0;
  if (call.collective == Collective::exscan && call.rank == 0) return 0;
  // The root of an in-place scatter keeps its block in the send buffer.
  if (call.collective == Collective::scatter && call.in_place && at_root(call)) return 0;
  return call.count * blocks(s.recv_blocks, call);
}

bool input_in_recv(const Call& call) {
  switch (call.collective) {
    case Collective::bcast: return true;
    case Collective::scatter: return false;
    case Collective::reduce:
    case Collective::gather: return call.in_place && at_root(call);
    default: return call.in_place;
  }
}

size_t input_offset(const Call& call) {
  bool own_block = call.collective == Collective::allgather || call.collective == Collective::gather;
  return own_block && input_in_recv(call) ? static_cast<size_t>(call.rank) * call.count : 0;
}

size_t output_offset(const Call& call) {
  const bool own_block = call.collective == Collective::reduce_scatter && call.in_place && call.api;
  return own_block ? static_cast<size_t>(call.rank) * call.count : 0;
}

size_t count_for(const Call& call, size_t bytes) {
  const Shape& s = shape(call.collective);
  return bytes / info(call.type).bytes / blocks(s.send_blocks || s.recv_blocks, call);
}

size_t table_bytes(const Call& call) {
  const Shape& s = shape(call.collective);
  return call.count * info(call.type).bytes * blocks(s.send_blocks || s.recv_blocks, call);
}

double bus_factor(const Call& call) {
  double n = call.ranks;
  switch (call.collective) {
    case Collective::allreduce: return 2 * (n - 1) / n;
    case Collective::bcast:
    case Collective::reduce:
    case Collective::scan:
    case Collective::exscan:
    case Collective::sendrecv:
    case Collective::pair: return 1;
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

MPI_Datatype mpi_type(Type type) {
  switch (type) {
    case Type::int8: return MPI_INT8_T;
    case Type::int16: return MPI_INT16_T;
    case Type::int32: return MPI_INT32_T;
    case Type::int64: return MPI_INT64_T;
    case Type::uint8: return MPI_UINT8_T;
    case Type::uint16: return MPI_UINT16_T;
    case Type::uint32: return MPI_UINT32_T;
    case Type::uint64: return MPI_UINT64_T;
    case Type::float32: return MPI_FLOAT;
    case Type::float64: return MPI_DOUBLE;
    case Type::long_double: return MPI_LONG_DOUBLE;
    case Type::complex64: return MPI_C_FLOAT_COMPLEX;
    case Type::complex128: return MPI_C_DOUBLE_COMPLEX;
    case Type::boolean: return MPI_C_BOOL;
    case Type::byte: return MPI_BYTE;
    case Type::float_int: return MPI_FLOAT_INT;
    case Type::double_int: return MPI_DOUBLE_INT;
    case Type::long_int: return MPI_LONG_INT;
    case Type::int_int: return MPI_2INT;
    case Type::short_int: return MPI_SHORT_INT;
    case Type::long_double_int: break;
  }
  return MPI_LONG_DOUBLE_INT;
}

MPI_Op mpi_op(Op op) {
  switch (op) {
    case Op::sum: return MPI_SUM;
    case Op::prod: return MPI_PROD;
    case Op::max: return MPI_MAX;
    case Op::min: return MPI_MIN;
    case Op::band: return MPI_BAND;
    case Op::bor: return MPI_BOR;
    case Op::bxor: return MPI_BXOR;
    case Op::land: return MPI_LAND;
    case Op::lor: return MPI_LOR;
    case Op::lxor: return MPI_LXOR;
    case Op::maxloc: return MPI_MAXLOC;
    case Op::minloc: break;
  }
  return MPI_MINLOC;
}

int run_mpi(const Call& call, void* send, void* recv, MPI_Comm comm) {
  int n = static_cast<int>(call.count);
  MPI_Datatype type = mpi_type(call.type);
  MPI_Op op = mpi_op(call.op);
  if (input_in_recv(call)) send = MPI_IN_PLACE;
  switch (call.collective) {
    case Collective::allreduce: return MPI_Allreduce(send, recv, n, type, op, comm);
    case Collective::bcast: return MPI_Bcast(recv, n, type, call.root, comm);
    case Collective::reduce: return MPI_Reduce(send, recv, n, type, op, call.root, comm);
    case Collective::allgather: return MPI_Allgather(send, n, type, recv, n, type, comm);
    case Collective::reduce_scatter: return MPI_Reduce_scatter_block(send, recv, n, type, op, comm);
    case Collective::alltoall: return MPI_Alltoall(send, n, type, recv, n, type, comm);
    case Collective::gather: return MPI_Gather(send, n, type, recv, n, type, call.root, comm);
    case Collective::scan: return MPI_Scan(send, recv, n, type, op, comm);
    case Collective::exscan: return MPI_Exscan(send, recv, n, type, op, comm);
    case Collective::sendrecv:
    case Collective::pair: return run_pairwise(call, send, recv, comm);
    case Collective::scatter: break;
  }
  if (call.in_place && at_root(call)) recv = MPI_IN_PLACE;
  return MPI_Scatter(send, n, type, recv, n, type, call.root, comm);
}

}  // namespace gpucoll::perf
