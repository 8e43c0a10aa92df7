// The kernels of shard i16 for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(i16)
