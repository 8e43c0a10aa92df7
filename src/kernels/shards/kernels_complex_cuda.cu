// The kernels of shard complex for GPUs.
#include "kernels/kernels_shard.h"
GC_DEFINE_SHARD(complex)
