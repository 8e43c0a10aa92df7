// The kernels of cg.c for GPUs. Compile it with nvcc, and the C files with -DCG_CUDA.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "cg.h"

namespace {

constexpr int kThreads = 256;

// Adds up `mine` of all threads of the block, and then of the grid, into *sum, which is 0 before the launch.
__device__ void add_up(double mine, double *sum) {
  __shared__ double of_warp[kThreads / 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(~0u, mine, lanes);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double all = 0;
  for (double one : of_warp) all += one;
  atomicAdd(sum, all);
}

__device__ size_t first() { return blockIdx.x * static_cast<size_t>(kThreads) + threadIdx.x; }
__device__ size_t stride() { return gridDim.x * static_cast<size_t>(kThreads); }

__global__ void multiply(cg_part part, int step) {
  const size_t columns = static_cast<size_t>(part.columns), n = part.rows * columns;
  double sum = 0;
  for (size_t i = first(); i < n; i += stride()) {
    const double *here = part.p + columns + i;
    const size_t column = i % columns;
    const double left = column > 0 ? here[-1] : 0, right = column + 1 < columns ? here[1] : 0;
    const double q = 4 * here[0] - left - right - *(here - columns) - here[columns];
    part.q[i] = q;
    sum += here[0] * q;
  }
  add_up(sum, &part.pq[step]);
}

__global__ void advance(cg_part part, int step) {
  const size_t columns = static_cast<size_t>(part.columns), n = part.rows * columns;
  const double a = part.rr[step] / part.pq[step];
  double sum = 0;
  for (size_t i = first(); i < n; i += stride()) {
    part.x[i] += a * part.p[columns + i];
    const double r = part.r[i] - a * part.q[i];
    part.r[i] = r;
    sum += r * r;
  }
  add_up(sum, &part.rr[step + 1]);
}

__global__ void turn(cg_part part, int step) {
  const size_t columns = static_cast<size_t>(part.columns), n = part.rows * columns;
  const double b = part.rr[step + 1] / part.rr[step];
  for (size_t i = first(); i < n; i += stride()) part.p[columns + i] = part.r[i] + b * part.p[columns + i];
}

unsigned blocks_for(const cg_part *part) {
  constexpr size_t kMost = 1024;
  const size_t blocks = (static_cast<size_t>(part->rows) * part->columns + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

void check_launch() {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  fprintf(stderr, "the kernel cannot be launched: %s\n", cudaGetErrorString(error));
  exit(1);
}

}  // namespace

void cg_multiply_cuda(const cg_part *part, int step, void *stream) {
  multiply<<<blocks_for(part), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(*part, step);
  check_launch();
}

void cg_advance_cuda(const cg_part *part, int step, void *stream) {
  advance<<<blocks_for(part), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(*part, step);
  check_launch();
}

void cg_turn_cuda(const cg_part *part, int step, void *stream) {
  turn<<<blocks_for(part), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(*part, step);
  check_launch();
}
