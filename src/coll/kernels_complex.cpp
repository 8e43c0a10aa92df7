// The kernels of shard complex for the emulated device.
#include "coll/kernels_shard.h"
GC_DEFINE_SHARD(complex)
