// The kernels of shard pairs for GPUs.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(pairs)
