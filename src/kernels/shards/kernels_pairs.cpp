// The kernels of shard pairs for the emulated device.
#include "kernels/kernels_shard.h"
GC_DEFINE_SHARD(pairs)
