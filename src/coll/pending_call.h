// A collective that the engine has been given to run when its turn comes: a nonblocking one, or a persistent one from
// its init to its end.
//
// Thread safety: plain data of PendingCalls, but `state`, which is stored with release. Ownership: PendingCalls owns
// it.
#pragma once
#include <chrono>
#include <cstdint>

#include "coll/mpi_runtime.h"

namespace gpucoll::coll {

class PendingCalls;

struct PendingCall : gc_pending {
  enum class Stage { queued, published, preparing, launching, running };
  explicit PendingCall(PendingCalls& its_owner) : gc_pending{GC_WAITS}, owner(its_owner) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  PendingCalls& owner;
  Stage stage = Stage::queued;
  bool on_device = false;  // on this rank
  DeviceCall call;
  gc_board_line line = {};
  Arrivals::Wait wait = {};
  std::chrono::steady_clock::time_point next_look_around;
  uint64_t launches = 0;  // that are done when it is
  Code code = Code::ok;   // once GC_ENDED
};

}  // namespace gpucoll::coll
