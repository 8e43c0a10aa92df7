// The kernels of shard move for the emulated device.
#include "kernels/shard.h"
GC_DEFINE_MOVE
