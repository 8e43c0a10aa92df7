// The kernels of shard move for the emulated device.
#include "coll/kernels_shard.h"
GC_DEFINE_MOVE
