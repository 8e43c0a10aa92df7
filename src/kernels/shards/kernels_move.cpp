// The kernels of shard move for the emulated device.
#include "kernels/kernels_shard.h"
GC_DEFINE_MOVE
