// The kernel of the heat examples. Compile it with nvcc, and the C files with -DHEAT_CUDA.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "heat.h"

namespace {

// Each thread computes one point. Columns lie side by side in memory, so they go by the fastest index.
__global__ void compute(heat_block block, heat_box box, double *to, const double *from) {
  const ptrdiff_t i = blockIdx.x * static_cast<ptrdiff_t>(blockDim.x) + threadIdx.x;
  const ptrdiff_t n = static_cast<ptrdiff_t>(box.count[PLANES]) * box.count[ROWS] * box.count[COLUMNS];
  if (i >= n) return;
  const int column = static_cast<int>(i % box.count[COLUMNS]);
  const int row = static_cast<int>(i / box.count[COLUMNS] % box.count[ROWS]);
  const int plane = static_cast<int>(i / box.count[COLUMNS] / box.count[ROWS]);
  const ptrdiff_t here =
      heat_place(&block, box.first[PLANES] + plane, box.first[ROWS] + row, box.first[COLUMNS] + column);
  const ptrdiff_t to_row = heat_stride(&block, ROWS);
  const ptrdiff_t to_plane = block.halo[PLANES] ? heat_stride(&block, PLANES) : 0;
  to[here] = heat_new_value(from[here], from[here - 1], from[here + 1], from[here - to_row], from[here + to_row],
                            from[here - to_plane], from[here + to_plane]);
}

}  // namespace

void heat_compute_cuda(const heat_block *block, heat_box box, double *to, const double *from, void *stream) {
  const ptrdiff_t n = static_cast<ptrdiff_t>(box.count[PLANES]) * box.count[ROWS] * box.count[COLUMNS];
  const int threads = 256;
  const unsigned blocks = static_cast<unsigned>((n + threads - 1) / threads);
  compute<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(*block, box, to, from);
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  fprintf(stderr, "the kernel cannot be launched: %s\n", cudaGetErrorString(error));
  exit(1);
}
