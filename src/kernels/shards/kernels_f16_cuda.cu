// The kernels of shard f16 for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(f16)
