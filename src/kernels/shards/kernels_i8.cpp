// The kernels of shard i8 for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(i8)
