// Keeps what a program has registered with one communicator (gpucollCommRegister).
//
// Handles are numbers that are given once for a communicator, so that one that was given back is told from others.
// Thread safety: as the communicator's: one caller at a time. Ownership: registered memory stays the program's; what it
// pins in the communicator's exports is given back before these go.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "base/status.h"
#include "core/comm/communicator.h"

namespace gpucoll::coll {

class Registrations {
 public:
  // The handle. Memory that others cannot open is taken as well: it has no use, and does no harm.
  void* add(core::Communicator& communicator, const void* kernel_address);
  // Errors: invalid_argument, where there is no such handle (any more).
  Status remove(core::Communicator& communicator, void* handle);
  // Gives back all that is left.
  void remove_all(core::Communicator& communicator);

 private:
  struct Made {
    std::optional<core::ExportedPlace> place;
    bool published;  // for direct stores
  };
  static void give_back(core::Communicator& communicator, const Made& made);

  std::map<uintptr_t, Made> made_;
  uintptr_t last_ = 0;
  bool told_ = false;  // that there was no place
};

}  // namespace gpucoll::coll
