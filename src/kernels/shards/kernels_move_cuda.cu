// The kernels of shard move for GPUs.
#include "kernels/shard.h"
GC_DEFINE_MOVE
