// The functions of gpucoll/mpi.h that move data: collectives and messages.
#include <cstdint>
#include <vector>

#include "gpucoll/mpi.h"
#include "stream_mpi/calls.h"

using namespace gpucoll;
using namespace gpucoll::stream_mpi;

namespace {

// One side of an exchange with a part for each rank, in bytes.
struct Side {
  std::vector<size_t> counts, displacements;

  explicit Side(const Ranks& ranks) : counts(static_cast<size_t>(ranks.size)), displacements(counts.size()) {}
};

// Names the arguments of one side.
struct Names {
  const char *counts, *displacements;
};

// Returns so many times the bytes of one element, for an entry of an array of arguments. REQUIRES: value >= 0.
Result<size_t> times(const char* name, size_t r, int value, size_t one) {
  size_t bytes;
  if (!__builtin_mul_overflow(static_cast<size_t>(value), one, &bytes)) return bytes;
  return Status::error(Code::invalid_argument, "%s[%zu] is %d: so many elements are larger than any memory", name, r,
                       value);
}

Result<Side> side_of(const Ranks& ranks, const Names& names, const int* counts, const int* displacements,
                     MPI_Datatype type) {
  if (!counts) return Status::error(Code::invalid_argument, "%s is NULL", names.counts);
  if (!displacements) return Status::error(Code::invalid_argument, "%s is NULL", names.displacements);
  Side side(ranks);
  GC_TRY_AS(const size_t one, moved("1", 1, type));
  for (size_t r = 0; r < side.counts.size(); ++r) {
    if (counts[r] < 0) return Status::error(Code::invalid_argument, "%s[%zu] is %d", names.counts, r, counts[r]);
    if (displacements[r] < 0 && counts[r] > 0)
      return Status::error(Code::invalid_argument, "%s[%zu] is %d: negative displacements are not supported",
                           names.displacements, r, displacements[r]);
    if (counts[r] == 0) continue;
    GC_TRY_AS(side.counts[r], times(names.counts, r, counts[r], one));
    GC_TRY_AS(side.displacements[r], times(names.displacements, r, displacements[r], one));
  }
  return side;
}

Status check_peer(const Ranks& ranks, const char* name, int peer) {
  if (peer == MPI_PROC_NULL || (peer >= 0 && peer < ranks.size)) return {};
  return Status::error(Code::invalid_argument, "%s is %d: there are the ranks 0 to %d", name, peer, ranks.size - 1);
}

Status check_source(const Ranks& ranks, int source) {
  if (source == MPI_ANY_SOURCE)
    return Status::error(Code::invalid_argument,
                         "source is MPI_ANY_SOURCE: a stream cannot choose; name the rank, or call MPI_Recv");
  return check_peer(ranks, "source", source);
}

Status check_dest(const Ranks& ranks, int dest) {
  if (dest == MPI_ANY_SOURCE)
    return Status::error(Code::invalid_argument,
                         "dest is MPI_ANY_SOURCE: name the rank that is sent to, as MPI_Send does");
  return check_peer(ranks, "dest", dest);
}

Status check_root(const Ranks& ranks, int root) {
  if (root >= 0 && root < ranks.size) return {};
  return Status::error(Code::invalid_argument, "root is %d: there are the ranks 0 to %d", root, ranks.size - 1);
}

Status refuse_in_place(const char* name, const void* buffer) {
  if (!in_place(buffer)) return {};
  return Status::error(Code::invalid_argument,
                       "%s is MPI_IN_PLACE, which this function does not take: pass another buffer, or call MPI's own "
                       "function after gpucollStreamSynchronize",
                       name);
}

// The part of `buffer` that is this rank's, where the parts of all ranks follow each other.
template <class Pointer>
Pointer own_part(const Ranks& ranks, Pointer buffer, size_t part) {
  return static_cast<Pointer>(at(buffer, part * static_cast<size_t>(ranks.rank)));
}

// Says how large one rank's part is, and what the argument is called that counts it.
struct Part {
  const char* name;
  MPI_Count count;
  MPI_Datatype type;
};

// Returns the bytes of a rank's part. A rank says how large its own part is, unless that is in place, and a rank that
// has the parts of all says how large each of those is.
Result<size_t> bytes_of(const Part& own, bool own_in_place, const Part& each, bool has_all) {
  size_t part = 0;
  if (!own_in_place) {
    GC_TRY_AS(part, moved(own.name, own.count, own.type));
  }
  if (!has_all) return part;
  GC_TRY_AS(const size_t theirs, moved(each.name, each.count, each.type));
  if (!own_in_place) GC_TRY(check_same(own.name, part, each.name, theirs));
  return theirs;
}

Status refuse_in_place_elsewhere(const Ranks& ranks, int root, const char* name, const void* buffer) {
  if (!in_place(buffer) || ranks.rank == root) return {};
  return Status::error(Code::invalid_argument, "%s is MPI_IN_PLACE on rank %d, which is not the root %d", name,
                       ranks.rank, root);
}

}  // namespace

extern "C" {

gpucollResult_t gpucollMPIBcast(void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                                gpucollStream_t stream) {
  return enqueue("gpucollMPIBcast", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY_AS(const size_t data, moved("count", count, datatype));
    return told(gpucollBcast(buffer, data, gpucollUint8, root, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIAllgather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                    MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIAllgather", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY_AS(const size_t part, bytes_of({"sendcount", sendcount, sendtype}, in_place(sendbuf),
                                          {"recvcount", recvcount, recvtype}, true));
    const void* const from = in_place(sendbuf) ? own_part(ranks, recvbuf, part) : sendbuf;
    return told(gpucollAllGather(from, recvbuf, part, gpucollUint8, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIAllgatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                     const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                     gpucollStream_t stream) {
  return enqueue("gpucollMPIAllgatherv", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY_AS(Side recv, side_of(ranks, {"recvcounts", "displs"}, recvcounts, displs, recvtype));
    Side send(ranks);
    const auto own = static_cast<size_t>(ranks.rank);
    const void* from = sendbuf;
    if (in_place(sendbuf)) {
      from = at(recvbuf, recv.displacements[own]);
      send.counts.assign(send.counts.size(), recv.counts[own]);
      send.counts[own] = recv.counts[own] = 0;  // it is where it belongs
    } else {
      GC_TRY_AS(const size_t mine, moved("sendcount", sendcount, sendtype));
      send.counts.assign(send.counts.size(), mine);
    }
    return told(gpucollAlltoAllv(from, send.counts.data(), send.displacements.data(), recvbuf, recv.counts.data(),
                                 recv.displacements.data(), gpucollUint8, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIGather(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                 MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                                 gpucollStream_t stream) {
  return enqueue("gpucollMPIGather", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY(check_root(ranks, root));
    GC_TRY(refuse_in_place_elsewhere(ranks, root, "sendbuf", sendbuf));
    const bool is_root = ranks.rank == root;
    GC_TRY_AS(const size_t part, bytes_of({"sendcount", sendcount, sendtype}, in_place(sendbuf),
                                          {"recvcount", recvcount, recvtype}, is_root));
    const void* const from = in_place(sendbuf) ? own_part(ranks, recvbuf, part) : sendbuf;
    return told(gpucollGather(from, is_root ? recvbuf : nullptr, part, gpucollUint8, root, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIGatherv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                  const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root,
                                  MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIGatherv", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY(check_root(ranks, root));
    GC_TRY(refuse_in_place_elsewhere(ranks, root, "sendbuf", sendbuf));
    const auto own = static_cast<size_t>(ranks.rank);
    Side recv(ranks);
    if (ranks.rank == root) {
      GC_TRY_AS(recv, side_of(ranks, {"recvcounts", "displs"}, recvcounts, displs, recvtype));
    }
    const void* from = in_place(sendbuf) ? at(recvbuf, recv.displacements[own]) : sendbuf;
    size_t bytes = recv.counts[own];
    if (!in_place(sendbuf)) {
      GC_TRY_AS(const size_t mine, moved("sendcount", sendcount, sendtype));
      bytes = mine;
    }
    return told(gpucollGatherv(from, bytes, ranks.rank == root ? recvbuf : nullptr, recv.counts.data(),
                               recv.displacements.data(), gpucollUint8, root, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIScatter(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                  MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                                  gpucollStream_t stream) {
  return enqueue("gpucollMPIScatter", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY(check_root(ranks, root));
    GC_TRY(refuse_in_place_elsewhere(ranks, root, "recvbuf", recvbuf));
    const bool is_root = ranks.rank == root;
    GC_TRY_AS(const size_t part, bytes_of({"recvcount", recvcount, recvtype}, in_place(recvbuf),
                                          {"sendcount", sendcount, sendtype}, is_root));
    // The C API writes nothing where the own part is in place.
    void* const to =
        in_place(recvbuf) ? const_cast<char*>(own_part(ranks, static_cast<const char*>(sendbuf), part)) : recvbuf;
    return told(gpucollScatter(is_root ? sendbuf : nullptr, to, part, gpucollUint8, root, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIScatterv(const void* sendbuf, const int sendcounts[], const int displs[],
                                   MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                   int root, MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIScatterv", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY(check_root(ranks, root));
    GC_TRY(refuse_in_place_elsewhere(ranks, root, "recvbuf", recvbuf));
    const auto own = static_cast<size_t>(ranks.rank);
    Side send(ranks);
    if (ranks.rank == root) {
      GC_TRY_AS(send, side_of(ranks, {"sendcounts", "displs"}, sendcounts, displs, sendtype));
    }
    void* const to = in_place(recvbuf) ? const_cast<char*>(at(sendbuf, send.displacements[own])) : recvbuf;
    size_t bytes = send.counts[own];
    if (!in_place(recvbuf)) {
      GC_TRY_AS(const size_t mine, moved("recvcount", recvcount, recvtype));
      bytes = mine;
    }
    return told(gpucollScatterv(ranks.rank == root ? sendbuf : nullptr, send.counts.data(), send.displacements.data(),
                                to, bytes, gpucollUint8, root, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIAlltoall(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                   MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIAlltoall", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY_AS(const size_t part, bytes_of({"sendcount", sendcount, sendtype}, in_place(sendbuf),
                                          {"recvcount", recvcount, recvtype}, true));
    const void* const from = in_place(sendbuf) ? recvbuf : sendbuf;
    return told(gpucollAlltoAll(from, recvbuf, part, gpucollUint8, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIAlltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[],
                                    MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                                    MPI_Datatype recvtype, MPI_Comm comm, gpucollStream_t stream) {
  return enqueue("gpucollMPIAlltoallv", comm, Caller::all_ranks, [&](const Ranks& ranks) -> Status {
    GC_TRY(refuse_in_place("sendbuf", sendbuf));
    GC_TRY_AS(const Side send, side_of(ranks, {"sendcounts", "sdispls"}, sendcounts, sdispls, sendtype));
    GC_TRY_AS(const Side recv, side_of(ranks, {"recvcounts", "rdispls"}, recvcounts, rdispls, recvtype));
    return told(gpucollAlltoAllv(sendbuf, send.counts.data(), send.displacements.data(), recvbuf, recv.counts.data(),
                                 recv.displacements.data(), gpucollUint8, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPISend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                               gpucollStream_t stream) {
  return enqueue("gpucollMPISend", comm, Caller::one_rank, [&](const Ranks& ranks) -> Status {
    GC_TRY(check_dest(ranks, dest));
    GC_TRY_AS(const size_t data, moved("count", count, datatype));
    if (dest == MPI_PROC_NULL) return {};
    return told(gpucollSend(buf, data, gpucollUint8, dest, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPIRecv(void* buf, MPI_Count count, MPI_Datatype datatype, int source, MPI_Comm comm,
                               gpucollStream_t stream) {
  return enqueue("gpucollMPIRecv", comm, Caller::one_rank, [&](const Ranks& ranks) -> Status {
    GC_TRY(check_source(ranks, source));
    GC_TRY_AS(const size_t data, moved("count", count, datatype));
    if (source == MPI_PROC_NULL) return {};
    return told(gpucollRecv(buf, data, gpucollUint8, source, ranks.comm, stream));
  });
}

gpucollResult_t gpucollMPISendrecv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                                   void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source, MPI_Comm comm,
                                   gpucollStream_t stream) {
  return enqueue("gpucollMPISendrecv", comm, Caller::one_rank, [&](const Ranks& ranks) -> Status {
    GC_TRY(check_dest(ranks, dest));
    GC_TRY(check_source(ranks, source));
    GC_TRY_AS(const size_t sent, moved("sendcount", sendcount, sendtype));
    GC_TRY_AS(const size_t received, moved("recvcount", recvcount, recvtype));
    return in_group([&]() -> Status {
      if (dest != MPI_PROC_NULL) GC_TRY(told(gpucollSend(sendbuf, sent, gpucollUint8, dest, ranks.comm, stream)));
      if (source != MPI_PROC_NULL)
        GC_TRY(told(gpucollRecv(recvbuf, received, gpucollUint8, source, ranks.comm, stream)));
      return {};
    });
  });
}

}  // extern "C"
