// The kernels of shard pairs for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(pairs)
