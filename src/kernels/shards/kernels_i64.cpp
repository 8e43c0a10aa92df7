// The kernels of shard i64 for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(i64)
