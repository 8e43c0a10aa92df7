// The kernels of shard move for GPUs.
#include "coll/kernels_shard.h"
GC_DEFINE_MOVE
