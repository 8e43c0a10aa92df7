// The P2P transport: the receiver's ring buffer lies in its device memory and the sender's kernels store into it;
// the sender's head counters lie in the sender's device memory and the receiver's kernels store into those.
#include "net/transport.h"

namespace gpucoll::net {
namespace {

using proto::ReceiveBlock;
using proto::SendBlock;

class P2pEnd final : public LinkEnd {
 public:
  P2pEnd(Side side, const LinkShape& shape, MemoryPort& memory) : side_(side), shape_(shape), memory_(memory) {}
  ~P2pEnd() override {
    if (remote_) memory_.close(remote_);
    if (local_) memory_.release(local_);
  }

  Status allocate() {
    size_t bytes = side_ == Side::receive ? ReceiveBlock::bytes(shape_.slots) : SendBlock::kBytes;
    GC_TRY_AS(local_, memory_.allocate(bytes * static_cast<size_t>(shape_.lanes), &blob_));
    return {};
  }

  const LinkBlob& blob() const override { return blob_; }

  Status connect(const LinkBlob& peer) override {
    GC_TRY_AS(remote_, memory_.open(peer));
    return {};
  }

  proto::Connector connector(int lane) const override {
    bool receiving = side_ == Side::receive;
    return {at(receiving ? local_ : remote_, lane, ReceiveBlock::bytes(shape_.slots)),
            at(receiving ? remote_ : local_, lane, SendBlock::kBytes), 0, 0};
  }

 private:
  static uint8_t* at(void* base, int lane, size_t stride) {
    return static_cast<uint8_t*>(base) + static_cast<size_t>(lane) * stride;
  }

  Side side_;
  LinkShape shape_;
  MemoryPort& memory_;
  LinkBlob blob_ = {};
  void* local_ = nullptr;
  void* remote_ = nullptr;
};

class P2pTransport final : public Transport {
 public:
  const char* name() const override { return "p2p"; }
  Result<std::unique_ptr<LinkEnd>> make_end(Side side, const LinkShape& shape, MemoryPort& memory) override {
    auto end = std::make_unique<P2pEnd>(side, shape, memory);
    GC_TRY(end->allocate());
    return std::unique_ptr<LinkEnd>(std::move(end));
  }
};

}  // namespace

Transport& p2p_transport() {
  static P2pTransport transport;
  return transport;
}

}  // namespace gpucoll::net
