// The kernels of shard complex for GPUs.
#include "kernels/shard.h"
GC_DEFINE_SHARD(complex)
