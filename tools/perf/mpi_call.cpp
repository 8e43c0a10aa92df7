#include "perf/mpi_call.h"

// Persistent collectives became part of MPI with Open MPI 5.0; before, they were an extension.
#if OMPI_MAJOR_VERSION >= 5
#define GC_INIT(Name) MPI_##Name##_init
#else
#include <mpi-ext.h>
#define GC_INIT(Name) MPIX_##Name##_init
#endif

namespace gpucoll::perf {
namespace {

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
    case Type::float16:
    case Type::bfloat16: return MPI_DATATYPE_NULL;
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

int exchange(const Call& call, void* send, void* recv, int n, MPI_Datatype type, MPI_Comm comm) {
  const Partners partners = partners_of(call);
  const int to = partners.to < 0 ? MPI_PROC_NULL : partners.to;
  const int from = partners.from < 0 ? MPI_PROC_NULL : partners.from;
  return MPI_Sendrecv(send, n, type, to, 0, recv, n, type, from, 0, comm, MPI_STATUS_IGNORE);
}

}  // namespace

bool MpiCall::has(Type type) { return mpi_type(type) != MPI_DATATYPE_NULL; }
MPI_Datatype MpiCall::type(Type type) { return mpi_type(type); }

MpiCall::MpiCall(const Call& call)
    : call_(call),
      type_(mpi_type(call.type)),
      op_(mpi_op(call.op)),
      n_(static_cast<int>(call.count)),
      own_(static_cast<int>(own_block(call).elements)) {
  if (!is_uneven(call.collective)) return;
  for (int peer = 0; peer < call.ranks; ++peer) {
    const Block block = block_of(call, call.rank, peer);
    counts_.push_back(static_cast<int>(block.elements));
    places_.push_back(static_cast<int>(block.offset));
  }
}

MpiCall::Buffers MpiCall::in_place(void* send, void* recv) const {
  if (input_in_recv(call_)) return {MPI_IN_PLACE, recv};
  const bool keeps = even(call_.collective) == Collective::scatter && call_.in_place && call_.rank == call_.root;
  return {send, keeps ? MPI_IN_PLACE : recv};
}

int MpiCall::run(void* send_buffer, void* recv_buffer, MPI_Comm comm) const {
  const auto [send, recv] = in_place(send_buffer, recv_buffer);
  const int root = call_.root;
  switch (call_.collective) {
    case Collective::allreduce: return MPI_Allreduce(send, recv, n_, type_, op_, comm);
    case Collective::bcast: return MPI_Bcast(recv, n_, type_, root, comm);
    case Collective::reduce: return MPI_Reduce(send, recv, n_, type_, op_, root, comm);
    case Collective::allgather: return MPI_Allgather(send, n_, type_, recv, n_, type_, comm);
    case Collective::reduce_scatter: return MPI_Reduce_scatter_block(send, recv, n_, type_, op_, comm);
    case Collective::alltoall: return MPI_Alltoall(send, n_, type_, recv, n_, type_, comm);
    case Collective::gather: return MPI_Gather(send, n_, type_, recv, n_, type_, root, comm);
    case Collective::scatter: return MPI_Scatter(send, n_, type_, recv, n_, type_, root, comm);
    case Collective::scan: return MPI_Scan(send, recv, n_, type_, op_, comm);
    case Collective::exscan: return MPI_Exscan(send, recv, n_, type_, op_, comm);
    case Collective::barrier: return MPI_Barrier(comm);
    case Collective::sendrecv:
    case Collective::pair: return exchange(call_, send, recv, n_, type_, comm);
    default: return run_uneven({send, recv}, comm);
  }
}

int MpiCall::run_uneven(Buffers buffers, MPI_Comm comm) const {
  const auto [send, recv] = buffers;
  const int *counts = counts_.data(), *places = places_.data(), root = call_.root;
  switch (call_.collective) {
    case Collective::allgatherv: return MPI_Allgatherv(send, own_, type_, recv, counts, places, type_, comm);
    case Collective::reduce_scatterv: return MPI_Reduce_scatter(send, recv, counts, type_, op_, comm);
    case Collective::alltoallv: return MPI_Alltoallv(send, counts, places, type_, recv, counts, places, type_, comm);
    case Collective::gatherv: return MPI_Gatherv(send, own_, type_, recv, counts, places, type_, root, comm);
    default: return MPI_Scatterv(send, counts, places, type_, recv, own_, type_, root, comm);
  }
}

int MpiCall::start(void* send_buffer, void* recv_buffer, MPI_Comm comm, MPI_Request* request) const {
  const auto [send, recv] = in_place(send_buffer, recv_buffer);
  const int root = call_.root;
  switch (call_.collective) {
    case Collective::allreduce: return MPI_Iallreduce(send, recv, n_, type_, op_, comm, request);
    case Collective::bcast: return MPI_Ibcast(recv, n_, type_, root, comm, request);
    case Collective::reduce: return MPI_Ireduce(send, recv, n_, type_, op_, root, comm, request);
    case Collective::allgather: return MPI_Iallgather(send, n_, type_, recv, n_, type_, comm, request);
    case Collective::reduce_scatter: return MPI_Ireduce_scatter_block(send, recv, n_, type_, op_, comm, request);
    case Collective::alltoall: return MPI_Ialltoall(send, n_, type_, recv, n_, type_, comm, request);
    case Collective::gather: return MPI_Igather(send, n_, type_, recv, n_, type_, root, comm, request);
    case Collective::scatter: return MPI_Iscatter(send, n_, type_, recv, n_, type_, root, comm, request);
    case Collective::scan: return MPI_Iscan(send, recv, n_, type_, op_, comm, request);
    case Collective::exscan: return MPI_Iexscan(send, recv, n_, type_, op_, comm, request);
    case Collective::barrier: return MPI_Ibarrier(comm, request);
    default: return start_uneven({send, recv}, comm, request);
  }
}

int MpiCall::start_uneven(Buffers buffers, MPI_Comm comm, MPI_Request* request) const {
  const auto [send, recv] = buffers;
  const int *counts = counts_.data(), *places = places_.data(), root = call_.root;
  switch (call_.collective) {
    case Collective::allgatherv: return MPI_Iallgatherv(send, own_, type_, recv, counts, places, type_, comm, request);
    case Collective::reduce_scatterv: return MPI_Ireduce_scatter(send, recv, counts, type_, op_, comm, request);
    case Collective::alltoallv:
      return MPI_Ialltoallv(send, counts, places, type_, recv, counts, places, type_, comm, request);
    case Collective::gatherv: return MPI_Igatherv(send, own_, type_, recv, counts, places, type_, root, comm, request);
    case Collective::scatterv:
      return MPI_Iscatterv(send, counts, places, type_, recv, own_, type_, root, comm, request);
    default: return MPI_ERR_UNSUPPORTED_OPERATION;  // messages: not let in
  }
}

int MpiCall::make(void* send_buffer, void* recv_buffer, MPI_Comm comm, MPI_Request* request) const {
  const auto [send, recv] = in_place(send_buffer, recv_buffer);
  const int root = call_.root;
  switch (call_.collective) {
    case Collective::allreduce: return GC_INIT(Allreduce)(send, recv, n_, type_, op_, comm, MPI_INFO_NULL, request);
    case Collective::bcast: return GC_INIT(Bcast)(recv, n_, type_, root, comm, MPI_INFO_NULL, request);
    case Collective::reduce: return GC_INIT(Reduce)(send, recv, n_, type_, op_, root, comm, MPI_INFO_NULL, request);
    case Collective::allgather:
      return GC_INIT(Allgather)(send, n_, type_, recv, n_, type_, comm, MPI_INFO_NULL, request);
    case Collective::reduce_scatter:
      return GC_INIT(Reduce_scatter_block)(send, recv, n_, type_, op_, comm, MPI_INFO_NULL, request);
    case Collective::alltoall: return GC_INIT(Alltoall)(send, n_, type_, recv, n_, type_, comm, MPI_INFO_NULL, request);
    case Collective::gather:
      return GC_INIT(Gather)(send, n_, type_, recv, n_, type_, root, comm, MPI_INFO_NULL, request);
    case Collective::scatter:
      return GC_INIT(Scatter)(send, n_, type_, recv, n_, type_, root, comm, MPI_INFO_NULL, request);
    case Collective::scan: return GC_INIT(Scan)(send, recv, n_, type_, op_, comm, MPI_INFO_NULL, request);
    case Collective::exscan: return GC_INIT(Exscan)(send, recv, n_, type_, op_, comm, MPI_INFO_NULL, request);
    case Collective::barrier: return GC_INIT(Barrier)(comm, MPI_INFO_NULL, request);
    default: return make_uneven({send, recv}, comm, request);
  }
}

int MpiCall::make_uneven(Buffers buffers, MPI_Comm comm, MPI_Request* request) const {
  const auto [send, recv] = buffers;
  const int *counts = counts_.data(), *places = places_.data(), root = call_.root;
  switch (call_.collective) {
    case Collective::allgatherv:
      return GC_INIT(Allgatherv)(send, own_, type_, recv, counts, places, type_, comm, MPI_INFO_NULL, request);
    case Collective::reduce_scatterv:
      return GC_INIT(Reduce_scatter)(send, recv, counts, type_, op_, comm, MPI_INFO_NULL, request);
    case Collective::alltoallv:
      return GC_INIT(Alltoallv)(send, counts, places, type_, recv, counts, places, type_, comm, MPI_INFO_NULL, request);
    case Collective::gatherv:
      return GC_INIT(Gatherv)(send, own_, type_, recv, counts, places, type_, root, comm, MPI_INFO_NULL, request);
    case Collective::scatterv:
      return GC_INIT(Scatterv)(send, counts, places, type_, recv, own_, type_, root, comm, MPI_INFO_NULL, request);
    default: return MPI_ERR_UNSUPPORTED_OPERATION;  // messages: not let in
  }
}

}  // namespace gpucoll::perf
