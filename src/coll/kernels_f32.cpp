// The kernels of shard f32 for the emulated device.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(f32)
