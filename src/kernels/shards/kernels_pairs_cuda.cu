// The kernels of shard pairs for GPUs.
#include "kernels/kernels_shard.h"
GC_DEFINE_SHARD(pairs)
