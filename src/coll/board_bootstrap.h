// How the ranks of an MPI communicator make its runtime communicator: an allgather on the arrival board, so that it
// needs nothing of MPI and may run on any thread.
//
// Thread safety: one caller at a time, once in the life of a communicator for each meeting. Ownership: borrows all that
// it is given.
#pragma once
#include "coll/arrivals.h"
#include "net/bootstrap.h"

namespace gpucoll::coll {

class BoardBootstrap final : public net::Bootstrap {
 public:
  // meeting: GC_MEETING_*. place: the collective that every rank has come to with device memory. idle: called while it
  // waits, may be null.
  BoardBootstrap(const gc_comm_description& description, Arrivals& arrivals, uint32_t meeting, const Place& place,
                 void (*idle)())
      : description_(description), arrivals_(arrivals), meeting_(meeting), place_(place), idle_(idle) {}
  int rank() const override { return description_.rank; }
  int size() const override { return description_.size; }
  Status allgather(const void* mine, void* all, size_t bytes) override;

 private:
  Result<const uint8_t*> await(Arrivals::Wait& wait);
  const gc_comm_description& description_;
  Arrivals& arrivals_;
  uint32_t meeting_;
  Place place_;
  void (*idle_)();
  uint64_t exchanges_ = 0;
};

}  // namespace gpucoll::coll
