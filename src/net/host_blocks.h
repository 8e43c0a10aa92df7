// The blocks of all lanes of a link (format/connection.h) in host memory that is mapped for kernels: for each lane the
// receiver's block, then the sender's; behind them what else the host needs.
//
// Thread safety: as LinkEnd. Ownership: borrows memory.
#pragma once
#include <memory>
#include <utility>

#include "base/shared_memory.h"
#include "net/transport.h"

namespace gpucoll::net {

class HostBlocks {
 public:
  HostBlocks(const LinkShape& shape, MemoryPort& memory, size_t extra_bytes = 0)
      : shape_(shape), memory_(memory), extra_bytes_(extra_bytes) {}
  ~HostBlocks() {
    if (kernel_) memory_.unmap_host(shared_.data(), kernel_, shared_.bytes());
  }
  HostBlocks(const HostBlocks&) = delete;
  HostBlocks& operator=(const HostBlocks&) = delete;

  // Makes zeroed blocks. The result is their name, by which the other process of a node opens them.
  Result<SharedMemoryName> create(const char* label) {
    GC_TRY_AS(shared_, SharedMemory::create(stride() * static_cast<size_t>(shape_.lanes) + extra_bytes_, label));
    GC_TRY(map());
    return shared_.name();
  }
  Status open(const SharedMemoryName& name) {
    GC_TRY_AS(shared_, SharedMemory::open(name));
    return map();
  }
  // Gives the name's descriptor back: nobody can open the blocks any more.
  void close_name() noexcept { shared_.close_name(); }

  // Return a lane's blocks, for the host. REQUIRES, as connector(): created or opened.
  uint8_t* receive_block(int lane) const { return at(shared_.data(), lane); }
  uint8_t* send_block(int lane) const { return receive_block(lane) + proto::ReceiveBlock::bytes(shape_.slots); }
  void* extra() const { return at(shared_.data(), shape_.lanes); }
  // Return all of the memory.
  void* data() const { return shared_.data(); }
  size_t bytes() const { return shared_.bytes(); }
  // Returns a lane's end at its first step, for kernels.
  proto::Connector connector(int lane) const {
    uint8_t* const receive = at(kernel_, lane);
    return {receive, receive + proto::ReceiveBlock::bytes(shape_.slots), 0, 0};
  }

 private:
  Status map() {
    GC_TRY_AS(kernel_, memory_.map_host(shared_.data(), shared_.bytes()));
    return {};
  }
  size_t stride() const { return proto::ReceiveBlock::bytes(shape_.slots) + proto::SendBlock::kBytes; }
  uint8_t* at(void* base, int lane) const { return static_cast<uint8_t*>(base) + static_cast<size_t>(lane) * stride(); }

  const LinkShape shape_;
  MemoryPort& memory_;
  const size_t extra_bytes_;
  SharedMemory shared_;
  void* kernel_ = nullptr;
};

// Makes an end of a link between nodes, and lets it prepare its blocks.
template <class End>
Result<std::unique_ptr<LinkEnd>> make_prepared(const LinkShape& shape, MemoryPort& memory) {
  auto end = std::make_unique<End>(shape, memory);
  GC_TRY(end->prepare());
  return std::unique_ptr<LinkEnd>(std::move(end));
}

}  // namespace gpucoll::net
