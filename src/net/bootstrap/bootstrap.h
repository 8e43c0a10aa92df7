// How the ranks of a communicator exchange small things before they have connections: an allgather.
//
// Four implementations: SocketBootstrap uses sockets, from a unique id; coll::BoardBootstrap uses the arrival board of
// MPI's processes; core::MailboxBootstrap uses pages that connected ranks share; MeetingBootstrap of room api uses a
// function of its caller, such as an allgather of MPI.
// Thread safety: one caller at a time. Each implementation bounds its waits.
#pragma once
#include <cstddef>

#include "base/status.h"

namespace gpucoll::net {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // all[r * bytes .. ) = what rank r passed as `mine`, on every rank. Collective, in the same order on all ranks.
  virtual Status allgather(const void* mine, void* all, size_t bytes) = 0;
  // For a rank that waits for others outside of an allgather: returns ok while there is reason to, as far as is known
  // without waiting. Errors: what an allgather would end with.
  virtual Status look() { return {}; }
};

}  // namespace gpucoll::net
