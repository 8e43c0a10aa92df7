#include "nccl/mapping.h"

#include <cstdio>

namespace gpucoll::nccl {
namespace {

// By NCCL's number.
constexpr gpucollDataType_t kTypes[] = {gpucollInt8,    gpucollUint8,    gpucollInt32,      gpucollUint32,
                                        gpucollInt64,   gpucollUint64,   gpucollFloat16,    gpucollFloat32,
                                        gpucollFloat64, gpucollBfloat16, gpucollFloat8e4m3, gpucollFloat8e5m2};
static_assert(sizeof kTypes / sizeof *kTypes == ncclNumTypes);
constexpr gpucollRedOp_t kOps[] = {gpucollSum, gpucollProd, gpucollMax, gpucollMin, gpucollAvg};
static_assert(sizeof kOps / sizeof *kOps == ncclNumOps);

// By the C API's number.
constexpr ncclResult_t kResults[] = {ncclSuccess,
                                     ncclUnhandledCudaError,
                                     ncclSystemError,
                                     ncclInternalError,
                                     ncclInvalidArgument,
                                     ncclInvalidUsage,
                                     ncclRemoteError,
                                     ncclInProgress,
                                     ncclRemoteError /* gpucollTimeout */,
                                     ncclInternalError /* gpucollAborted: what NCCL's calls return then */,
                                     ncclUnhandledCudaError /* gpucollOutOfMemory */,
                                     ncclInvalidUsage /* gpucollUnsupported */};
static_assert(sizeof kResults / sizeof *kResults == gpucollUnsupported + 1);

thread_local char the_refusal[256];

}  // namespace

gpucollDataType_t to_gpucoll(ncclDataType_t type) {
  return static_cast<unsigned>(type) < ncclNumTypes ? kTypes[type] : gpucollNumTypes;
}

// Those that programs make have the C API's numbers, which are larger than all of NCCL's own.
gpucollRedOp_t to_gpucoll(ncclRedOp_t op) {
  static_assert(int{ncclNumOps} <= int{gpucollNumOps});
  const auto number = static_cast<int>(op);
  if (number >= 0 && number < ncclNumOps) return kOps[number];
  return static_cast<gpucollRedOp_t>(number >= gpucollNumOps ? number : -1);
}

ncclResult_t to_nccl(gpucollResult_t result) {
  if (result == gpucollSuccess) return ncclSuccess;
  the_refusal[0] = '\0';
  return static_cast<size_t>(result) < sizeof kResults / sizeof *kResults ? kResults[result] : ncclInternalError;
}

ncclResult_t refuse(ncclResult_t result, const char* function, const char* why) {
  std::snprintf(the_refusal, sizeof the_refusal, "%s: %s", function, why);
  return result;
}

const char* refusal() { return the_refusal; }

}  // namespace gpucoll::nccl
