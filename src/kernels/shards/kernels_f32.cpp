// The kernels of shard f32 for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(f32)
