#include "nccl/config.h"

#include <algorithm>
#include <cstring>

#include "nccl/mapping.h"

namespace gpucoll::nccl {

ncclResult_t read_config(const char* function, const ncclConfig_t* config, gpucollConfig_t* mine) {
  *mine = GPUCOLL_CONFIG_INITIALIZER;
  if (!config) return ncclSuccess;
  constexpr size_t kSmallest = offsetof(ncclConfig_t, blocking) + sizeof(int);
  if (config->magic != NCCL_CONFIG_MAGIC || config->size < kSmallest)
    return refuse(ncclInvalidArgument, function, "the configuration was not set up by NCCL_CONFIG_INITIALIZER");
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  if (known.blocking != 0 && known.blocking != 1 && known.blocking != NCCL_CONFIG_UNDEF_INT)
    return refuse(ncclInvalidArgument, function, "blocking in the configuration must be 0 or 1");
  mine->splitShare = known.splitShare == NCCL_CONFIG_UNDEF_INT ? GPUCOLL_CONFIG_UNDEF_INT : known.splitShare;
  return ncclSuccess;
}

}  // namespace gpucoll::nccl
