// Times the primitives between two GPUs of one process, kernels and connections alone: latency of a hop, bandwidth of a
// connection, and of several. Not part of the build; from the top directory:
//
//   nvcc -std=c++20 -arch=sm_90 -O2 -fmad=false --expt-relaxed-constexpr -Isrc -o bench_primitives \
//     test/device/bench_primitives.cu && ./bench_primitives
//
// A hop is half of a round trip of n bytes, each of its operations with Primitives of its own, as an item of a plan
// has; "within" is the same with one object for all. Data are compared at the end of each run.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "proto/primitives.h"
#include "proto/primitives_ll.h"
#include "proto/primitives_ll128.h"

namespace {

using namespace gpucoll::proto;
using Floats = Family<Sum<float>, Max<float>>;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

constexpr int kMaxBlocks = 32;
constexpr uint64_t kMaxElements = uint64_t{64} << 20;

template <class T>
T* zeroed(size_t count) {
  void* p = nullptr;
  CHECK(cudaMalloc(&p, count * sizeof(T)));
  CHECK(cudaMemset(p, 0, count * sizeof(T)));
  return static_cast<T*>(p);
}

// What one GPU has: the ends of connections to and from the other, one a block, and buffers.
struct Side {
  Connector* recv;
  Connector* send;
  float* input;
  float* output;
  FaultLatch* latch;
  ConnectionShape shape;
};

template <class Protocol>
using Prims = Primitives<Floats, CudaBlock, Protocol, Fan<1, 1>>;

template <class Protocol, bool kOneObject>
__global__ void __launch_bounds__(512, 1) round_trips(Side side, bool starts, uint64_t n, int rounds) {
  const CudaBlock block;
  const Ends<Fan<1, 1>> ends{{side.recv + blockIdx.x}, {side.send + blockIdx.x}};
  const Buffers buffers{side.input, side.output};
  const auto one = [&](Prims<Protocol>& prims, bool sends) {
    if (sends) {
      prims.send(0, n);
    } else {
      prims.recv(0, n);
    }
  };
  if constexpr (kOneObject) {
    Prims<Protocol> prims(block, ends, side.shape, side.latch, buffers, {});
    for (int i = 0; i < 2 * rounds; ++i) one(prims, (i % 2 == 0) == starts);
  } else {
    for (int i = 0; i < 2 * rounds; ++i) {
      Prims<Protocol> prims(block, ends, side.shape, side.latch, buffers, {});
      one(prims, (i % 2 == 0) == starts);
    }
  }
}

// Each block its own part of n elements, in chunks as the algorithms do.
template <class Protocol>
__global__ void __launch_bounds__(512, 1) stream(Side side, bool sends, bool reduces, uint64_t n) {
  const CudaBlock block;
  const uint64_t share = n / gridDim.x, first = share * blockIdx.x;
  const Ends<Fan<1, 1>> ends{{sends ? nullptr : side.recv + blockIdx.x}, {sends ? side.send + blockIdx.x : nullptr}};
  uint8_t* const granted = sends ? nullptr : reinterpret_cast<uint8_t*>(side.output);
  Prims<Protocol> prims(block, ends, side.shape, side.latch, {side.input, side.output, granted}, {});
  const uint64_t chunk = Prims<Protocol>::chunk_elements(side.shape);
  for (uint64_t done = 0; done < share; done += chunk) {
    const uint64_t at = first + done, part = share - done < chunk ? share - done : chunk;
    if (sends) {
      if (reduces) {
        prims.send(at, part);
      } else {
        prims.direct_send(at, at, part);
      }
    } else if (reduces) {
      prims.recv_reduce_copy(at, at, part);
    } else {
      prims.direct_recv(at, part);
    }
  }
}

class Gpus {
 public:
  Gpus() {
    for (int gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      CHECK(cudaDeviceEnablePeerAccess(1 - gpu, 0));
      CHECK(cudaStreamCreate(&stream_[gpu]));
      CHECK(cudaEventCreate(&begin_[gpu]));
      CHECK(cudaEventCreate(&end_[gpu]));
      side[gpu] = {zeroed<Connector>(kMaxBlocks),
                   zeroed<Connector>(kMaxBlocks),
                   zeroed<float>(kMaxElements),
                   zeroed<float>(kMaxElements),
                   nullptr,
                   connection_shape(4 << 20)};
      void* latch = nullptr;
      CHECK(cudaHostAlloc(&latch, sizeof(FaultLatch), cudaHostAllocMapped | cudaHostAllocPortable));
      side[gpu].latch = new (latch) FaultLatch{};
    }
    for (int gpu = 0; gpu < 2; ++gpu) connect(gpu, 1 - gpu);
    std::vector<float> data(kMaxElements);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 1000003);
    for (int gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaMemcpy(side[gpu].input, data.data(), data.size() * sizeof(float), cudaMemcpyDefault));
    }
  }

  // Microseconds of launch(side, gpu, stream) on both GPUs, the longer one of the two.
  template <class Launch>
  float time(const Launch& launch) {
    for (int gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      CHECK(cudaEventRecord(begin_[gpu], stream_[gpu]));
      launch(side[gpu], gpu, stream_[gpu]);
      CHECK(cudaGetLastError());
      CHECK(cudaEventRecord(end_[gpu], stream_[gpu]));
    }
    float longest = 0;
    for (int gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      CHECK(cudaEventSynchronize(end_[gpu]));
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, begin_[gpu], end_[gpu]));
      if (ms > longest) longest = ms;
    }
    return longest * 1000;
  }
  // Whether the output of a GPU holds `factor` times what is sent.
  bool is_right(int gpu, uint64_t n, float factor) const {
    std::vector<float> got(n);
    CHECK(cudaMemcpy(got.data(), side[gpu].output, n * sizeof(float), cudaMemcpyDefault));
    CHECK(cudaMemset(side[gpu].output, 0, n * sizeof(float)));
    for (uint64_t i = 0; i < n; ++i) {
      if (got[i] != factor * static_cast<float>(i % 1000003)) return false;
    }
    return true;
  }

  Side side[2];

 private:
  void connect(int from, int to) {
    for (int block = 0; block < kMaxBlocks; ++block) {
      CHECK(cudaSetDevice(to));
      uint8_t* const receive = zeroed<uint8_t>(ReceiveBlock::bytes(side[to].shape));
      CHECK(cudaSetDevice(from));
      uint8_t* const send = zeroed<uint8_t>(SendBlock::kBytes);
      const Connector end{receive, send, 0, 0};
      CHECK(cudaMemcpy(side[from].send + block, &end, sizeof end, cudaMemcpyDefault));
      CHECK(cudaMemcpy(side[to].recv + block, &end, sizeof end, cudaMemcpyDefault));
    }
  }
  cudaStream_t stream_[2];
  cudaEvent_t begin_[2], end_[2];
};

template <class Protocol>
void latencies(Gpus& gpus, const char* name) {
  constexpr int kRounds = 2000;
  for (uint64_t bytes = 4; bytes <= 256 << 10; bytes *= 4) {
    for (int threads : {64, 512}) {
      const uint64_t n = bytes / sizeof(float);
      const auto each = [&](const Side& side, int gpu, cudaStream_t stream) {
        round_trips<Protocol, false><<<1, threads, 0, stream>>>(side, gpu == 0, n, kRounds);
      };
      const auto within = [&](const Side& side, int gpu, cudaStream_t stream) {
        round_trips<Protocol, true><<<1, threads, 0, stream>>>(side, gpu == 0, n, kRounds);
      };
      gpus.time(each);
      const float hop = gpus.time(each) / (2 * kRounds), inner = gpus.time(within) / (2 * kRounds);
      const bool right = gpus.is_right(0, n, 1) && gpus.is_right(1, n, 1);
      std::printf("%-7s %8lu bytes %4d threads: hop %7.2f us, within %7.2f us %s\n", name,
                  static_cast<unsigned long>(bytes), threads, hop, inner, right ? "" : "WRONG DATA");
    }
  }
}

template <class Protocol>
void bandwidths(Gpus& gpus, const char* name) {
  for (int blocks : {1, 4, 8, 16, 32}) {
    for (bool reduces : {false, true}) {
      if (reduces && Protocol::kDirect) continue;
      const uint64_t n = kMaxElements / kMaxBlocks * static_cast<uint64_t>(blocks);
      const auto launch = [&](const Side& side, int gpu, cudaStream_t s) {
        stream<Protocol><<<blocks, 512, 0, s>>>(side, gpu == 0, reduces, n);
      };
      gpus.time(launch);
      const float us = gpus.time(launch);
      const bool right = gpus.is_right(1, n, reduces ? 2 : 1);
      std::printf("%-7s %2d blocks, %s: %7.1f GB/s %s\n", name, blocks, reduces ? "recv_reduce_copy" : "recv",
                  static_cast<double>(n * sizeof(float)) / us / 1000, right ? "" : "WRONG DATA");
    }
  }
}

}  // namespace

int main() {
  Gpus gpus;
  latencies<Ll>(gpus, "LL");
  latencies<Ll128>(gpus, "LL128");
  latencies<Simple<>>(gpus, "Simple");
  bandwidths<Ll>(gpus, "LL");
  bandwidths<Ll128>(gpus, "LL128");
  bandwidths<Simple<>>(gpus, "Simple");
  bandwidths<DirectSimple>(gpus, "direct");
}
