/* The binary interface of NCCL 2.28, as far as its host side goes: what a program compiled with NCCL's header expects
 * of libnccl.so.2. Names, numbers and layouts are NCCL's, since they are the interface; NCCL's documentation says what
 * each function does, docs/nccl.md what differs here. It is included here and in the tests only, never together with
 * NCCL's header.
 */
#ifndef GPUCOLL_NCCL_ABI_H
#define GPUCOLL_NCCL_ABI_H

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The answer of ncclGetVersion: the newest version whose interface this is. */
#define NCCL_VERSION_CODE 22809

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct CUstream_st *cudaStream_t;

typedef struct {
  char internal[128];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 } ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_SHRINK_DEFAULT 0
#define NCCL_SHRINK_ABORT 1

/* It has grown with NCCL's versions: `size` says how much of it a program knows. */
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char *netName;
  int splitShare;
  int trafficClass;
  const char *commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                               \
  {                                                                                                           \
    sizeof(ncclConfig_t), NCCL_CONFIG_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,           \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,           \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT            \
  }

#define NCCL_SIM_INFO_MAGIC 0x74685283u
typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;
#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, -1.0f }

/* A type of the device API. */
typedef struct {
  int nRanks, rank, stride;
} ncclTeam_t;

/* Declares a function, and the second name that NCCL gives each for tools that replace the first. */
#define GC_NCCL(result, name, ...) __attribute__((visibility("default"))) result name(__VA_ARGS__), p##name(__VA_ARGS__)
typedef const char *gc_nccl_text;
#define GC_NCCL_BUFFERS const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype
#define GC_NCCL_ON ncclComm_t comm, cudaStream_t stream

GC_NCCL(ncclResult_t, ncclGetVersion, int *version);
GC_NCCL(gc_nccl_text, ncclGetErrorString, ncclResult_t result);
GC_NCCL(gc_nccl_text, ncclGetLastError, ncclComm_t comm);
GC_NCCL(void, ncclResetDebugInit, void);
GC_NCCL(ncclResult_t, ncclMemAlloc, void **ptr, size_t size);
GC_NCCL(ncclResult_t, ncclMemFree, void *ptr);

GC_NCCL(ncclResult_t, ncclGetUniqueId, ncclUniqueId *id);
GC_NCCL(ncclResult_t, ncclCommInitRank, ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank);
GC_NCCL(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank,
        ncclConfig_t *config);
GC_NCCL(ncclResult_t, ncclCommInitRankScalable, ncclComm_t *comm, int n_ranks, int rank, int n_ids, ncclUniqueId *ids,
        ncclConfig_t *config);
GC_NCCL(ncclResult_t, ncclCommInitAll, ncclComm_t *comms, int n_devices, const int *devices);
GC_NCCL(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
GC_NCCL(ncclResult_t, ncclCommShrink, ncclComm_t comm, int *excluded, int n_excluded, ncclComm_t *newcomm,
        ncclConfig_t *config, int flags);
GC_NCCL(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags);
GC_NCCL(ncclResult_t, ncclCommFinalize, ncclComm_t comm);
GC_NCCL(ncclResult_t, ncclCommDestroy, ncclComm_t comm);
GC_NCCL(ncclResult_t, ncclCommAbort, ncclComm_t comm);
GC_NCCL(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *async_error);
GC_NCCL(ncclResult_t, ncclCommCount, ncclComm_t comm, int *count);
GC_NCCL(ncclResult_t, ncclCommCuDevice, ncclComm_t comm, int *device);
GC_NCCL(ncclResult_t, ncclCommUserRank, ncclComm_t comm, int *rank);

GC_NCCL(ncclResult_t, ncclCommRegister, ncclComm_t comm, void *buff, size_t size, void **handle);
GC_NCCL(ncclResult_t, ncclCommDeregister, ncclComm_t comm, void *handle);
GC_NCCL(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void *buff, size_t size, ncclWindow_t *window,
        int flags);
GC_NCCL(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t window);

GC_NCCL(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
        ncclScalarResidence_t residence, ncclComm_t comm);
GC_NCCL(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm);

GC_NCCL(ncclResult_t, ncclAllReduce, GC_NCCL_BUFFERS, ncclRedOp_t op, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclReduce, GC_NCCL_BUFFERS, ncclRedOp_t op, int root, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclReduceScatter, GC_NCCL_BUFFERS, ncclRedOp_t op, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclBroadcast, GC_NCCL_BUFFERS, int root, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclBcast, void *buff, size_t count, ncclDataType_t datatype, int root, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclAllGather, GC_NCCL_BUFFERS, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclAlltoAll, GC_NCCL_BUFFERS, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclGather, GC_NCCL_BUFFERS, int root, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclScatter, GC_NCCL_BUFFERS, int root, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclSend, const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, GC_NCCL_ON);
GC_NCCL(ncclResult_t, ncclRecv, void *recvbuff, size_t count, ncclDataType_t datatype, int peer, GC_NCCL_ON);

GC_NCCL(ncclResult_t, ncclGroupStart, void);
GC_NCCL(ncclResult_t, ncclGroupEnd, void);
GC_NCCL(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t *info);

/* The host side of the device API. */
GC_NCCL(ncclResult_t, ncclDevCommCreate, ncclComm_t comm, const void *requirements, void *device_comm);
GC_NCCL(ncclResult_t, ncclDevCommDestroy, ncclComm_t comm, const void *device_comm);
GC_NCCL(ncclTeam_t, ncclTeamWorld, ncclComm_t comm);
GC_NCCL(ncclTeam_t, ncclTeamLsa, ncclComm_t comm);
GC_NCCL(ncclTeam_t, ncclTeamRail, ncclComm_t comm);
GC_NCCL(int, ncclTeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank);
GC_NCCL(int, ncclTeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank);
GC_NCCL(int, ncclLLA2ACalcSlots, int elements, int element_bytes);
GC_NCCL(ncclResult_t, ncclLLA2ACreateRequirement, int blocks, int slots, void *handle, void *requirement);
GC_NCCL(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam_t team, int barriers, void *handle, void *requirement);
GC_NCCL(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t comm, ncclTeam_t team, int barriers, void *handle,
        void *requirement);

#ifdef __cplusplus
}
#endif
#endif
