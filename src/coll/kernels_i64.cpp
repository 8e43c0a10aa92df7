// The kernels of shard i64 for the emulated device.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(i64)
