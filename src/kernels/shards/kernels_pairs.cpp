// The kernels of shard pairs for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(pairs)
