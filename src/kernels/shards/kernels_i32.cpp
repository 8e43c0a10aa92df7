// The kernels of shard i32 for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(i32)
