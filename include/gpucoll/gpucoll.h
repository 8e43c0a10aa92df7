/* gpucoll: collectives on GPU memory. C API.
 *
 * Shaped like NCCL's: communicators made from a unique id, stream-ordered collectives, groups. Every function
 * returns gpucollSuccess or an error; gpucollGetLastError() gives the sentence that belongs to it.
 *
 * Runs on GPUs, or on the emulated device of the CPU (GPUCOLL_DEVICE=emu, and the default where there is no GPU);
 * the memory and stream functions here work on both. On GPUs a gpucollStream_t is a cudaStream_t and memory from
 * cudaMalloc is as good as memory from gpucollMalloc.
 *
 * Thread safety: different communicators may be used by different threads at once; one communicator, or those that
 * share (splitShare), by one thread at a time. gpucollCommAbort and gpucollCommGetAsyncError may be called from any
 * thread at any time.
 *
 * A process that has used gpucoll may fork, and its child may end by exit() or exec. The child itself must not use
 * gpucoll before it execs: every function returns gpucollInvalidUsage there and changes nothing, so that destructors of
 * the program, which run in the child as well, do no harm.
 */
#ifndef GPUCOLL_GPUCOLL_H
#define GPUCOLL_GPUCOLL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUCOLL_API __attribute__((visibility("default")))

#define GPUCOLL_MAJOR 0
#define GPUCOLL_MINOR 1
#define GPUCOLL_PATCH 0
#define GPUCOLL_VERSION_CODE (GPUCOLL_MAJOR * 10000 + GPUCOLL_MINOR * 100 + GPUCOLL_PATCH)

#define GPUCOLL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[GPUCOLL_UNIQUE_ID_BYTES];
} gpucollUniqueId;
typedef struct gpucollComm *gpucollComm_t;
/* A cudaStream_t on GPUs; NULL is the default stream. */
typedef void *gpucollStream_t;

typedef enum {
  gpucollSuccess = 0,
  gpucollUnhandledDeviceError = 1, /* a call to the GPU driver or runtime failed */
  gpucollSystemError = 2,          /* a call to the operating system failed */
  gpucollInternalError = 3,        /* gpucoll broke one of its own rules */
  gpucollInvalidArgument = 4,      /* an argument has no meaning */
  gpucollInvalidUsage = 5,         /* the calls of the ranks do not fit together */
  gpucollRemoteError = 6,          /* another rank died, aborted or cannot be reached */
  gpucollInProgress = 7,           /* the operation has not ended yet */
  gpucollTimeout = 8,              /* the parameter timeout ran out */
  gpucollAborted = 9,              /* the communicator was aborted */
  gpucollOutOfMemory = 10,         /* no memory of the kind needed is left */
  gpucollUnsupported = 11          /* this build, device or link cannot do it */
} gpucollResult_t;

typedef enum {
  gpucollInt8 = 0,
  gpucollChar = 0,
  gpucollUint8 = 1,
  gpucollInt32 = 2,
  gpucollInt = 2,
  gpucollUint32 = 3,
  gpucollInt64 = 4,
  gpucollUint64 = 5,
  gpucollFloat16 = 6,
  gpucollHalf = 6,
  gpucollFloat32 = 7,
  gpucollFloat = 7,
  gpucollFloat64 = 8,
  gpucollDouble = 8,
  gpucollBfloat16 = 9,
  gpucollInt16 = 10,
  gpucollUint16 = 11,
  gpucollComplex64 = 12,  /* two float32: real, imaginary */
  gpucollComplex128 = 13, /* two float64 */
  gpucollFloatInt = 14,   /* struct { float value; int index; } and so on: for minloc and maxloc */
  gpucollDoubleInt = 15,
  gpucollLongInt = 16,
  gpucollIntInt = 17,
  gpucollShortInt = 18,
  gpucollFloatFloat = 19,   /* value and index both float (Fortran 2REAL) */
  gpucollDoubleDouble = 20, /* both double (Fortran 2DOUBLE PRECISION) */
  gpucollFloat8e4m3 = 21,   /* 8-bit floats, the first without infinities; what is too large becomes the largest */
  gpucollFloat8e5m2 = 22,
  gpucollNumTypes = 23
} gpucollDataType_t;

typedef enum {
  gpucollSum = 0,
  gpucollProd = 1,
  gpucollMax = 2,
  gpucollMin = 3,
  gpucollBand = 4, /* bitwise and, or, exclusive or: integers */
  gpucollBor = 5,
  gpucollBxor = 6,
  gpucollLand = 7, /* logical and, or, exclusive or, giving 0 or 1: integers */
  gpucollLor = 8,
  gpucollLxor = 9,
  gpucollMaxloc = 10, /* pairs: the largest value and the smallest index that has it */
  gpucollMinloc = 11,
  gpucollAvg = 12, /* the sum divided by the number of ranks; integers are rounded towards zero; floats of 16 and 8 bits
                      overflow only where the average does */
  gpucollNumOps = 13,
  gpucollMaxRedOp = 0x7fffffff /* others are made by gpucollRedOpCreatePreMulSum */
} gpucollRedOp_t;

/* The version of the library in use, as GPUCOLL_VERSION_CODE. */
GPUCOLL_API gpucollResult_t gpucollGetVersion(int *version);
/* The name and meaning of an error code; never NULL. */
GPUCOLL_API const char *gpucollGetErrorString(gpucollResult_t result);
/* The sentence of the last error of this thread, or of `comm` where comm is not NULL and has failed on its own;
 * "" where there was none. Valid until the next call of this thread. */
GPUCOLL_API const char *gpucollGetLastError(gpucollComm_t comm);

/* Makes an id that gpucollCommInitRank takes on every rank: give it to them by any means. The calling process
 * serves as meeting point and must take part as one of the ranks or outlive the initialisation. An id makes one
 * communicator, or none where a rank fails. One that nobody uses ends after a day, or when 1,000 newer ones have been
 * made. */
GPUCOLL_API gpucollResult_t gpucollGetUniqueId(gpucollUniqueId *id);
/* Collective over n_ranks callers with the same id, each with its own rank in 0..n_ranks-1. The communicator works
 * on the device that the calling thread has chosen (cudaSetDevice). Waits for the others at most the parameter
 * timeout; where one of them fails, all return its error at once. On failure *comm is NULL. In a group *comm is set by
 * the call, and is a communicator once gpucollGroupEnd has succeeded; where that fails, *comm can only be destroyed or
 * aborted. */
GPUCOLL_API gpucollResult_t gpucollCommInitRank(gpucollComm_t *comm, int n_ranks, gpucollUniqueId id, int rank);
/* The options of a communicator. Initialise them with GPUCOLL_CONFIG_INITIALIZER, then set those that are to be
 * different. */
typedef struct {
  size_t size; /* these three by the initialiser only */
  unsigned magic;
  unsigned version;
  /* 1: communicators that gpucollCommSplit makes of this one with the same ranks in the same order, and of those, share
   * its connections: each costs next to no memory. In return all of them are used as if they were one communicator: by
   * one thread at a time, and with their calls in the same order on all ranks, where a group counts as one call, and is
   * made on all ranks if it holds collectives. Their operations follow each other on the device, whatever their
   * streams; destroying or finalising one waits for those of all; and when one fails or is aborted, so do all. Messages
   * of each match those of the same one only. 0: every communicator has connections of its own. Undefined: the
   * parameter split_share. Takes effect where all ranks ask for it. */
  int splitShare;
  /* The number of thread blocks (NCCL calls them CTAs) that a kernel of this communicator has at most, such as 4 where
   * it is to leave the rest of the device to computation, and the number that large operations may have at least, where
   * device and links allow it: they raise or lower the parameter channels. From 1 on, minCTAs not above maxCTAs. Of
   * several ranks' limits the narrowest maxCTAs and the largest minCTAs count for all; maxCTAs, where they contradict
   * each other. Copy engines use no blocks. */
  int minCTAs, maxCTAs;
  /* 0: no call on this communicator waits for other ranks. What must wait for them goes on in a thread in the
   * background, which ends with it, and the call returns gpucollInProgress: the making of the communicator, splitting,
   * shrinking and finalising it, and operations (or the end of their group) that need connections which are not there
   * yet. Until gpucollCommGetAsyncError gives something else than gpucollInProgress for the communicator (and for the
   * one that a split or shrink makes of it), buffers, streams and graphs of these operations must be left alone, and
   * every other function but gpucollCommAbort, gpucollCommDestroy, gpucollCommRevoke and gpucollGetLastError refuses it
   * with gpucollInvalidUsage. Then it gives gpucollSuccess or the error. What needs not wait is done when the call
   * returns, with gpucollSuccess; it may wait for room on the device. A group with a communicator that blocks blocks as
   * a whole. splitShare has no effect. 1 or undefined: calls return when they have done their work on the host. */
  int blocking;
  /* A name for messages and traces, a string that the call copies; NULL: none. Of communicators that share
   * (splitShare), messages tell the name of the first one. */
  const char *commName;
} gpucollConfig_t;
#define GPUCOLL_CONFIG_UNDEF_INT (-2147483647 - 1)
#define GPUCOLL_CONFIG_INITIALIZER                                                                                  \
  {                                                                                                                 \
    sizeof(gpucollConfig_t), 0x67636366u, GPUCOLL_VERSION_CODE, GPUCOLL_CONFIG_UNDEF_INT, GPUCOLL_CONFIG_UNDEF_INT, \
        GPUCOLL_CONFIG_UNDEF_INT, GPUCOLL_CONFIG_UNDEF_INT, NULL                                                    \
  }
/* Makes a communicator with a configuration, which is read before the call returns; NULL: nothing is set. */
GPUCOLL_API gpucollResult_t gpucollCommInitRankConfig(gpucollComm_t *comm, int n_ranks, gpucollUniqueId id, int rank,
                                                      const gpucollConfig_t *config);
/* Waits for the communicator's outstanding operations, and for what goes on for it in the background; one that is still
 * being made there is aborted. Its memory is freed once the peers are done with it. */
GPUCOLL_API gpucollResult_t gpucollCommDestroy(gpucollComm_t comm);
/* Ends outstanding operations (their results are undefined), what goes on in the background, and the end of a group
 * that makes the communicator, and frees the communicator, without the peers' help; they get gpucollRemoteError. Where
 * gpucollCommSplit is still making it, the communicator that is split fails, too. Once a communicator has failed, peers
 * may store into buffers of its operations until this call or gpucollCommDestroy has returned: free none before.
 * Operations behind other work of the program that does not end may run later still, and end at once: their buffers
 * must be there until the stream's work has ended. */
GPUCOLL_API gpucollResult_t gpucollCommAbort(gpucollComm_t comm);
/* gpucollSuccess while all is well, else the error that has latched: a dead peer, an abort, a timeout.
 * gpucollInProgress while something goes on in the background for a communicator that does not block; then, where it
 * could not be made, the error of that. */
GPUCOLL_API gpucollResult_t gpucollCommGetAsyncError(gpucollComm_t comm, gpucollResult_t *async_error);
/* The number of ranks of comm, and this one's. */
GPUCOLL_API gpucollResult_t gpucollCommCount(gpucollComm_t comm, int *count);
GPUCOLL_API gpucollResult_t gpucollCommUserRank(gpucollComm_t comm, int *rank);

/* The device that the communicator works on, as gpucollSetDevice takes it. */
GPUCOLL_API gpucollResult_t gpucollCommCuDevice(gpucollComm_t comm, int *device);
/* Makes the communicators of n_devices ranks in this one process: comms[i] is rank i and works on devices[i], or on
 * device i where devices is NULL. */
GPUCOLL_API gpucollResult_t gpucollCommInitAll(gpucollComm_t *comms, int n_devices, const int *devices);
/* Collective over comm: ranks that pass the same color >= 0 make a new communicator, ordered by key and, where keys
 * are equal, by rank in comm. GPUCOLL_SPLIT_NOCOLOR gives NULL. The new one has comm's configuration (and name). May be
 * called in a group; not in one with other operations of comm. */
#define GPUCOLL_SPLIT_NOCOLOR (-1)
GPUCOLL_API gpucollResult_t gpucollCommSplit(gpucollComm_t comm, int color, int key, gpucollComm_t *newcomm);
/* Splits as gpucollCommSplit does. The new communicator has what config sets, and comm's values where config leaves a
 * field undefined. */
GPUCOLL_API gpucollResult_t gpucollCommSplitConfig(gpucollComm_t comm, int color, int key, gpucollComm_t *newcomm,
                                                   const gpucollConfig_t *config);
/* Makes a communicator of all ranks of comm but those listed, in the same order. Collective over the remaining ranks;
 * the others do not call it, and may be dead. GPUCOLL_SHRINK_ABORT: operations of comm under way end first, with
 * undefined results, and comm can only be shrunk again, destroyed or aborted from then on; so it may have failed
 * before. GPUCOLL_SHRINK_DEFAULT: comm is as good as before. The new one's configuration is as gpucollCommSplitConfig
 * says. */
#define GPUCOLL_SHRINK_DEFAULT 0
#define GPUCOLL_SHRINK_ABORT 1
GPUCOLL_API gpucollResult_t gpucollCommShrink(gpucollComm_t comm, const int *excluded, int n_excluded,
                                              gpucollComm_t *newcomm, const gpucollConfig_t *config, int flags);
/* Ends operations under way, with undefined results, on all ranks; others fail with gpucollInvalidUsage. Then comm can
 * only be shrunk, destroyed or aborted, and gpucollCommGetAsyncError tells of no error of it here, whatever happened
 * before. May be called from any thread at any time. */
GPUCOLL_API gpucollResult_t gpucollCommRevoke(gpucollComm_t comm);
/* Waits for the communicator's outstanding operations; afterwards it may only be destroyed. In a group with others of
 * this process, all of them are finalised together. */
GPUCOLL_API gpucollResult_t gpucollCommFinalize(gpucollComm_t comm);

/* Tells comm of `size` bytes of device memory from buff on, of the communicator's device, in which operations will take
 * place: the allocation around it is made known to the other ranks now instead of at the first operation that wants to
 * reach it, and stays known until it is deregistered. Nothing has to be registered, registering is no collective call,
 * and memory may be registered several times; memory that others cannot open is accepted without effect. So is, as to
 * direct stores, what goes beyond 64 allocations of a communicator at a time, of which the first one is told of in the
 * log; deregister others before. Takes effect
 * on large messages (parameter copy_engine_bytes), and where results of other operations are received, if they are not
 * small (parameter direct_bytes). *handle is for gpucollCommDeregister, which must not be called
 * after gpucollCommDestroy (that forgets what is left), nor while an operation on the memory is under way; memory may
 * be freed first. Errors: gpucollInvalidArgument for size 0, host memory, memory of another device, more than the
 * allocation holds, and handles that comm has not given. */
GPUCOLL_API gpucollResult_t gpucollCommRegister(gpucollComm_t comm, void *buff, size_t size, void **handle);
GPUCOLL_API gpucollResult_t gpucollCommDeregister(gpucollComm_t comm, void *handle);
/* Device memory of the current device, `size` bytes, that other ranks can open: what is registered best, and what any
 * operation takes. *ptr is NULL for 0 bytes. Freed by gpucollMemFree (or gpucollFree), on any device; NULL is no
 * error. Errors: gpucollOutOfMemory; gpucollInvalidArgument for what was not allocated so. */
GPUCOLL_API gpucollResult_t gpucollMemAlloc(void **ptr, size_t size);
GPUCOLL_API gpucollResult_t gpucollMemFree(void *ptr);

/* Calls between start and the outermost end are put together and started at that end, in as few kernel launches as
 * possible; errors surface there. Groups may contain operations of several communicators, on several devices. Inside
 * a group, sends and receives of one communicator progress together, in whatever order they were called; between two
 * ranks, the i-th send matches the i-th receive. Operations of one group may run side by side: one that reads what
 * another one writes belongs in a later group. */
GPUCOLL_API gpucollResult_t gpucollGroupStart(void);
GPUCOLL_API gpucollResult_t gpucollGroupEnd(void);
/* Ends the group without carrying out anything, and says how long its collectives would take by the model that chooses
 * algorithms, in microseconds: those of a communicator one after another, several communicators side by side. Sends and
 * receives count nothing. 0 at an end that is not the outermost. Errors: those of the group's calls, and
 * gpucollInvalidUsage where it makes, splits or finalises communicators, which are not made then. */
GPUCOLL_API gpucollResult_t gpucollGroupSimulateEnd(float *microseconds);

/* What follows is stream-ordered: the calls return before the operations are done. Buffers must be device memory
 * (gpucollMalloc, gpucollMemAlloc, cudaMalloc) of the communicator's device, aligned to their type. All ranks make the
 * same collective calls in the same order with the same count, datatype, op and root. Counts are in elements. In place
 * is what NCCL calls so; apart from that buffers must not overlap. */

/* recvbuff[i] on every rank = op over all ranks of sendbuff[i], i < count; the same bits on every rank.
 * In place: sendbuff == recvbuff. */
GPUCOLL_API gpucollResult_t gpucollAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                                             gpucollDataType_t datatype, gpucollRedOp_t op, gpucollComm_t comm,
                                             gpucollStream_t stream);
/* As gpucollAllReduce, but only rank root gets the result; recvbuff of others is not touched and may be NULL. */
GPUCOLL_API gpucollResult_t gpucollReduce(const void *sendbuff, void *recvbuff, size_t count,
                                          gpucollDataType_t datatype, gpucollRedOp_t op, int root, gpucollComm_t comm,
                                          gpucollStream_t stream);
/* recvbuff of every rank = sendbuff of rank root; sendbuff of others is not touched and may be NULL.
 * In place: sendbuff == recvbuff. gpucollBcast is gpucollBroadcast in place. */
GPUCOLL_API gpucollResult_t gpucollBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                                             gpucollDataType_t datatype, int root, gpucollComm_t comm,
                                             gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollBcast(void *buff, size_t count, gpucollDataType_t datatype, int root,
                                         gpucollComm_t comm, gpucollStream_t stream);
/* recvbuff[r * sendcount + i] on every rank = sendbuff[i] of rank r, i < sendcount.
 * In place: sendbuff == recvbuff + rank * sendcount. */
GPUCOLL_API gpucollResult_t gpucollAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                                             gpucollDataType_t datatype, gpucollComm_t comm, gpucollStream_t stream);
/* recvbuff[i] on rank r = op over all ranks of sendbuff[r * recvcount + i], i < recvcount.
 * In place: recvbuff == sendbuff + rank * recvcount. */
GPUCOLL_API gpucollResult_t gpucollReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                                 gpucollDataType_t datatype, gpucollRedOp_t op, gpucollComm_t comm,
                                                 gpucollStream_t stream);

/* Sends count elements to rank peer, which must receive as many bytes: a different number is an error of the
 * communicator (gpucollInvalidUsage on one of the two at least, told by gpucollCommGetAsyncError). Sends and receives
 * that wait for each other belong in one group. A rank may send to itself, in a group with the receive. If one of the
 * two calls is captured into a graph, both must be. */
GPUCOLL_API gpucollResult_t gpucollSend(const void *sendbuff, size_t count, gpucollDataType_t datatype, int peer,
                                        gpucollComm_t comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollRecv(void *recvbuff, size_t count, gpucollDataType_t datatype, int peer,
                                        gpucollComm_t comm, gpucollStream_t stream);

/* Put together from sends and receives, in one launch; out of place only, but for gpucollAlltoAll, and for gather and
 * scatter of the root's own part. Arrays of counts and displacements (in elements) have an entry for each rank and are
 * read before the call returns. */
/* recvbuff[s * count + i] on rank r = sendbuff[r * count + i] of rank s. In place (sendbuff == recvbuff), a rank's data
 * are first copied to device memory that the communicator keeps. */
GPUCOLL_API gpucollResult_t gpucollAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                                            gpucollDataType_t datatype, gpucollComm_t comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollAlltoAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                                             void *recvbuff, const size_t recvcounts[], const size_t rdispls[],
                                             gpucollDataType_t datatype, gpucollComm_t comm, gpucollStream_t stream);
/* recvbuff[s * count + i] on rank root = sendbuff[i] of rank s. */
GPUCOLL_API gpucollResult_t gpucollGather(const void *sendbuff, void *recvbuff, size_t count,
                                          gpucollDataType_t datatype, int root, gpucollComm_t comm,
                                          gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollGatherv(const void *sendbuff, size_t sendcount, void *recvbuff,
                                           const size_t recvcounts[], const size_t rdispls[],
                                           gpucollDataType_t datatype, int root, gpucollComm_t comm,
                                           gpucollStream_t stream);
/* recvbuff[i] on rank r = sendbuff[r * count + i] of rank root. */
GPUCOLL_API gpucollResult_t gpucollScatter(const void *sendbuff, void *recvbuff, size_t count,
                                           gpucollDataType_t datatype, int root, gpucollComm_t comm,
                                           gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollScatterv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                                            void *recvbuff, size_t recvcount, gpucollDataType_t datatype, int root,
                                            gpucollComm_t comm, gpucollStream_t stream);
/* Done on a rank's stream only after every rank's stream has reached it. */
GPUCOLL_API gpucollResult_t gpucollBarrier(gpucollComm_t comm, gpucollStream_t stream);

/* op: each rank's contribution is multiplied by its *scalar (an element of datatype), then summed. residence: whether
 * scalar is host memory, read now, or device memory, read when an operation runs. Only for communicator comm and this
 * datatype, until it is destroyed; operations enqueued before that are not disturbed. */
typedef enum { gpucollScalarDevice = 0, gpucollScalarHostImmediate = 1 } gpucollScalarResidence_t;
GPUCOLL_API gpucollResult_t gpucollRedOpCreatePreMulSum(gpucollRedOp_t *op, void *scalar, gpucollDataType_t datatype,
                                                        gpucollScalarResidence_t residence, gpucollComm_t comm);
GPUCOLL_API gpucollResult_t gpucollRedOpDestroy(gpucollRedOp_t op, gpucollComm_t comm);

/* Bytes of one element; 0 for what is no type. */
GPUCOLL_API size_t gpucollTypeSize(gpucollDataType_t datatype);

/* Devices of this process's node: what runs the collectives ("cuda": GPUs, "emu": the emulated device; a static
 * string), how many there are, the one that the calling thread works on from now on (as cudaSetDevice), and the name
 * of one (cut to `bytes`, always terminated). */
GPUCOLL_API gpucollResult_t gpucollDeviceKind(const char **kind);
GPUCOLL_API gpucollResult_t gpucollDeviceCount(int *count);
GPUCOLL_API gpucollResult_t gpucollSetDevice(int index);
GPUCOLL_API gpucollResult_t gpucollDeviceName(int index, char *name, size_t bytes);

/* Streams of the current device. */
GPUCOLL_API gpucollResult_t gpucollStreamCreate(gpucollStream_t *stream);
GPUCOLL_API gpucollResult_t gpucollStreamSynchronize(gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollStreamDestroy(gpucollStream_t stream);
/* Makes everything that is put into `stream` later wait for what is in `other` now. */
GPUCOLL_API gpucollResult_t gpucollStreamWaitStream(gpucollStream_t stream, gpucollStream_t other);

/* Graphs: what is put into `stream` between begin and end is recorded instead of run, together with what is put into
 * streams that were made to wait for it; then it can be launched any number of times, but only while the communicators
 * of its operations live: gpucollGraphLaunch refuses it later, and once one of them has failed. Destroying or aborting
 * a communicator waits for launches of its graphs that are under way. A graph may be destroyed later than they, but
 * until then their connections stay in memory on all ranks. On GPUs these are CUDA graphs (a program may as well use
 * cudaStreamBeginCapture and so on); the emulated device records and replays alike. */
typedef struct gpucollGraph *gpucollGraph_t;
GPUCOLL_API gpucollResult_t gpucollStreamBeginCapture(gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollStreamEndCapture(gpucollStream_t stream, gpucollGraph_t *graph);
GPUCOLL_API gpucollResult_t gpucollGraphLaunch(gpucollGraph_t graph, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollGraphDestroy(gpucollGraph_t graph);

/* Device memory, for programs that run on either device. gpucollMalloc of 0 bytes gives NULL; gpucollFree takes NULL,
 * and memory that operations do not use any more: on GPUs it waits for that, as cudaFree does, on the emulated device
 * it does not. */
GPUCOLL_API gpucollResult_t gpucollMalloc(void **ptr, size_t bytes);
GPUCOLL_API gpucollResult_t gpucollFree(void *ptr);
/* Either side may be host or device memory; the kinds are found out. Done when it returns. */
GPUCOLL_API gpucollResult_t gpucollMemcpy(void *dst, const void *src, size_t bytes);
GPUCOLL_API gpucollResult_t gpucollMemset(void *ptr, int byte, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
