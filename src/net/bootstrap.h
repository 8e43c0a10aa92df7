// How the ranks of a communicator exchange small things before they have connections: an allgather.
//
// Two implementations: over MPI's own collectives (core hands in a callback) and over sockets from a unique id.
// Thread safety: one caller at a time. Every wait is bounded by the caller's patience (see Patience).
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
};

}  // namespace gpucoll::net
