#include "core/connect/network_mesh.h"

#include "proto/format/mesh.h"

namespace gpucoll::core {

Result<std::unique_ptr<NetworkMesh>> NetworkMesh::create(int rank, int n_ranks, net::MemoryPort& memory) {
  std::unique_ptr<NetworkMesh> self(new NetworkMesh(rank, n_ranks, memory));
  const size_t bytes = static_cast<size_t>(n_ranks) * proto::network_mesh_bytes(n_ranks);
  GC_TRY_AS(SharedMemory own, SharedMemory::create(bytes, "gpucoll-mesh"));
  GC_TRY(self->map(rank, std::move(own)));
  return self;
}

NetworkMesh::~NetworkMesh() {
  for (const Mapped& its : mapped_)
    if (its.kernel) memory_.unmap_host(its.shared.data(), its.kernel, its.shared.bytes());
}

Status NetworkMesh::map(int rank, SharedMemory shared) {
  Mapped& its = mapped_[static_cast<size_t>(rank)];
  its.shared = std::move(shared);
  GC_TRY_AS(its.kernel, memory_.map_host(its.shared.data(), its.shared.bytes()));
  return {};
}

Status NetworkMesh::open(int peer, const SharedMemoryName& name) {
  GC_TRY_AS(SharedMemory shared, SharedMemory::open(name));
  return map(peer, std::move(shared));
}

uint8_t* NetworkMesh::part(void* base, int rank) const {
  return static_cast<uint8_t*>(base) + static_cast<size_t>(rank) * proto::network_mesh_bytes(n_ranks_);
}

std::vector<LinkWish> NetworkMesh::links() const {
  void* const base = own().shared.data();
  std::vector<LinkWish> wishes;
  for (int peer = 0; peer < n_ranks_; ++peer) {
    if (is_open(peer)) continue;
    const net::MeshMemory image = {part(base, peer), n_ranks_, rank_};
    const net::MeshMemory buffer = {part(base, rank_), n_ranks_, peer};
    wishes.push_back({{proto::kMeshLinks, peer, net::Side::send}, 1, {}, image});
    wishes.push_back({{proto::kMeshLinks, peer, net::Side::receive}, 1, {}, buffer});
  }
  return wishes;
}

std::vector<void*> NetworkMesh::buffers() const {
  std::vector<void*> buffers;
  for (int rank = 0; rank < n_ranks_; ++rank) {
    const Mapped& its = is_open(rank) ? mapped_[static_cast<size_t>(rank)] : own();
    buffers.push_back(part(its.kernel, rank));
  }
  return buffers;
}

}  // namespace gpucoll::core
