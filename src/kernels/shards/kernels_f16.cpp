// The kernels of shard f16 for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(f16)
