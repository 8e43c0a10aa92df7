// Returns the ranks' control pages (proto/format/peer.h) at the addresses that kernels and streams of this rank's
// device use. A page is registered when first asked for.
//
// Thread safety: one caller at a time. Ownership: device and peers outlive it.
#pragma once
#include <map>

#include "core/peer/peers.h"
#include "gpu/device.h"

namespace gpucoll::core {

class PeerPages {
 public:
  PeerPages(gpu::Device& device, const Peers& peers) : device_(device), peers_(peers) {}
  ~PeerPages() {
    for (const auto& [rank, block] : pages_) device_.unregister_host(block);
  }
  PeerPages(const PeerPages&) = delete;
  PeerPages& operator=(const PeerPages&) = delete;

  // Return kernel addresses of what the functions of these names in Peers return.
  Result<proto::CopyPage*> copy_page(int rank) {
    GC_TRY_AS(uint8_t * page, of(rank));
    return reinterpret_cast<proto::CopyPage*>(page + proto::copy_page_offset(peers_.size()));
  }
  Result<proto::CopyLane*> copy_lane(int rank, int towards) {
    GC_TRY_AS(uint8_t * page, of(rank));
    return reinterpret_cast<proto::CopyLane*>(page + proto::copy_lane_offset(peers_.size(), towards));
  }

 private:
  Result<uint8_t*> of(int rank) {
    auto known = pages_.find(rank);
    if (known == pages_.end()) {
      GC_TRY_AS(const gpu::HostBlock block,
                device_.register_host(peers_.page_bytes(rank), proto::control_bytes(peers_.size())));
      known = pages_.emplace(rank, block).first;
    }
    return static_cast<uint8_t*>(known->second.kernel);
  }

  gpu::Device& device_;
  const Peers& peers_;
  std::map<int, gpu::HostBlock> pages_;
};

}  // namespace gpucoll::core
