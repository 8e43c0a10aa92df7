// The kernels of shard i64 for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(i64)
