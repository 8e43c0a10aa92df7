// Finds out which kind of memory the buffers of a call are.
//
// Thread safety: any thread.
#pragma once
#include <optional>
#include <vector>

#include "abi/abi.h"
#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::coll {

struct BufferMemory {
  gpu::Device* device = nullptr;
  bool seen = false;             // by kernels: some of it
  bool results_on_host = false;  // or may be: some of it is not memory of a device
  bool send_on_host = false, recv_on_host = false;
  bool lacks_memory = false;  // some bytes are beyond the end of an allocation of a device, or in none
};

// Looks at all buffers. The device is the one that their memory is of; where they have none, `usual`, or (null) one
// that this process has used, or the thread's own. Errors: not all of the device memory is of one device, a buffer is
// partly host memory; what has been seen until then stays.
Status look_at_memory(const gc_call& call, int n_ranks, gpu::Device* usual, BufferMemory* memory);

// Keeps what the device runtime has said of a buffer without gaps, which has no bytes or is memory of a device.
class KnownBuffer {
 public:
  // Asks it; nullopt for other memory, and for blocks in several allocations.
  static std::optional<KnownBuffer> of(const gc_buffer& buffer, int n_blocks) noexcept;
  // Asks again, and returns whether it says the same: the memory has not been freed since. Then it also waits for
  // copies as look_at_memory() does.
  bool is_still() const noexcept;

 private:
  gpu::Platform* platform_ = nullptr;  // null: there is nothing to ask
  const uint8_t* address_ = nullptr;
  gpu::PointerInfo info_;
};

// Keeps what the device runtime has said of all memory of a call but host memory, for a call that is started again.
class RememberedMemory {
 public:
  // Forgets what it has kept, and asks about each allocation of the call's buffers. REQUIRES: look_at_memory() was ok.
  void remember(const gc_call& call, int n_ranks);
  // Asks again. Memory that was allocated anew, at the same address and on the same device, is remembered instead.
  // Errors: invalid_argument, where memory was freed or is of another kind now.
  Status check();

 private:
  struct Piece {
    const uint8_t* address;
    size_t bytes;  // from there on, in one allocation
    gpu::PointerInfo info;
  };
  void remember(gpu::Platform& platform, const gc_buffer& buffer, int n_blocks);
  static Status renew(gpu::Platform& platform, Piece* piece);

  std::vector<Piece> pieces_;
};

// A device that this process has had memory of in a call; null: none yet.
gpu::Device* used_device() noexcept;

}  // namespace gpucoll::coll
