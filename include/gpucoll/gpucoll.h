/* gpucoll: collectives on GPU memory. C API.
 *
 * Shaped like NCCL's: communicators made from a unique id, stream-ordered collectives, groups. Every function
 * returns gpucollSuccess or an error; gpucollGetLastError() gives the sentence that belongs to it.
 *
 * Runs on GPUs, or on the emulated device of the CPU (GPUCOLL_DEVICE=emu, and the default where there is no GPU);
 * the memory and stream functions here work on both. On GPUs a gpucollStream_t is a cudaStream_t and memory from
 * cudaMalloc is as good as memory from gpucollMalloc.
 *
 * Thread safety: different communicators may be used by different threads at once; one communicator by one thread
 * at a time. gpucollCommAbort and gpucollCommGetAsyncError may be called from any thread at any time.
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
  gpucollNumTypes = 21
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
  gpucollNumOps = 12
} gpucollRedOp_t;

/* The version of the library in use, as GPUCOLL_VERSION_CODE. */
GPUCOLL_API gpucollResult_t gpucollGetVersion(int *version);
/* The name and meaning of an error code; never NULL. */
GPUCOLL_API const char *gpucollGetErrorString(gpucollResult_t result);
/* The sentence of the last error of this thread, or of `comm` where comm is not NULL and has failed on its own;
 * "" where there was none. Valid until the next call of this thread. */
GPUCOLL_API const char *gpucollGetLastError(gpucollComm_t comm);

/* Makes an id that gpucollCommInitRank takes on every rank: give it to them by any means. The calling process
 * serves as meeting point and must take part as one of the ranks or outlive the initialisation. */
GPUCOLL_API gpucollResult_t gpucollGetUniqueId(gpucollUniqueId *id);
/* Collective over n_ranks callers with the same id, each with its own rank in 0..n_ranks-1. The communicator works
 * on the device that the calling thread has chosen (cudaSetDevice). Waits for the others at most the parameter
 * timeout. */
GPUCOLL_API gpucollResult_t gpucollCommInitRank(gpucollComm_t *comm, int n_ranks, gpucollUniqueId id, int rank);
/* Waits for the communicator's outstanding operations and for the peers to be done with its memory, then frees it. */
GPUCOLL_API gpucollResult_t gpucollCommDestroy(gpucollComm_t comm);
/* Ends outstanding operations (their results are undefined) and frees the communicator, without the peers' help;
 * they get gpucollRemoteError. */
GPUCOLL_API gpucollResult_t gpucollCommAbort(gpucollComm_t comm);
/* gpucollSuccess while all is well, else the error that has latched: a dead peer, an abort, a timeout. */
GPUCOLL_API gpucollResult_t gpucollCommGetAsyncError(gpucollComm_t comm, gpucollResult_t *async_error);
GPUCOLL_API gpucollResult_t gpucollCommCount(gpucollComm_t comm, int *count);
GPUCOLL_API gpucollResult_t gpucollCommUserRank(gpucollComm_t comm, int *rank);

/* Calls between start and the outermost end are put together and started at that end; errors surface there. */
GPUCOLL_API gpucollResult_t gpucollGroupStart(void);
GPUCOLL_API gpucollResult_t gpucollGroupEnd(void);

/* recvbuff[i] on every rank = op over all ranks of sendbuff[i], i < count; the same bits on every rank.
 * sendbuff == recvbuff works in place. Both must be device memory. Stream-ordered: returns before it is done.
 * All ranks pass the same count, datatype and op. */
GPUCOLL_API gpucollResult_t gpucollAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                                             gpucollDataType_t datatype, gpucollRedOp_t op, gpucollComm_t comm,
                                             gpucollStream_t stream);

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

/* Device memory, for programs that run on either device. gpucollMalloc of 0 bytes gives NULL; gpucollFree takes NULL.
 */
GPUCOLL_API gpucollResult_t gpucollMalloc(void **ptr, size_t bytes);
GPUCOLL_API gpucollResult_t gpucollFree(void *ptr);
/* Either side may be host or device memory; the kinds are found out. Done when it returns. */
GPUCOLL_API gpucollResult_t gpucollMemcpy(void *dst, const void *src, size_t bytes);
GPUCOLL_API gpucollResult_t gpucollMemset(void *ptr, int byte, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
