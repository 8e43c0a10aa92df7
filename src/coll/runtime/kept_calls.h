// Keeps the last blocking calls of one MPI communicator as they were made, with their lines on the board and the hit in
// the plan cache: a call that comes again is neither made nor looked up anew (docs/adr/0050).
//
// A call is the same where all that it was made from is: its arguments, and what the device runtime says of its
// buffers, which is asked each time. Where the program's own arguments say all (gc_arguments), they alone are compared;
// else what the component has made of them. Kept are calls that are tasks for the device and nothing else, and whose
// plan is kept: nothing is packed, staged, or put into scratch memory.
//
// Thread safety: one caller at a time. Ownership: borrows nothing but what tasks and plans do.
#pragma once
#include <cstddef>
#include <vector>

#include "abi/abi.h"
#include "coll/runtime/mpi_runtime.h"
#include "core/comm/recent_table.h"
#include "mpi/staging/buffer_memory.h"

namespace gpucoll::coll {

// A call as it was kept.
struct KeptCall {
  // Copies of a buffer's lists; empty where it has none.
  struct Lists {
    std::vector<size_t> bytes;
    std::vector<ptrdiff_t> offsets;
  };
  gc_call call;            // its lists and arguments are copies
  gc_arguments arguments;  // where it has them
  uint64_t bytes;          // that this rank has in it
  Lists sent, received;
  std::vector<int> counts;
  KnownBuffer send, recv;
  DeviceCall made;
};

// Returns the hash by which calls are found. Calls in turn differ in a few bits of one word, and lie in many sets.
uint64_t hash_of(const gc_arguments& arguments) noexcept;

class KeptCalls {
 public:
  explicit KeptCalls(int n_ranks) : n_ranks_(n_ranks) {}

  // Return the call as it was kept; null where it is not. What the program has begun to copy from and to its buffers
  // has ended then. Good until the next keep(). A call that has arguments is found by them alone.
  KeptCall* find(const gc_arguments& arguments) noexcept;
  KeptCall* find(const gc_call& call) noexcept;
  // Keeps a call that has been prepared() and is over, where it can be kept; then takes its tasks.
  void keep(const gc_call& call, DeviceCall& made) noexcept;

 private:
  bool are_same(const gc_call& kept, const gc_call& call) const;
  // Writes a call down, with copies of its lists and arguments.
  void write_down(gc_call call, KeptCall* kept) const;
  // Returns the call, or forgets it and returns null where a buffer is other memory now. Inline for kept_calls.cpp.
  inline KeptCall* if_still(KeptCall* kept) noexcept;

  const int n_ranks_;
  RecentTable<KeptCall> calls_;
};

}  // namespace gpucoll::coll
