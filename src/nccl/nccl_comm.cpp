// NCCL's ABI: communicators, and memory that they know.
#include <cstring>

#include "abi/nccl.h"
#include "nccl/config.h"
#include "nccl/mapping.h"

using namespace gpucoll::nccl;

namespace {

gpucollUniqueId to_gpucoll(const ncclUniqueId& id) {
  gpucollUniqueId mine;
  static_assert(sizeof mine == sizeof id);
  std::memcpy(&mine, &id, sizeof mine);
  return mine;
}

// A program for NCCL may wait for another rank on purpose, as long as it likes.
struct WaitsWithoutEnd {
  WaitsWithoutEnd() { gpucoll_wait_without_end(1); }
  ~WaitsWithoutEnd() { gpucoll_wait_without_end(0); }
};

ncclResult_t init(const char* function, ncclComm_t* comm, int n_ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  const WaitsWithoutEnd chosen;
  return with_config(function, config, [&](const gpucollConfig_t* mine) {
    return gpucollCommInitRankConfig(gpucoll::nccl::to_gpucoll(comm), n_ranks, to_gpucoll(id), rank, mine);
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return to_nccl(gpucollGetUniqueId(reinterpret_cast<gpucollUniqueId*>(id)));
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int n_ranks, ncclUniqueId id, int rank) {
  return init("ncclCommInitRank", comm, n_ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return init("ncclCommInitRankConfig", comm, n_ranks, id, rank, config);
}

// One meeting point serves all ranks; the others are left to themselves.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int n_ranks, int rank, int n_ids, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  constexpr const char* kName = "ncclCommInitRankScalable";
  if (n_ids < 1 || !ids) {
    to_nccl(gpucollCommInitRank(to_gpucoll(comm), 0, {}, rank));  // which makes an open group fail
    return refuse(ncclInvalidArgument, kName, "there is no unique id");
  }
  return init(kName, comm, n_ranks, ids[0], rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int n_devices, const int* devices) {
  const WaitsWithoutEnd chosen;
  return to_nccl(gpucollCommInitAll(to_gpucoll(comms), n_devices, devices));
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  const auto split = [&](const gpucollConfig_t* mine) {
    return gpucollCommSplitConfig(to_gpucoll(comm), color, key, to_gpucoll(newcomm), mine);
  };
  return with_config("ncclCommSplit", config, split, 0);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int n_excluded, ncclComm_t* newcomm, ncclConfig_t* config,
                            int flags) {
  static_assert(NCCL_SHRINK_DEFAULT == GPUCOLL_SHRINK_DEFAULT && NCCL_SHRINK_ABORT == GPUCOLL_SHRINK_ABORT);
  const auto shrink = [&](const gpucollConfig_t* mine) {
    return gpucollCommShrink(to_gpucoll(comm), excluded, n_excluded, to_gpucoll(newcomm), mine, flags);
  };
  return with_config("ncclCommShrink", config, shrink, 0);
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  if (flags != 0) return refuse(ncclInvalidArgument, "ncclCommRevoke", "there are no flags: they must be 0");
  return to_nccl(gpucollCommRevoke(to_gpucoll(comm)));
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return comm ? to_nccl(gpucollCommFinalize(to_gpucoll(comm))) : ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return to_nccl(gpucollCommDestroy(to_gpucoll(comm))); }
ncclResult_t ncclCommAbort(ncclComm_t comm) { return to_nccl(gpucollCommAbort(to_gpucoll(comm))); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* async_error) {
  gpucollResult_t error = gpucollSuccess;
  const ncclResult_t result = to_nccl(gpucollCommGetAsyncError(to_gpucoll(comm), async_error ? &error : nullptr));
  if (result == ncclSuccess) *async_error = to_nccl(error);
  return result;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) { return to_nccl(gpucollCommCount(to_gpucoll(comm), count)); }

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return to_nccl(gpucollCommCuDevice(to_gpucoll(comm), device));
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return to_nccl(gpucollCommUserRank(to_gpucoll(comm), rank));
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* buff, size_t size, void** handle) {
  return to_nccl(gpucollCommRegister(to_gpucoll(comm), buff, size, handle));
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return to_nccl(gpucollCommDeregister(to_gpucoll(comm), handle));
}

// A window is a registration: only the device API could do more with it.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* window, int) {
  return to_nccl(gpucollCommRegister(to_gpucoll(comm), buff, size, reinterpret_cast<void**>(window)));
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return to_nccl(gpucollCommDeregister(to_gpucoll(comm), window));
}

GC_SECOND_NAME(ncclGetUniqueId)
GC_SECOND_NAME(ncclCommInitRank)
GC_SECOND_NAME(ncclCommInitRankConfig)
GC_SECOND_NAME(ncclCommInitRankScalable)
GC_SECOND_NAME(ncclCommInitAll)
GC_SECOND_NAME(ncclCommSplit)
GC_SECOND_NAME(ncclCommShrink)
GC_SECOND_NAME(ncclCommRevoke)
GC_SECOND_NAME(ncclCommFinalize)
GC_SECOND_NAME(ncclCommDestroy)
GC_SECOND_NAME(ncclCommAbort)
GC_SECOND_NAME(ncclCommGetAsyncError)
GC_SECOND_NAME(ncclCommCount)
GC_SECOND_NAME(ncclCommCuDevice)
GC_SECOND_NAME(ncclCommUserRank)
GC_SECOND_NAME(ncclCommRegister)
GC_SECOND_NAME(ncclCommDeregister)
GC_SECOND_NAME(ncclCommWindowRegister)
GC_SECOND_NAME(ncclCommWindowDeregister)

}  // extern "C"
