// The kernels of shard complex for GPUs.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(complex)
