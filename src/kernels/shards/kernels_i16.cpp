// The kernels of shard i16 for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(i16)
