// The SHM transport: the whole connection lies in host memory that the receiver makes and both sides map, for devices
// that cannot reach each other's memory. Per lane: the receiver's block, then the sender's.
#include <cstring>

#include "base/shared_memory.h"
#include "net/transport.h"

namespace gpucoll::net {
namespace {

using proto::ReceiveBlock;
using proto::SendBlock;

class ShmEnd final : public LinkEnd {
 public:
  ShmEnd(Side side, const LinkShape& shape, MemoryPort& memory) : side_(side), shape_(shape), memory_(memory) {}
  ~ShmEnd() override {
    if (kernel_) memory_.unmap_host(shared_.data(), kernel_, shared_.bytes());
  }

  Status allocate() {
    if (side_ == Side::send) return {};
    GC_TRY_AS(shared_, SharedMemory::create(stride() * static_cast<size_t>(shape_.lanes), "gpucoll-shm"));
    GC_TRY_AS(kernel_, memory_.map_host(shared_.data(), shared_.bytes()));
    SharedMemoryName name = shared_.name();
    static_assert(sizeof name <= sizeof blob_.bytes);
    std::memcpy(blob_.bytes, &name, sizeof name);
    return {};
  }

  const LinkBlob& blob() const override { return blob_; }

  Status connect(const LinkBlob& peer) override {
    if (side_ == Side::receive) return {};
    SharedMemoryName name;
    std::memcpy(&name, peer.bytes, sizeof name);
    GC_TRY_AS(shared_, SharedMemory::open(name));
    GC_TRY_AS(kernel_, memory_.map_host(shared_.data(), shared_.bytes()));
    return {};
  }

  proto::Connector connector(int lane) const override {
    auto* receive_block = static_cast<uint8_t*>(kernel_) + static_cast<size_t>(lane) * stride();
    return {receive_block, receive_block + ReceiveBlock::bytes(shape_.slots), 0, 0};
  }

 private:
  size_t stride() const { return ReceiveBlock::bytes(shape_.slots) + SendBlock::kBytes; }

  Side side_;
  LinkShape shape_;
  MemoryPort& memory_;
  LinkBlob blob_ = {};
  SharedMemory shared_;
  void* kernel_ = nullptr;
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
