// The kernels of shard complex for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_SHARD(complex)
