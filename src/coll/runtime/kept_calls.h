// Keeps the last blocking calls of one MPI communicator as they were made, with their lines on the board and the hit in
// the plan cache: a call that comes again is neither made nor looked up anew (docs/adr/0050).
//
// A call is the same where all that it was made from is: its arguments, and what the device runtime says of its
// buffers, which is asked each time. Kept are calls that are tasks for the device and nothing else, and whose plan is
// kept: nothing is packed, staged, or put into scratch memory.
//
// Thread safety: one caller at a time. Ownership: borrows nothing but what tasks and plans do.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "abi/abi.h"
#include "coll/runtime/mpi_runtime.h"
#include "mpi/staging/buffer_memory.h"

namespace gpucoll::coll {

class KeptCalls {
 public:
  // Returns the call as it was kept; null where it is not. What the program has begun to copy from and to its buffers
  // has ended then. Good until the next keep().
  DeviceCall* find(const gc_call& call) noexcept;
  // Keeps a call that has been prepared() and is over, where it can be kept; then takes its tasks.
  void keep(const gc_call& call, DeviceCall& made);

 private:
  static constexpr size_t kMost = 4;
  struct Entry {
    uint64_t last_use = 0;  // 0: empty
    gc_call call;
    KnownBuffer send, recv;
    DeviceCall made;
  };
  std::unique_ptr<std::array<Entry, kMost>> entries_;  // null until the first one: most communicators have none
  uint64_t now_ = 0;
};

}  // namespace gpucoll::coll
