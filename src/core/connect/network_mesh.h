// A mesh over a network: this rank's buffer and the images of the other ranks' buffers, all in host memory
// (proto/format/mesh.h). Links bring the lines from the images into the buffers (net/mesh_lines.h).
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
  ~NetworkMesh() { memory_.unmap_host(shared_.data(), kernel_, shared_.bytes()); }
  NetworkMesh(const NetworkMesh&) = delete;
  NetworkMesh& operator=(const NetworkMesh&) = delete;

  // Returns the links that it needs: one to each other rank, and one from each.
  std::vector<LinkWish> links() const;
  // Returns this rank's buffer, and the image of each other rank's: kernel addresses.
  std::vector<void*> buffers() const;

 private:
  NetworkMesh(int rank, int n_ranks, net::MemoryPort& memory, SharedMemory shared, void* kernel)
      : rank_(rank), n_ranks_(n_ranks), memory_(memory), shared_(std::move(shared)), kernel_(kernel) {}
  uint8_t* part(void* base, int rank) const;

  const int rank_, n_ranks_;
  net::MemoryPort& memory_;
  SharedMemory shared_;  // a part for each rank
  void* const kernel_;
};

}  // namespace gpucoll::core
