#include "coll/registrations.h"

namespace gpucoll::coll {

void* Registrations::add(core::Communicator& communicator, const void* kernel_address) {
  const auto place = communicator.exports().pin(kernel_address);
  made_.emplace(++last_, place);
  if (place && communicator.direct())
    communicator.direct()->publish(static_cast<const uint8_t*>(kernel_address), *place);
  return reinterpret_cast<void*>(last_);
}

Status Registrations::remove(core::Communicator& communicator, void* handle) {
  const auto it = made_.find(reinterpret_cast<uintptr_t>(handle));
  if (it == made_.end())
    return Status::error(Code::invalid_argument,
                         "handle %p was not given by gpucollCommRegister of this communicator, or was given back",
                         handle);
  if (it->second && communicator.direct()) communicator.direct()->withdraw(*it->second);
  if (it->second) communicator.exports().unpin(*it->second);
  made_.erase(it);
  return {};
}

}  // namespace gpucoll::coll
