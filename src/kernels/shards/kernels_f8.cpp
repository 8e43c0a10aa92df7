// The kernels of shard f8 for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(f8)
