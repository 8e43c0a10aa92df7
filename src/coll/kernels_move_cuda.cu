// The kernels of shard move for GPUs.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(move)
GC_DEFINE_ONE_SHOT_MOVE
GC_DEFINE_PACKING
