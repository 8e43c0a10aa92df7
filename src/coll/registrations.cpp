#include "coll/registrations.h"

namespace gpucoll::coll {
namespace {

void give_back(core::Communicator& communicator, const std::optional<core::ExportedPlace>& place) {
  if (place && communicator.direct()) communicator.direct()->withdraw(*place);
  if (place) communicator.exports().unpin(*place);
}

}  // namespace

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
  give_back(communicator, it->second);
  made_.erase(it);
  return {};
}

void Registrations::remove_all(core::Communicator& communicator) {
  for (const auto& [handle, place] : made_) give_back(communicator, place);
  made_.clear();
}

}  // namespace gpucoll::coll
