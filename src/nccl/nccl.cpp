// NCCL's ABI: version, errors, groups, memory; and the second names of all functions.
#include "nccl/mapping.h"

using namespace gpucoll::nccl;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return refuse(ncclInvalidArgument, "ncclGetVersion", "version is NULL");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited, did not answer in time, or there was a network error";
    case ncclInProgress: return "operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  gpucollResult_t failed = gpucollSuccess;
  const bool has_failed = comm != nullptr && gpucollCommGetAsyncError(to_gpucoll(comm), &failed) == gpucollSuccess &&
                          failed != gpucollSuccess;
  return *refusal() && !has_failed ? refusal() : gpucollGetLastError(to_gpucoll(comm));
}

// gpucoll reads its parameters once (docs/PARAMETERS.md).
void ncclResetDebugInit(void) {}
__attribute__((visibility("default"))) void ncclResetDebugInitInternal(void) {}

ncclResult_t ncclMemAlloc(void** ptr, size_t size) { return to_nccl(gpucollMemAlloc(ptr, size)); }
ncclResult_t ncclMemFree(void* ptr) { return to_nccl(gpucollMemFree(ptr)); }

ncclResult_t ncclGroupStart(void) { return to_nccl(gpucollGroupStart()); }
ncclResult_t ncclGroupEnd(void) { return to_nccl(gpucollGroupEnd()); }

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  const bool wrong = info && (info->magic != NCCL_SIM_INFO_MAGIC || info->size < sizeof *info);
  float unused;  // the group ends whatever info is
  const ncclResult_t ended = to_nccl(gpucollGroupSimulateEnd(info && !wrong ? &info->estimatedTime : &unused));
  if (!wrong) return ended;
  return refuse(ncclInvalidArgument, "ncclGroupSimulateEnd", "info was not set up by NCCL_SIM_INFO_INITIALIZER");
}

GC_SECOND_NAME(ncclGetVersion)
GC_SECOND_NAME(ncclGetErrorString)
GC_SECOND_NAME(ncclGetLastError)
GC_SECOND_NAME(ncclResetDebugInit)
GC_SECOND_NAME(ncclMemAlloc)
GC_SECOND_NAME(ncclMemFree)
GC_SECOND_NAME(ncclGroupStart)
GC_SECOND_NAME(ncclGroupEnd)
GC_SECOND_NAME(ncclGroupSimulateEnd)

}  // extern "C"
