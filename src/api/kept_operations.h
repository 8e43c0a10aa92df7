// Keeps the last operations of one communicator that came alone, outside of groups, with the hit in the plan cache that
// each of them had: an operation that comes again is neither checked nor made into tasks anew (docs/adr/0053).
//
// An operation is the same where all that it was made from is: its arguments, and what the device runtime says of its
// buffers, which is asked each time. core::enqueue_again() looks at the rest: the communicator, its shape, the group.
//
// Thread safety: one caller at a time. Ownership: borrows nothing.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/comm/group.h"
#include "gpu/known_memory.h"
#include "gpucoll/gpucoll.h"
#include "proto/format/plan.h"

namespace gpucoll::coll {

// The arguments of an operation, as the program passes them.
struct Operation {
  const void* send;
  const void* recv;
  size_t count;
  gpucollStream_t stream;
  proto::Function function;
  gpucollDataType_t type;
  gpucollRedOp_t op = gpucollSum;
  int root = 0;

  bool operator==(const Operation&) const = default;
};

class KeptOperations {
 public:
  // Carries the operation out where it is kept and nothing has changed since; returns whether it has tried, and then
  // what came of it in *status.
  bool enqueue_again(const core::CommShare& share, const Operation& operation, Status* status);
  // Keeps an operation that has been checked and enqueued, where it can be enqueued again. uses_send, uses_recv: which
  // of the buffers were looked at.
  void keep(const Operation& operation, bool uses_send, bool uses_recv, const core::Repeat& repeat) noexcept;
  // Forgets all, where what an argument stands for changes, or the communicator ends.
  void forget() noexcept { entries_.reset(); }

 private:
  static constexpr size_t kMost = 4;
  struct Entry {
    uint64_t last_use = 0;  // 0: empty
    Operation operation;
    gpu::KnownMemory send, recv;
    core::Repeat repeat;
  };
  std::unique_ptr<std::array<Entry, kMost>> entries_;  // null until the first one: most communicators have none
  uint64_t now_ = 0;
};

}  // namespace gpucoll::coll
