#include "nccl/config.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

namespace gpucoll::nccl {

const char* read_config(const ncclConfig_t* config, gpucollConfig_t* mine, int undefined_share) {
  *mine = GPUCOLL_CONFIG_INITIALIZER;
  if (!config) return nullptr;
  const unsigned magic = std::exchange(mine->magic, 0);
  constexpr size_t kSmallest = offsetof(ncclConfig_t, blocking) + sizeof(int);
  if (config->magic != NCCL_CONFIG_MAGIC || config->size < kSmallest)
    return "the configuration was not set up by NCCL_CONFIG_INITIALIZER";
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  mine->magic = magic;
  mine->splitShare = known.splitShare == NCCL_CONFIG_UNDEF_INT ? undefined_share : known.splitShare;
  // The C API takes what is undefined from the parent of a split, NCCL its defaults.
  mine->blocking = known.blocking == NCCL_CONFIG_UNDEF_INT ? 1 : known.blocking;
  mine->minCTAs = known.minCTAs == NCCL_CONFIG_UNDEF_INT ? 1 : known.minCTAs;
  mine->maxCTAs = known.maxCTAs == NCCL_CONFIG_UNDEF_INT ? INT_MAX : known.maxCTAs;
  mine->commName = known.commName ? known.commName : "";
  return nullptr;
}

}  // namespace gpucoll::nccl
