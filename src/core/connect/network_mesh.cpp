#include "core/connect/network_mesh.h"

#include "proto/format/mesh.h"

namespace gpucoll::core {

Result<std::unique_ptr<NetworkMesh>> NetworkMesh::create(int rank, int n_ranks, net::MemoryPort& memory) {
  const size_t bytes = static_cast<size_t>(n_ranks) * proto::network_mesh_bytes(n_ranks);
  GC_TRY_AS(SharedMemory shared, SharedMemory::create(bytes, "gpucoll-mesh"));
  shared.close_name();
  GC_TRY_AS(void* const kernel, memory.map_host(shared.data(), bytes));
  return std::unique_ptr<NetworkMesh>(new NetworkMesh(rank, n_ranks, memory, std::move(shared), kernel));
}

uint8_t* NetworkMesh::part(void* base, int rank) const {
  return static_cast<uint8_t*>(base) + static_cast<size_t>(rank) * proto::network_mesh_bytes(n_ranks_);
}

std::vector<LinkWish> NetworkMesh::links() const {
  std::vector<LinkWish> wishes;
  for (int peer = 0; peer < n_ranks_; ++peer) {
    if (peer == rank_) continue;
    const net::MeshMemory image = {part(shared_.data(), peer), n_ranks_, rank_};
    const net::MeshMemory buffer = {part(shared_.data(), rank_), n_ranks_, peer};
    wishes.push_back({{proto::kMeshLinks, peer, net::Side::send}, 1, {}, image});
    wishes.push_back({{proto::kMeshLinks, peer, net::Side::receive}, 1, {}, buffer});
  }
  return wishes;
}

std::vector<void*> NetworkMesh::buffers() const {
  std::vector<void*> buffers;
  for (int rank = 0; rank < n_ranks_; ++rank) buffers.push_back(part(kernel_, rank));
  return buffers;
}

}  // namespace gpucoll::core
