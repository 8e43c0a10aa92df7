// Configurations of NCCL's communicators, as programs of all versions pass them.
#pragma once
#include "gpucoll/gpucoll.h"
#include "nccl/nccl_abi.h"

namespace gpucoll::nccl {

// Fills *mine from what the program knows of its configuration; NULL stands for one with nothing set. Limits of thread
// blocks, names and traffic classes are hints that gpucoll does not take. `function` is for errors.
ncclResult_t read_config(const char* function, const ncclConfig_t* config, gpucollConfig_t* mine);

}  // namespace gpucoll::nccl
