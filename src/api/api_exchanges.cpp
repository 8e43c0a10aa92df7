// The C API: collectives that are put together from sends and receives. Each body is one call of guarded().
#include <algorithm>

#include "api/exchange.h"
#include "api/handles.h"
#include "base/mutant.h"
#include "core/comm/group.h"

using namespace gpucoll;
using namespace gpucoll::coll;

namespace {

bool has_parts(const Side& side) { return side.only != Side::kNoPeer; }

// Returns what a side gives for all peers; a list that a rank may leave out is not looked at.
const size_t* list_of(const Side& side, const size_t* list) { return side.only == Side::kAllPeers ? list : nullptr; }

Lists lists_of(const Caller& caller, const ExchangeCall& call) {
  const Side &send = call.send, &recv = call.recv;
  return {
      {list_of(send, send.counts), list_of(send, send.displs), list_of(recv, recv.counts), list_of(recv, recv.displs)},
      static_cast<size_t>(caller.n_ranks)};
}

// Returns the root, also where the exchange is put together from messages: then it is the one peer of a side.
int root_of(const ExchangeCall& call) {
  if (call.function != core::Function::send_recv || gc_mutant(483)) return call.root;
  return std::max(call.send.only, call.recv.only);
}

Operation operation_of(const Caller& caller, const ExchangeCall& call) {
  return {.function = call.function,
          .send = call.send.buffer,
          .recv = call.recv.buffer,
          .send_count = call.send.count,
          .recv_count = call.recv.count,
          .stream = call.stream,
          .type = call.type,
          .root = root_of(call),
          .sends = has_parts(call.send) || gc_mutant(484),
          .receives = has_parts(call.recv) || gc_mutant(484),
          .lists = lists_of(caller, call)};
}

// Runs make(caller), which gives an ExchangeCall, and enqueues that; what fails makes an open group fail.
template <class Make>
gpucollResult_t exchange(const char* where, gpucollComm_t comm, Make&& make) {
  return to_c(guarded(where, [&] {
    return core::fail_group(contained([&]() -> Status {
      GC_TRY_AS(const Use communicator, usable(comm));
      const Caller caller = {communicator->device(), communicator->rank(), communicator->size(), &comm->red_ops};
      GC_TRY_AS(const ExchangeCall call, make(caller));
      return comm->kept.run(comm->share, operation_of(caller, call), [&]() -> Result<Enqueued> {
        Enqueued enqueued = {has_parts(call.send), has_parts(call.recv), {}};
        GC_TRY(enqueue_exchange(caller, comm->share, call, &enqueued.repeat));
        return enqueued;
      });
    }));
  }));
}

// The side of a rooted exchange that has parts for all ranks: only the root's.
int all_at_root(const Caller& caller, int root) { return caller.rank == root ? Side::kAllPeers : Side::kNoPeer; }

}  // namespace

extern "C" {

gpucollResult_t gpucollAlltoAll(const void* sendbuff, void* recvbuff, size_t count, gpucollDataType_t datatype,
                                gpucollComm_t comm, gpucollStream_t stream) {
  return exchange("gpucollAlltoAll", comm, [&](const Caller&) -> Result<ExchangeCall> {
    return ExchangeCall{{.name = "sendbuff", .buffer = sendbuff, .count_name = "count", .count = count},
                        {.name = "recvbuff", .buffer = recvbuff, .count_name = "count", .count = count},
                        datatype,
                        stream,
                        false,
                        core::Function::all_to_all};
  });
}

gpucollResult_t gpucollAlltoAllv(const void* sendbuff, const size_t sendcounts[], const size_t sdispls[],
                                 void* recvbuff, const size_t recvcounts[], const size_t rdispls[],
                                 gpucollDataType_t datatype, gpucollComm_t comm, gpucollStream_t stream) {
  return exchange("gpucollAlltoAllv", comm, [&](const Caller&) -> Result<ExchangeCall> {
    if (!sendcounts) return null_argument("sendcounts");
    if (!sdispls) return null_argument("sdispls");
    if (!recvcounts) return null_argument("recvcounts");
    if (!rdispls) return null_argument("rdispls");
    return ExchangeCall{{"sendbuff", sendbuff, "sendcounts", 0, sendcounts, sdispls, "sdispls"},
                        {"recvbuff", recvbuff, "recvcounts", 0, recvcounts, rdispls, "rdispls"},
                        datatype,
                        stream,
                        false};
  });
}

gpucollResult_t gpucollGather(const void* sendbuff, void* recvbuff, size_t count, gpucollDataType_t datatype, int root,
                              gpucollComm_t comm, gpucollStream_t stream) {
  return exchange("gpucollGather", comm, [&](const Caller& caller) -> Result<ExchangeCall> {
    GC_TRY(check_rank(caller, "root", root));
    return ExchangeCall{{.name = "sendbuff", .buffer = sendbuff, .count_name = "count", .count = count, .only = root},
                        {.name = "recvbuff",
                         .buffer = recvbuff,
                         .count_name = "count",
                         .count = count,
                         .only = all_at_root(caller, root)},
                        datatype,
                        stream,
                        true,
                        core::Function::gather,
                        root};
  });
}

gpucollResult_t gpucollGatherv(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t recvcounts[],
                               const size_t rdispls[], gpucollDataType_t datatype, int root, gpucollComm_t comm,
                               gpucollStream_t stream) {
  return exchange("gpucollGatherv", comm, [&](const Caller& caller) -> Result<ExchangeCall> {
    GC_TRY(check_rank(caller, "root", root));
    if (caller.rank == root && !recvcounts) return null_argument("recvcounts");
    if (caller.rank == root && !rdispls) return null_argument("rdispls");
    return ExchangeCall{
        {.name = "sendbuff", .buffer = sendbuff, .count_name = "sendcount", .count = sendcount, .only = root},
        {"recvbuff", recvbuff, "recvcounts", 0, recvcounts, rdispls, "rdispls", all_at_root(caller, root)},
        datatype,
        stream,
        true};
  });
}

gpucollResult_t gpucollScatter(const void* sendbuff, void* recvbuff, size_t count, gpucollDataType_t datatype, int root,
                               gpucollComm_t comm, gpucollStream_t stream) {
  return exchange("gpucollScatter", comm, [&](const Caller& caller) -> Result<ExchangeCall> {
    GC_TRY(check_rank(caller, "root", root));
    return ExchangeCall{{.name = "sendbuff",
                         .buffer = sendbuff,
                         .count_name = "count",
                         .count = count,
                         .only = all_at_root(caller, root)},
                        {.name = "recvbuff", .buffer = recvbuff, .count_name = "count", .count = count, .only = root},
                        datatype,
                        stream,
                        true,
                        core::Function::scatter,
                        root};
  });
}

gpucollResult_t gpucollScatterv(const void* sendbuff, const size_t sendcounts[], const size_t sdispls[], void* recvbuff,
                                size_t recvcount, gpucollDataType_t datatype, int root, gpucollComm_t comm,
                                gpucollStream_t stream) {
  return exchange("gpucollScatterv", comm, [&](const Caller& caller) -> Result<ExchangeCall> {
    GC_TRY(check_rank(caller, "root", root));
    if (caller.rank == root && !sendcounts) return null_argument("sendcounts");
    if (caller.rank == root && !sdispls) return null_argument("sdispls");
    return ExchangeCall{
        {"sendbuff", sendbuff, "sendcounts", 0, sendcounts, sdispls, "sdispls", all_at_root(caller, root)},
        {.name = "recvbuff", .buffer = recvbuff, .count_name = "recvcount", .count = recvcount, .only = root},
        datatype,
        stream,
        true};
  });
}

}  // extern "C"
