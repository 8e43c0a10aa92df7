// The kernels of shard i8 for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(i8)
