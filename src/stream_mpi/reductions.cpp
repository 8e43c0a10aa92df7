// The functions of gpucoll/mpi.h that reduce, and the barrier.
#include <algorithm>
#include <vector>

#include "gpucoll/mpi.h"
#include "stream_mpi/calls.h"

using namespace gpucoll;
using namespace gpucoll::stream_mpi;

namespace {

// Moves a result from this rank's own part of a buffer to the beginning, behind what is in the stream.
Status move_to_front(const Ranks& ranks, void* buffer, const Elements& result, size_t from, gpucollStream_t stream) {
  if (from == 0 || result.count == 0) return {};
  return in_group([&]() -> Status {
    GC_TRY(told(gpucollSend(at(buffer, from), result.count, result.type, ranks.rank, ranks.comm, stream)));
    return told(gpucollRecv(buffer, result.count, result.type, ranks.rank, ranks.comm, stream));
  });
}

// The two steps of such a call would run side by side there.
Status refuse_group() {
  if (!gpucoll_group_open()) return {};
  return Status::error(Code::invalid_usage,
                       "MPI_IN_PLACE takes two steps here, one after the other, which a group cannot: call it outside "
                       "of groups, or pass a buffer of its own as sendbuf");
}

// The parts of the ranks in a reduction, in elements of the C API.
struct Parts {
  std::vector<Elements> counts;
  std::vector<size_t> offsets;  // in bytes
};

Result<Parts> parts_of(const Ranks& ranks, const int* counts, MPI_Datatype type) {
  if (!counts) return Status::error(Code::invalid_argument, "recvcounts is NULL");
  Parts parts;
  size_t offset = 0;
  for (int r = 0; r < ranks.size; ++r) {
    GC_TRY_AS(const Elements part, reduced("an entry of recvcounts", counts[r], type));
    parts.counts.push_back(part);
    parts.offsets.push_back(offset);
    if (__builtin_add_overflow(offset, part.bytes(), &offset))
      return Status::error(Code::invalid_argument, "recvcounts has more elements than fit into any memory");
  }
  return parts;
}

// Every rank refuses alike.
Status check_room_in_place(const Parts& parts) {
  for (size_t r = 0; r < parts.counts.size(); ++r)
    if (parts.offsets[r] != 0 && parts.offsets[r] < parts.counts[r].bytes())
      return Status::error(Code::invalid_argument,
                           "with MPI_IN_PLACE the result of rank %zu would overlap its own input: recvcounts[%zu] must "
                           "not be larger than the sum of those before; pass a buffer of its own as sendbuf",
                           r, r);
  return {};
}

Status reduce_scatter(const Ranks& ranks, const void* input, void* result, const Parts& parts, gpucollRedOp_t op,
                      gpucollStream_t stream) {
  return in_group([&]() -> Status {
    for (int root = 0; root < ranks.size; ++root) {
      const auto r = static_cast<size_t>(root);
      GC_TRY(told(gpucollReduce(at(input, parts.offsets[r]), root == ranks.rank ? result : nullptr,
                                parts.counts[r].count, parts.counts[r].type, op, root, ranks.comm, stream)));
    }
    return {};
  });
}

}  // namespace

extern "C" {

gpucollResult_t gpucollCommFromMPI(MPI_Comm mpi, gpucollComm_t* comm) {
  return enqueue("gpucollCommFromMPI", mpi, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    if (!comm) return Status::error(Code::invalid_argument, "comm is NULL");
    *comm = ranks.comm;
    return {};
  });
}

gpucollResult_t gpucollMPIBarrier(MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIBarrier", comm, Caller::all_ranks,
                 [&](const Ranks& ranks) { return told(gpucollBarrier(ranks.comm, stream)); });
}

gpucollResult_t gpucollMPIAllreduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                    MPI_Op op, MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIAllreduce", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY_AS(const Elements data, reduced("count", count, datatype));
    GC_TRY_AS(const gpucollRedOp_t red_op, operation(op, data));
    const void* const from = in_place(sendbuf) ? recvbuf : sendbuf;
    return told(gpucollAllReduce(from, recvbuf, data.count, data.type, red_op, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIReduce(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                 int root, MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIReduce", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY_AS(const Elements data, reduced("count", count, datatype));
    GC_TRY_AS(const gpucollRedOp_t red_op, operation(op, data));
    if (in_place(sendbuf) && ranks.rank != root)
      return Status::error(Code::invalid_argument, "sendbuf is MPI_IN_PLACE on rank %d, which is not the root %d",
                           ranks.rank, root);
    const void* const from = in_place(sendbuf) ? recvbuf : sendbuf;
    void* const to = ranks.rank == root ? recvbuf : nullptr;
    return told(gpucollReduce(from, to, data.count, data.type, red_op, root, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIReduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                               gpucollStream_t stream) {
  return enqueue("gpucollMPIReduce_scatter_block", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY_AS(const Elements part, reduced("recvcount", recvcount, datatype));
    GC_TRY_AS(const gpucollRedOp_t red_op, operation(op, part));
    if (!in_place(sendbuf))
      return told(gpucollReduceScatter(sendbuf, recvbuf, part.count, part.type, red_op, ranks.comm, stream));
    GC_TRY(refuse_group());
    const size_t own = part.bytes() * static_cast<size_t>(ranks.rank);
    GC_TRY(told(gpucollReduceScatter(recvbuf, at(recvbuf, own), part.count, part.type, red_op, ranks.comm, stream)));
    return move_to_front(ranks, recvbuf, part, own, stream);
  });
}

gpucollResult_t gpucollMPIReduce_scatter(const void* sendbuf, void* recvbuf, const int recvcounts[],
                                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIReduce_scatter", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY_AS(const Parts parts, parts_of(ranks, recvcounts, datatype));
    GC_TRY_AS(const gpucollRedOp_t red_op, operation(op, parts.counts[0]));
    if (!in_place(sendbuf)) return reduce_scatter(ranks, sendbuf, recvbuf, parts, red_op, stream);
    GC_TRY(refuse_group());
    GC_TRY(check_room_in_place(parts));
    const auto own = static_cast<size_t>(ranks.rank);
    GC_TRY(reduce_scatter(ranks, recvbuf, at(recvbuf, parts.offsets[own]), parts, red_op, stream));
    return move_to_front(ranks, recvbuf, parts.counts[own], parts.offsets[own], stream);
  });
}

}  // extern "C"
