// The SHM transport: the whole connection lies in host memory that the receiver makes and both sides map, for devices
// that cannot reach each other's memory. Per lane: the receiver's block, then the sender's.
#include <cstring>

#include "net/host_blocks.h"

namespace gpucoll::net {
namespace {

class ShmEnd final : public LinkEnd {
 public:
  ShmEnd(Side side, const LinkShape& shape, MemoryPort& memory) : side_(side), blocks_(shape, memory) {}

  Status allocate() {
    if (side_ == Side::send) return {};
    GC_TRY_AS(const SharedMemoryName name, blocks_.create("gpucoll-shm"));
    static_assert(sizeof name <= sizeof blob_.bytes);
    std::memcpy(blob_.bytes, &name, sizeof name);
    return {};
  }

  const LinkBlob& blob() const override { return blob_; }

  Status connect(const LinkBlob& peer) override {
    if (side_ == Side::receive) return {};
    SharedMemoryName name;
    std::memcpy(&name, peer.bytes, sizeof name);
    return blocks_.open(name);
  }

  proto::Connector connector(int lane) const override { return blocks_.connector(lane); }

 private:
  const Side side_;
  HostBlocks blocks_;
  LinkBlob blob_ = {};
};

class ShmTransport final : public Transport {
 public:
  const char* name() const override { return "shm"; }
  Result<std::unique_ptr<LinkEnd>> make_end(Side side, const LinkShape& shape, MemoryPort& memory) override {
    auto end = std::make_unique<ShmEnd>(side, shape, memory);
    GC_TRY(end->allocate());
    return std::unique_ptr<LinkEnd>(std::move(end));
  }
};

}  // namespace

Transport& shm_transport() {
  static ShmTransport transport;
  return transport;
}

}  // namespace gpucoll::net
