// The kernels of shard f32 for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(f32)
