// The kernels of shard pairs for the emulated device.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(pairs)
