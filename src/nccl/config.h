// Configurations of NCCL's communicators, as programs of all versions pass them.
#pragma once
#include "gpucoll/gpucoll.h"
#include "nccl/mapping.h"
#include "nccl/nccl_abi.h"

namespace gpucoll::nccl {

// Fills *mine from what the program knows of its configuration; NULL stands for one with nothing set. Networks,
// clusters, traffic classes and policies are hints that gpucoll does not take (docs/nccl.md). Returns null, or what is
// wrong: then *mine is one that the C API refuses. undefined_share: what splitShare is where a configuration does not
// say it.
const char* read_config(const ncclConfig_t* config, gpucollConfig_t* mine, int undefined_share);

// Returns what call(&mine) gives. A wrong configuration comes to the C API, too: it sets what the call makes to NULL,
// and an open group fails. `function` is for errors.
template <class Call>
ncclResult_t with_config(const char* function, const ncclConfig_t* config, const Call& call,
                         int undefined_share = GPUCOLL_CONFIG_UNDEF_INT) {
  gpucollConfig_t mine;
  const char* const wrong = read_config(config, &mine, undefined_share);
  const ncclResult_t result = to_nccl(call(&mine));
  return wrong ? refuse(ncclInvalidArgument, function, wrong) : result;
}

}  // namespace gpucoll::nccl
