// A mesh over a network: this rank's buffer and the images of the buffers of ranks on other nodes, all in host memory
// (proto/format/mesh.h). Links bring the lines from the images into the buffers (net/mesh_lines.h). Ranks of one node
// open each other's memory, and store straight into the buffers.
//
// Thread safety: one caller at a time. Ownership: owns the memory, which the links' ends and the kernels use, so
// destroy it behind both; borrows the memory port.
#pragma once
#include <memory>
#include <vector>

#include "base/shared_memory.h"
#include "core/connect/links.h"
#include "net/transport.h"

namespace gpucoll::core {

class NetworkMesh {
 public:
  // Errors: out_of_memory, system, the memory port's.
  static Result<std::unique_ptr<NetworkMesh>> create(int rank, int n_ranks, net::MemoryPort& memory);
  ~NetworkMesh();
  NetworkMesh(const NetworkMesh&) = delete;
  NetworkMesh& operator=(const NetworkMesh&) = delete;

  // Returns the name by which ranks of this node open this rank's memory, until close_name().
  SharedMemoryName name() const noexcept { return own().shared.name(); }
  void close_name() noexcept { mapped_[static_cast<size_t>(rank_)].shared.close_name(); }
  // Opens the memory of another rank of this node. Errors: remote, where its process is gone; system; the memory
  // port's.
  Status open(int peer, const SharedMemoryName& name);

  // Returns the links that it needs: one to each rank whose memory is not open, and one from each.
  std::vector<LinkWish> links() const;
  // Returns, for each rank, where this rank's kernels store: its buffer or the image of that (kernel addresses).
  std::vector<void*> buffers() const;

 private:
  struct Mapped {
    SharedMemory shared;     // a part for each rank
    void* kernel = nullptr;  // its kernel address; null: not open
  };
  NetworkMesh(int rank, int n_ranks, net::MemoryPort& memory)
      : rank_(rank), n_ranks_(n_ranks), memory_(memory), mapped_(static_cast<size_t>(n_ranks)) {}
  Status map(int rank, SharedMemory shared);
  const Mapped& own() const noexcept { return mapped_[static_cast<size_t>(rank_)]; }
  bool is_open(int rank) const noexcept { return mapped_[static_cast<size_t>(rank)].kernel != nullptr; }
  uint8_t* part(void* base, int rank) const;

  const int rank_, n_ranks_;
  net::MemoryPort& memory_;
  std::vector<Mapped> mapped_;  // by rank: this one's, and those of its node
};

}  // namespace gpucoll::core
