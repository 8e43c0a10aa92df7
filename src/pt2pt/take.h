// Takes a message that another process has offered: copies it from there, by kernel or copy engine, or through the
// other's bounce where its memory cannot be opened here, or not now.
//
// Thread safety: one caller at a time. Ownership: leads the slot on to done or failed.
#pragma once
#include <chrono>

#include "mpi/datatype/type_cache.h"
#include "pt2pt/device_ends.h"
#include "pt2pt/transfer.h"

namespace gpucoll::pt2pt {

class Take final : public gc_transfer {
 public:
  // REQUIRES: the slot is offered to this process.
  Take(const Peer& from, proto::OutboxSlot& slot, const gc_message_data& target);
  ~Take() override;
  Result<bool> advance() override;

 private:
  enum class Way { opening, copying, by_host, done };
  Status open();
  Status start_copy(const uint8_t* source);
  Status look_at_copy();
  Status ask_for_bounce();
  Status take_from_bounce();
  Status store(const void* packed);

  proto::OutboxSlot& slot_;
  const gc_message_data target_;
  const size_t bytes_;  // to be stored
  Way way_ = Way::opening;
  std::chrono::steady_clock::time_point began_;
  DeviceEnd* end_ = nullptr;
  gpu::Event event_ = nullptr;
  coll::TypeCache::Pointer holds_;
  uint8_t* gathered_ = nullptr;  // host memory for all of it, by host
};

}  // namespace gpucoll::pt2pt
