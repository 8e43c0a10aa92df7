// Device buffers that the program fills from pageable memory right before it calls MPI, and reads right after it.
// CUDA's own copies return before the GPU has the data: what MPI then reads, by other streams and in other processes,
// must be the new data all the same. Memory that MPI has not seen yet, and memory that it has.
#include <cstring>
#include <memory>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr size_t kSizes[] = {1, 7, 8, 64, 1000, 4095, 4096, 4097, 30000, 65536, 65537, 262144, 1 << 20};

bool on_gpus() {
  const char* kind = "";
  need(gpucollDeviceKind(&kind), "gpucollDeviceKind");
  return !std::strcmp(kind, "cuda");
}

// Copies as cudaMemcpy does, which may return early. gpucollMemcpy returns when the data are there.
void fill(const Memory& memory, const void* from, size_t bytes) {
  static const bool by_driver = on_gpus();
  if (by_driver)
    CudaDriver::instance().call<void*, const void*, size_t>("cuMemcpyHtoD_v2", memory.as<void>(), from, bytes);
  else
    need(gpucollMemcpy(memory.as<void>(), from, bytes), "gpucollMemcpy");
}

// The byte of what `from` sends to `to` in a round.
unsigned char byte_of(int from, int to, int round, size_t at) {
  return static_cast<unsigned char>(
      mix(static_cast<uint64_t>(from) << 32 | static_cast<uint64_t>(to), round, at >> 3) >> (at & 7) * 8);
}

// The buffers of one call: a block of `bytes` for each rank, and pageable memory of the same size.
class Buffers {
 public:
  explicit Buffers(size_t bytes)
      : bytes_(bytes),
        send_(Where::device, bytes * static_cast<size_t>(g_size)),
        recv_(Where::device, bytes * static_cast<size_t>(g_size)),
        host_(bytes * static_cast<size_t>(g_size)),
        counts_(static_cast<size_t>(g_size), static_cast<int>(bytes)),
        places_(static_cast<size_t>(g_size)) {
    for (size_t r = 0; r < places_.size(); r++) places_[r] = static_cast<int>(r * bytes);
  }

  void alltoallv(int round) {
    for (int to = 0; to < g_size; to++) make(to, to, round);
    send_blocks(g_size);
    MPI_Alltoallv(send_.as<void>(), counts_.data(), places_.data(), MPI_BYTE, recv_.as<void>(), counts_.data(),
                  places_.data(), MPI_BYTE, MPI_COMM_WORLD);
    bring();
    for (int from = 0; from < g_size; from++) check("Alltoallv", from, from, g_rank, round);
  }

  void allgather(int round) {
    make(0, 0, round);
    send_blocks(1);
    const int count = counts_[0];
    MPI_Allgather(send_.as<void>(), count, MPI_BYTE, recv_.as<void>(), count, MPI_BYTE, MPI_COMM_WORLD);
    bring();
    for (int from = 0; from < g_size; from++) check("Allgather", from, from, 0, round);
  }

  void send(int round) {
    const int next = (g_rank + 1) % g_size, last = (g_rank + g_size - 1) % g_size;
    MPI_Request request;
    MPI_Irecv(recv_.as<void>(), counts_[0], MPI_BYTE, last, round, MPI_COMM_WORLD, &request);
    make(0, next, round);
    send_blocks(1);
    MPI_Send(send_.as<void>(), counts_[0], MPI_BYTE, next, round, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bring();
    check("Send", 0, last, g_rank, round);
  }

 private:
  void make(int block, int to, int round) {
    for (size_t i = 0; i < bytes_; i++) host_[static_cast<size_t>(block) * bytes_ + i] = byte_of(g_rank, to, round, i);
  }
  void send_blocks(int blocks) {
    fill(send_, host_.data(), bytes_ * static_cast<size_t>(blocks));
    std::memset(host_.data(), 0xee, host_.size());  // it is the program's again
  }
  void bring() { recv_.read(host_.data(), host_.size()); }
  void check(const char* what, int block, int from, int to, int round) {
    const unsigned char* const got = host_.data() + static_cast<size_t>(block) * bytes_;
    size_t wrong = 0;
    for (size_t i = 0; i < bytes_; i++) wrong += got[i] != byte_of(from, to, round, i);
    if (!checked(wrong == 0))
      fail("%s of %zu bytes, round %d: %zu bytes from rank %d are wrong", what, bytes_, round, wrong, from);
  }

  size_t bytes_;
  Memory send_, recv_;
  std::vector<unsigned char> host_;
  std::vector<int> counts_, places_;
};

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  g_keep_memory = true;  // an allocation at the address of a freed one is another one
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 4;
  int round = 0;
  for (size_t bytes : kSizes) {
    const auto known = std::make_unique<Buffers>(bytes);
    for (int i = 0; i < rounds; i++) {
      for (auto call : {&Buffers::alltoallv, &Buffers::allgather, &Buffers::send}) {
        ((*known).*call)(round++);
        (Buffers(bytes).*call)(round++);
      }
    }
  }
  return mpi.finish("program_copies");
}
