// Many sends and receives of one call: all-to-all, gather, scatter and their kin.
//
// Thread safety: as the communicator's.
#pragma once
#include <cstddef>

#include "base/status.h"
#include "core/comm/group.h"
#include "core/plan/task.h"
#include "task/collective_task.h"

namespace gpucoll::coll {

// One side of an exchange: what a rank sends to, or receives from, each peer. Names are those of the arguments.
struct Side {
  const char* name;
  const void* buffer;
  const char* count_name;
  size_t count;                    // of elements for each peer, where counts is null
  const size_t* counts = nullptr;  // by peer
  const size_t* displs = nullptr;  // in elements, by peer; null: one part after another
  const char* displs_name = nullptr;
  int only = kAllPeers;  // the one peer that has a part, or kNoPeer

  static constexpr int kAllPeers = -1, kNoPeer = -2;
};

struct ExchangeCall {
  Side send, recv;
  gpucollDataType_t type;
  gpucollStream_t stream;
  bool own_part_in_place;  // this rank's part may be where it belongs already
  // Where all parts are of one size, one after another: the collective of core that it is.
  core::Function function = core::Function::send_recv;
  int root = 0;
};

// Checks all of it, then enqueues it: the sends and receives as one group. Errors: as collective_task.h says.
// repeat: as core::enqueue() says.
Status enqueue_exchange(const Caller& caller, const core::CommShare& share, const ExchangeCall& call,
                        core::Repeat* repeat);

}  // namespace gpucoll::coll
