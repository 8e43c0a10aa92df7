// The kernels of shard i8 for the emulated device.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(i8)
