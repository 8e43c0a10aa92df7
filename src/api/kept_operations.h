// Keeps the last operations and messages of one communicator that came alone, outside of groups, with the hit in the
// plan cache that each of them had: an operation that comes again is neither checked nor made into tasks anew
// (docs/adr/0053).
//
// An operation is the same where all that it was made from is: its arguments, and what the device runtime says of its
// buffers, which is asked each time. core::enqueue_again() looks at the rest: the communicator, its shape, the group.
//
// Thread safety: one caller at a time. Ownership: borrows nothing.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "core/comm/group.h"
#include "core/comm/recent_table.h"
#include "gpu/known_memory.h"
#include "gpucoll/gpucoll.h"
#include "proto/format/plan.h"

namespace gpucoll::coll {

// Counts and displacements by peer, where they are given: those of what is sent, then those of what is received.
struct Lists {
  std::array<const size_t*, 4> lists = {};  // null: it is not given, or not looked at
  size_t length = 0;                        // of each

  // Returns whether the same are given, with equal numbers.
  bool operator==(const Lists& other) const noexcept;
};

// The arguments of an operation, as the program passes them.
struct Operation {
  proto::Function function = proto::Function::send_recv;
  const void* send = nullptr;
  const void* recv = nullptr;
  size_t send_count = 0, recv_count = 0;  // 0: there is none
  gpucollStream_t stream = nullptr;
  gpucollDataType_t type = gpucollInt8;
  gpucollRedOp_t op = gpucollSum;
  int root = 0;                        // or the peer
  bool sends = true, receives = true;  // of messages and exchanges: this rank has parts to send, or to receive
  Lists lists = {};

  bool operator==(const Operation&) const = default;
};

// An operation that has been checked and enqueued.
struct Enqueued {
  bool uses_send, uses_recv;  // which of the buffers were looked at
  core::Repeat repeat;
};

class KeptOperations {
 public:
  // Carries an operation out: as it is kept, where nothing has changed since; else by enqueue(), which gives a
  // Result<Enqueued>. Then it keeps the operation, with a copy of its lists, where it can be enqueued again.
  template <class Enqueue>
  Status run(const core::CommShare& share, const Operation& operation, Enqueue&& enqueue) {
    Status status;
    if (enqueue_again(share, operation, &status)) return status;
    GC_TRY_AS(const Enqueued enqueued, enqueue());
    keep(operation, enqueued);
    return {};
  }
  // Forgets all, where what an argument stands for changes, or the communicator ends.
  void forget() noexcept { entries_.forget_all(); }

 private:
  // Returns whether it has tried, and then what came of it in *status.
  bool enqueue_again(const core::CommShare& share, const Operation& operation, Status* status);
  void keep(const Operation& operation, const Enqueued& enqueued) noexcept;

  struct Entry {
    Operation operation;
    std::vector<size_t> numbers;  // where the operation's lists point
    gpu::KnownMemory send, recv;
    core::Repeat repeat;
  };
  RecentTable<Entry> entries_;
};

}  // namespace gpucoll::coll
