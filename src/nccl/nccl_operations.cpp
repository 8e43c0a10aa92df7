// NCCL's ABI: collectives, messages, and operations made for them.
#include "nccl/mapping.h"

using namespace gpucoll::nccl;

extern "C" {

ncclResult_t ncclAllReduce(GC_NCCL_BUFFERS, ncclRedOp_t op, GC_NCCL_ON) {
  return to_nccl(
      gpucollAllReduce(sendbuff, recvbuff, count, to_gpucoll(datatype), to_gpucoll(op), to_gpucoll(comm), stream));
}

ncclResult_t ncclReduce(GC_NCCL_BUFFERS, ncclRedOp_t op, int root, GC_NCCL_ON) {
  return to_nccl(
      gpucollReduce(sendbuff, recvbuff, count, to_gpucoll(datatype), to_gpucoll(op), root, to_gpucoll(comm), stream));
}

ncclResult_t ncclReduceScatter(GC_NCCL_BUFFERS, ncclRedOp_t op, GC_NCCL_ON) {
  return to_nccl(
      gpucollReduceScatter(sendbuff, recvbuff, count, to_gpucoll(datatype), to_gpucoll(op), to_gpucoll(comm), stream));
}

ncclResult_t ncclBroadcast(GC_NCCL_BUFFERS, int root, GC_NCCL_ON) {
  return to_nccl(gpucollBroadcast(sendbuff, recvbuff, count, to_gpucoll(datatype), root, to_gpucoll(comm), stream));
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, GC_NCCL_ON) {
  return to_nccl(gpucollBcast(buff, count, to_gpucoll(datatype), root, to_gpucoll(comm), stream));
}

ncclResult_t ncclAllGather(GC_NCCL_BUFFERS, GC_NCCL_ON) {
  return to_nccl(gpucollAllGather(sendbuff, recvbuff, count, to_gpucoll(datatype), to_gpucoll(comm), stream));
}

ncclResult_t ncclAlltoAll(GC_NCCL_BUFFERS, GC_NCCL_ON) {
  return to_nccl(gpucollAlltoAll(sendbuff, recvbuff, count, to_gpucoll(datatype), to_gpucoll(comm), stream));
}

ncclResult_t ncclGather(GC_NCCL_BUFFERS, int root, GC_NCCL_ON) {
  return to_nccl(gpucollGather(sendbuff, recvbuff, count, to_gpucoll(datatype), root, to_gpucoll(comm), stream));
}

ncclResult_t ncclScatter(GC_NCCL_BUFFERS, int root, GC_NCCL_ON) {
  return to_nccl(gpucollScatter(sendbuff, recvbuff, count, to_gpucoll(datatype), root, to_gpucoll(comm), stream));
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, GC_NCCL_ON) {
  return to_nccl(gpucollSend(sendbuff, count, to_gpucoll(datatype), peer, to_gpucoll(comm), stream));
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, GC_NCCL_ON) {
  return to_nccl(gpucollRecv(recvbuff, count, to_gpucoll(datatype), peer, to_gpucoll(comm), stream));
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  static_assert(int{ncclScalarDevice} == int{gpucollScalarDevice} &&
                int{ncclScalarHostImmediate} == int{gpucollScalarHostImmediate});
  return to_nccl(gpucollRedOpCreatePreMulSum(reinterpret_cast<gpucollRedOp_t*>(op), scalar, to_gpucoll(datatype),
                                             static_cast<gpucollScalarResidence_t>(residence), to_gpucoll(comm)));
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return to_nccl(gpucollRedOpDestroy(to_gpucoll(op), to_gpucoll(comm)));
}

GC_SECOND_NAME(ncclAllReduce)
GC_SECOND_NAME(ncclReduce)
GC_SECOND_NAME(ncclReduceScatter)
GC_SECOND_NAME(ncclBroadcast)
GC_SECOND_NAME(ncclBcast)
GC_SECOND_NAME(ncclAllGather)
GC_SECOND_NAME(ncclAlltoAll)
GC_SECOND_NAME(ncclGather)
GC_SECOND_NAME(ncclScatter)
GC_SECOND_NAME(ncclSend)
GC_SECOND_NAME(ncclRecv)
GC_SECOND_NAME(ncclRedOpCreatePreMulSum)
GC_SECOND_NAME(ncclRedOpDestroy)

}  // extern "C"
