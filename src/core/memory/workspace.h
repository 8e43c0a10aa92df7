// What a communicator lends to its operations: a stream for those that have none, and device memory for those to whose
// own buffers the work cannot go. The first operation that needs a part of it makes that part.
//
// Thread safety: one caller at a time. Ownership: owns stream and memory; the device outlives it. Destroy it where no
// launch uses it any more.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "core/memory/aside.h"
#include "gpu/device.h"

namespace gpucoll::core {

class Workspace {
 public:
  explicit Workspace(gpu::Device& device) : device_(device) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Returns an internal stream, for callers without one of their own.
  Result<gpu::Stream> stream();
  // Returns memory (kernel address) for operations without buffers of their own.
  static constexpr size_t kScratchBytes = 4096;
  Result<uint8_t*> scratch();
  // Makes the memory into which exchanged operands come (collective_send_recv.h), once.
  Status make_exchange(size_t bytes);
  // Returns its kernel address; null before make_exchange().
  uint8_t* exchange() const noexcept { return exchange_; }
  // Makes sure that so many bytes may be put aside, as Aside::reserve() does.
  Status reserve_aside(size_t bytes, bool in_graphs) { return aside_.reserve(device_, bytes, in_graphs); }
  // Returns where they are put; null before reserve_aside().
  uint8_t* aside() const noexcept { return aside_.memory(); }

 private:
  gpu::Device& device_;
  gpu::Stream stream_ = nullptr;
  uint8_t *scratch_ = nullptr, *exchange_ = nullptr;
  Aside aside_;
};

}  // namespace gpucoll::core
