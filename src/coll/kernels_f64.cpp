// The kernels of shard f64 for the emulated device.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(f64)
