// Which collectives with host memory alone this rank gives to the engine, as others would rather run them on the
// device.
//
// Ranks with host memory alone wait for the others only where these have device memory as a rule: a root that reads
// what it broadcasts. They learn it now and then from the others' wishes, and forget it when it is not so any more;
// each time they look less often. Blocking, nonblocking and persistent ones are weighed apart. Making a persistent one
// waits for nobody and is done once: there a rank expects others with device memory until that was in vain.
//
// Thread safety: look() by the caller of collectives; weigh() of one form by one thread at a time. Ownership: borrows
// all.
#pragma once
#include <cstdint>

#include "abi/abi.h"
#include "coll/match/board_entries.h"

namespace gpucoll::coll {

struct DevicePart;

class DeviceHints {
 public:
  DeviceHints(gc_comm& comm, const gc_comm_description& description, BoardEntries& entries);
  // Finds what to give to the engine from now on. `able`: calls of this form can run on devices.
  void look(uint32_t form, bool able) noexcept;
  // After the verdict on a call.
  void weigh(uint32_t form, uint32_t function, const DevicePart& part, bool on_device) noexcept;

 private:
  // Tells that this rank would rather run this function on its device.
  void wish(uint32_t form, uint32_t function) noexcept;
  // Returns the functions that others would rather run on theirs, 1 << GC_FUNCTION_*.
  uint64_t wishes(uint32_t form) const noexcept;

  gc_comm& comm_;
  const gc_comm_description& description_;
  BoardEntries& entries_;
  // By form: such calls that went through the host on all ranks, one after another; and whether so many ever did.
  int misses_[GC_FORMS] = {};
  bool doubts_[GC_FORMS] = {};
};

}  // namespace gpucoll::coll
