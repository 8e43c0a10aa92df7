// The kernels of shard i32 for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(i32)
