// Configurations of NCCL's communicators, as programs of all versions pass them.
#pragma once
#include "gpucoll/gpucoll.h"
#include "nccl/mapping.h"
#include "nccl/nccl_abi.h"

namespace gpucoll::nccl {

// Fills *mine from what the program knows of its configuration; NULL stands for one with nothing set. Networks,
// clusters, traffic classes and policies are hints that gpucoll does not take (docs/nccl.md). Returns null, or what is
// wrong: then *mine is one that the C API refuses.
const char* read_config(const ncclConfig_t* config, gpucollConfig_t* mine);

// Returns what call(&mine) gives. A wrong configuration comes to the C API, too: it sets what the call makes to NULL,
// and an open group fails. `function` is for errors.
template <class Call>
ncclResult_t with_config(const char* function, const ncclConfig_t* config, const Call& call) {
  gpucollConfig_t mine;
  const char* const wrong = read_config(config, &mine);
  const ncclResult_t result = to_nccl(call(&mine));
  return wrong ? refuse(ncclInvalidArgument, function, wrong) : result;
}

}  // namespace gpucoll::nccl
