#include "coll/registrations.h"

namespace gpucoll::coll {

void* Registrations::add(core::Exports& exports, const void* kernel_address) {
  made_.emplace(++last_, exports.pin(kernel_address));
  return reinterpret_cast<void*>(last_);
}

Status Registrations::remove(core::Exports& exports, void* handle) {
  const auto it = made_.find(reinterpret_cast<uintptr_t>(handle));
  if (it == made_.end())
    return Status::error(Code::invalid_argument,
                         "handle %p was not given by gpucollCommRegister of this communicator, or was given back",
                         handle);
  if (it->second) exports.unpin(*it->second);
  made_.erase(it);
  return {};
}

}  // namespace gpucoll::coll
