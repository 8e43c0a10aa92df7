// The kernels of shard f8 for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(f8)
