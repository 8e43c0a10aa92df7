// The kernels of shard i8 for the emulated device.
#include "kernels/kernels_shard.h"
GC_DEFINE_SHARD(i8)
