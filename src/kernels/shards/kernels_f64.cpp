// The kernels of shard f64 for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(f64)
