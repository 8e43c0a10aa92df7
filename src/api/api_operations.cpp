// The C API: collectives, sends and receives, and operations made for them. Each body is one call of guarded().
#include "api/handles.h"
#include "core/comm/group.h"
#include "task/collective_task.h"

using namespace gpucoll;
using namespace gpucoll::coll;

namespace {

using proto::Function;

Caller caller_of(gpucollComm_t comm) {
  const core::Communicator& communicator = *comm->share.communicator();
  return {communicator.device(), communicator.rank(), communicator.size(), &comm->red_ops};
}

// Runs body(caller) behind the C boundary; what fails makes an open group fail.
template <class Body>
gpucollResult_t operation(const char* where, gpucollComm_t comm, Body&& body) {
  return to_c(guarded(where, [&] {
    return core::fail_group(contained([&]() -> Status {
      GC_TRY_AS(const Use use, usable(comm));
      return body(caller_of(comm));
    }));
  }));
}

gpucollResult_t collective(const char* where, gpucollComm_t comm, const CollectiveCall& call) {
  return operation(where, comm, [&](const Caller& caller) -> Status {
    const Operation asked = {.function = call.function,
                             .send = call.send,
                             .recv = call.recv,
                             .send_count = call.count,
                             .stream = call.stream,
                             .type = call.type,
                             .op = call.op,
                             .root = call.root};
    return comm->kept.run(comm->share, asked, [&]() -> Result<Enqueued> {
      GC_TRY_AS(const core::CollectiveTask task, make_task(caller, call));
      Enqueued enqueued = {task.send != nullptr, task.recv != nullptr, {}};
      GC_TRY(core::enqueue(comm->share, task, named(call), &enqueued.repeat));
      return enqueued;
    });
  });
}

gpucollResult_t message(const char* where, gpucollComm_t comm, bool is_send, const Operation& asked,
                        const PairCall& call) {
  return operation(where, comm, [&](const Caller& caller) -> Status {
    return comm->kept.run(comm->share, asked, [&]() -> Result<Enqueued> {
      GC_TRY_AS(const core::SendRecvTask task, make_task(caller, call));
      const core::Message message = {is_send, call.peer, task};
      Enqueued enqueued = {is_send, !is_send, {}};
      GC_TRY(core::enqueue_messages(comm->share, {&message, 1}, &enqueued.repeat));
      return enqueued;
    });
  });
}

}  // namespace

extern "C" {

gpucollResult_t gpucollAllReduce(const void* sendbuff, void* recvbuff, size_t count, gpucollDataType_t datatype,
                                 gpucollRedOp_t op, gpucollComm_t comm, gpucollStream_t stream) {
  return collective("gpucollAllReduce", comm,
                    {Function::all_reduce, sendbuff, recvbuff, count, datatype, op, 0, stream});
}

gpucollResult_t gpucollReduce(const void* sendbuff, void* recvbuff, size_t count, gpucollDataType_t datatype,
                              gpucollRedOp_t op, int root, gpucollComm_t comm, gpucollStream_t stream) {
  return collective("gpucollReduce", comm, {Function::reduce, sendbuff, recvbuff, count, datatype, op, root, stream});
}

gpucollResult_t gpucollBroadcast(const void* sendbuff, void* recvbuff, size_t count, gpucollDataType_t datatype,
                                 int root, gpucollComm_t comm, gpucollStream_t stream) {
  return collective("gpucollBroadcast", comm,
                    {Function::broadcast, sendbuff, recvbuff, count, datatype, gpucollSum, root, stream});
}

gpucollResult_t gpucollBcast(void* buff, size_t count, gpucollDataType_t datatype, int root, gpucollComm_t comm,
                             gpucollStream_t stream) {
  return collective("gpucollBcast", comm,
                    {Function::broadcast, buff, buff, count, datatype, gpucollSum, root, stream, "buff", "buff"});
}

gpucollResult_t gpucollAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, gpucollDataType_t datatype,
                                 gpucollComm_t comm, gpucollStream_t stream) {
  return collective("gpucollAllGather", comm,
                    {Function::all_gather, sendbuff, recvbuff, sendcount, datatype, gpucollSum, 0, stream, "sendbuff",
                     "recvbuff", "sendcount"});
}

gpucollResult_t gpucollReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, gpucollDataType_t datatype,
                                     gpucollRedOp_t op, gpucollComm_t comm, gpucollStream_t stream) {
  return collective("gpucollReduceScatter", comm,
                    {Function::reduce_scatter, sendbuff, recvbuff, recvcount, datatype, op, 0, stream, "sendbuff",
                     "recvbuff", "recvcount"});
}

gpucollResult_t gpucollBarrier(gpucollComm_t comm, gpucollStream_t stream) {
  return operation("gpucollBarrier", comm, [&](const Caller&) -> Status {
    GC_TRY_AS(uint8_t* const scratch, comm->share.communicator()->workspace().scratch());
    const size_t slot = comm->barriers++ % (core::Workspace::kScratchBytes / kBarrierBytes);
    GC_TRY_AS(const core::CollectiveTask task, barrier_task(scratch + slot * kBarrierBytes, stream));
    return core::enqueue(comm->share, task, core::call_of(0, {Function::send_recv}));  // no collective's: a barrier's
  });
}

gpucollResult_t gpucollSend(const void* sendbuff, size_t count, gpucollDataType_t datatype, int peer,
                            gpucollComm_t comm, gpucollStream_t stream) {
  const Operation asked = {.send = sendbuff,
                           .send_count = count,
                           .stream = stream,
                           .type = datatype,
                           .root = peer,
                           .receives = gc_mutant(484) != 0};
  return message("gpucollSend", comm, true, asked, {"sendbuff", sendbuff, count, datatype, peer, stream});
}

gpucollResult_t gpucollRecv(void* recvbuff, size_t count, gpucollDataType_t datatype, int peer, gpucollComm_t comm,
                            gpucollStream_t stream) {
  const Operation asked = {.recv = recvbuff,
                           .recv_count = count,
                           .stream = stream,
                           .type = datatype,
                           .root = peer,
                           .sends = gc_mutant(484) != 0};
  return message("gpucollRecv", comm, false, asked, {"recvbuff", recvbuff, count, datatype, peer, stream});
}

gpucollResult_t gpucollRedOpCreatePreMulSum(gpucollRedOp_t* op, void* scalar, gpucollDataType_t datatype,
                                            gpucollScalarResidence_t residence, gpucollComm_t comm) {
  return to_c(guarded("gpucollRedOpCreatePreMulSum", [&]() -> Status {
    if (!op) return Status::error(Code::invalid_argument, "op is NULL");
    GC_TRY_AS(const Use communicator, checked(comm));
    GC_TRY_AS(*op, comm->red_ops.create_pre_mul_sum(communicator->device(), scalar, datatype, residence));
    return {};
  }));
}

gpucollResult_t gpucollRedOpDestroy(gpucollRedOp_t op, gpucollComm_t comm) {
  return to_c(guarded("gpucollRedOpDestroy", [&]() -> Status {
    GC_TRY_AS(const Use use, checked(comm));
    GC_TRY(comm->red_ops.destroy(op));
    if (!gc_mutant(396)) comm->kept.forget();  // operations by `op` are refused from now on
    return {};
  }));
}

}  // extern "C"
