// What a GPU shows and the emulated device cannot: how many kernels a group needs, and what communicators cost in
// device memory. Built and started by test/device/run, one process a rank:
//
//   facts launches FILE     a group that is captured into a graph, with the kernels counted in it: an all-to-all
//                           exchange of sends and receives, and the same with an allgather
//   facts memory FILE       bytes of device memory for each of 64 communicators, and of 64 that share
//
// Rank and number of ranks come from Open MPI's environment. Rank 0 leaves the unique ids in FILE, which must not
// exist.
#include <cuda_runtime.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gpucoll/gpucoll.h"

namespace {

constexpr size_t kComms = 64;

[[noreturn]] void fail(const char* what, const char* why) {
  std::fprintf(stderr, "facts: %s: %s\n", what, why);
  std::exit(1);
}
#define CHECK(call)                                                          \
  do {                                                                       \
    if ((call) != gpucollSuccess) fail(#call, gpucollGetLastError(nullptr)); \
  } while (0)
#define CHECK_CUDA(call)                                                                    \
  do {                                                                                      \
    if (const cudaError_t e = (call); e != cudaSuccess) fail(#call, cudaGetErrorString(e)); \
  } while (0)

int from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) fail(name, "is not set: start this with mpirun");
  return std::atoi(text);
}

std::vector<gpucollUniqueId> exchange_ids(const std::string& path, int rank, size_t n) {
  std::vector<gpucollUniqueId> ids(n);
  if (rank == 0) {
    for (auto& id : ids) CHECK(gpucollGetUniqueId(&id));
    const std::string unfinished = path + ".unfinished";
    std::FILE* file = std::fopen(unfinished.c_str(), "wb");
    if (file == nullptr || std::fwrite(ids.data(), sizeof ids[0], n, file) != n || std::fclose(file) != 0 ||
        std::rename(unfinished.c_str(), path.c_str()) != 0)
      fail(path.c_str(), "cannot be written");
    return ids;
  }
  for (int tries = 0; tries < 3000; ++tries, usleep(10000)) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) continue;
    const size_t read = std::fread(ids.data(), sizeof ids[0], n, file);
    std::fclose(file);
    if (read == n) return ids;
  }
  fail(path.c_str(), "rank 0 has not written it");
}

size_t used_bytes() {
  size_t unused = 0, all = 0;
  CHECK_CUDA(cudaMemGetInfo(&unused, &all));
  return all - unused;
}

void exchange_all(gpucollComm_t comm, int n, char* in, char* out, size_t bytes, cudaStream_t stream) {
  for (int peer = 0; peer < n; ++peer) {
    CHECK(gpucollSend(in + static_cast<size_t>(peer) * bytes, bytes, gpucollInt8, peer, comm, stream));
    CHECK(gpucollRecv(out + static_cast<size_t>(peer) * bytes, bytes, gpucollInt8, peer, comm, stream));
  }
}

template <class Calls>
size_t kernels_of(cudaStream_t stream, const Calls& calls) {
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(gpucollGroupStart());
  calls();
  CHECK(gpucollGroupEnd());
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  size_t n = 0, kernels = 0;
  CHECK_CUDA(cudaGraphGetNodes(graph, nullptr, &n));
  std::vector<cudaGraphNode_t> nodes(n);
  CHECK_CUDA(cudaGraphGetNodes(graph, nodes.data(), &n));
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    CHECK_CUDA(cudaGraphNodeGetType(node, &type));
    kernels += type == cudaGraphNodeTypeKernel;
  }
  CHECK_CUDA(cudaGraphDestroy(graph));
  return kernels;
}

void count_launches(gpucollComm_t comm, int rank, int n, char* in, char* out, cudaStream_t stream) {
  for (const size_t bytes : {size_t{64}, size_t{1} << 20}) {
    const size_t exchange = kernels_of(stream, [&] { exchange_all(comm, n, in, out, bytes, stream); });
    const size_t mixed = kernels_of(stream, [&] {
      CHECK(gpucollAllGather(in, out, bytes, gpucollInt8, comm, stream));
      exchange_all(comm, n, in, out, bytes, stream);
    });
    if (rank == 0)
      std::printf("all-to-all among %d ranks, %zu bytes each: %zu kernel; with an allgather: %zu\n", n, bytes, exchange,
                  mixed);
    if (exchange != 1 || mixed != 1) fail("launches", "more than one kernel for a group");
  }
}

// Reduces `bytes` in each communicator.
void run_all(const std::vector<gpucollComm_t>& comms, size_t bytes, char* in, char* out, cudaStream_t stream) {
  for (gpucollComm_t comm : comms)
    CHECK(gpucollAllReduce(in, out, bytes / 4, gpucollFloat32, gpucollSum, comm, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
}

// What communicators cost on this rank, in memory and time, from one report to the next.
class Costs {
 public:
  explicit Costs(const char* kind) : kind_(kind), before_(used_bytes()), since_(Clock::now()) {}
  void report(const char* when) {
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - since_).count();
    const double bytes = static_cast<double>(used_bytes()) - static_cast<double>(before_);
    std::printf("a communicator %s, %s: %.2f MiB, %.0f us\n", kind_, when, bytes / kComms / (1 << 20), us / kComms);
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const char* kind_;
  size_t before_;
  Clock::time_point since_;
};

// make(i) gives communicator i.
template <class Make>
void measure(const char* kind, int rank, char* in, char* out, cudaStream_t stream, const Make& make) {
  Costs costs(kind);
  const auto report = [&](const char* when) {
    if (rank == 0) costs.report(when);
  };
  std::vector<gpucollComm_t> comms;
  for (size_t i = 0; i < kComms; ++i) comms.push_back(make(i));
  report("unused");
  run_all(comms, 4 << 10, in, out, stream);
  report("after an allreduce of 4 KiB");
  run_all(comms, 1 << 20, in, out, stream);
  report("after an allreduce of 1 MiB");
  run_all(comms, 32 << 20, in, out, stream);
  report("after an allreduce of 32 MiB");
  for (gpucollComm_t comm : comms) CHECK(gpucollCommDestroy(comm));
  report("destroyed");
}

void measure_memory(gpucollComm_t founder, const std::vector<gpucollUniqueId>& ids, int rank, int n, char* in,
                    char* out, cudaStream_t stream) {
  // What the first one of a process costs, and the founder's own connections.
  for (const size_t bytes : {size_t{4} << 10, size_t{1} << 20, size_t{32} << 20})
    run_all({founder}, bytes, in, out, stream);
  measure("that shares", rank, in, out, stream, [&](size_t) {
    gpucollComm_t comm = nullptr;
    CHECK(gpucollCommSplit(founder, 0, 0, &comm));
    return comm;
  });
  measure("of its own", rank, in, out, stream, [&](size_t i) {
    gpucollComm_t comm = nullptr;
    CHECK(gpucollCommInitRank(&comm, n, ids[i + 1], rank));
    return comm;
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: facts launches|memory FILE\n"), 2;
  const int rank = from_environment("OMPI_COMM_WORLD_RANK"), n = from_environment("OMPI_COMM_WORLD_SIZE");
  int gpus = 0;
  CHECK_CUDA(cudaGetDeviceCount(&gpus));
  CHECK_CUDA(cudaSetDevice(rank % gpus));
  const bool memory = std::strcmp(argv[1], "memory") == 0;
  const auto ids = exchange_ids(argv[2], rank, memory ? kComms + 1 : 1);
  const size_t bytes = memory ? 32 << 20 : static_cast<size_t>(n) << 20;
  char *in = nullptr, *out = nullptr;
  CHECK_CUDA(cudaMalloc(&in, bytes));
  CHECK_CUDA(cudaMalloc(&out, bytes));
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  gpucollComm_t comm = nullptr;
  gpucollConfig_t config = GPUCOLL_CONFIG_INITIALIZER;
  config.splitShare = 1;
  CHECK(gpucollCommInitRankConfig(&comm, n, ids[0], rank, &config));
  if (memory) {
    measure_memory(comm, ids, rank, n, in, out, stream);
  } else {
    count_launches(comm, rank, n, in, out, stream);
  }
  CHECK(gpucollCommDestroy(comm));
  return 0;
}
