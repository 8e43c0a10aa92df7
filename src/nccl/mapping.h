// From NCCL's types and numbers to those of the C API, and back.
//
// A communicator, a registration and an operation of NCCL's are those of the C API: nothing is kept here but the
// sentence of the last call that this library refused by itself.
// Thread safety: any thread; the sentence is the thread's own.
#pragma once
#include "gpucoll/gpucoll.h"
#include "nccl/nccl_abi.h"

// Gives a function of this file its second name.
#define GC_SECOND_NAME(name) decltype(name) p##name __attribute__((alias(#name)));

namespace gpucoll::nccl {

inline gpucollComm_t to_gpucoll(ncclComm_t comm) { return reinterpret_cast<gpucollComm_t>(comm); }
inline gpucollComm_t* to_gpucoll(ncclComm_t* comms) { return reinterpret_cast<gpucollComm_t*>(comms); }
inline gpucollStream_t to_gpucoll(cudaStream_t stream) { return stream; }

// Return a number that the C API refuses where NCCL's is none.
gpucollDataType_t to_gpucoll(ncclDataType_t type);
gpucollRedOp_t to_gpucoll(ncclRedOp_t op);

// Returns what NCCL calls such a result. The sentence of a failure is the C API's from now on.
ncclResult_t to_nccl(gpucollResult_t result);
// Keeps "FUNCTION: why" as the thread's sentence and returns `result`.
ncclResult_t refuse(ncclResult_t result, const char* function, const char* why);
// Returns what refuse() has kept, "" after a later failure of the C API.
const char* refusal();

}  // namespace gpucoll::nccl
