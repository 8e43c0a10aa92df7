// The kernels of shard move for GPUs.
#include "kernels/kernels_shard.h"
GC_DEFINE_MOVE
