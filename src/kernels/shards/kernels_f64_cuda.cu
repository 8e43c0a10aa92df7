// The kernels of shard f64 for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(f64)
