#include "api/registrations.h"

#include <utility>

#include "base/log.h"
#include "proto/format/direct.h"

namespace gpucoll::coll {

void Registrations::give_back(core::Communicator& communicator, const Made& made) {
  if (made.published) communicator.user_buffers()->withdraw(*made.place);
  if (made.place) communicator.exports().unpin(*made.place);
}

void* Registrations::add(core::Communicator& communicator, const void* kernel_address) {
  Made made = {communicator.exports().pin(kernel_address), false};
  core::UserBuffers* const direct = communicator.user_buffers();
  if (made.place && direct) {
    made.published = direct->publish(static_cast<const uint8_t*>(kernel_address), *made.place);
    if (!made.published && !std::exchange(told_, true))
      log::write(
          log::Level::warn,
          "gpucollCommRegister: rank %d has registered as many allocations as others can store into, %u: results "
          "in further ones go through buffers, until some are deregistered",
          communicator.rank(), proto::kDirectMemory);
  }
  made_.emplace(++last_, made);
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
  for (const auto& [handle, made] : made_) give_back(communicator, made);
  made_.clear();
}

}  // namespace gpucoll::coll
