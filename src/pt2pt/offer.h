// Offers a message to another process: tells where the data are, copies an eager message aside where the receiver does
// not take it at once, and serves a receiver that cannot open the memory.
//
// Thread safety: one caller at a time. Ownership: owns the slot until the receiver is done with it, or it leaves the
// slot to the receiver.
#pragma once
#include <chrono>

#include "base/observe/causes.h"
#include "mpi/datatype/type_cache.h"
#include "pt2pt/device_ends.h"
#include "pt2pt/transfer.h"

namespace gpucoll::pt2pt {

class Offer final : public gc_transfer {
 public:
  // Returns null where the PML must carry the data, and stores the cause where there is one to tell.
  static Result<std::unique_ptr<Offer>> make(const Peer& to, const gc_message_key& key, const gc_message_data& data,
                                             gc_send_mode mode, Cause* cause);
  ~Offer() override;
  void fill(gc_envelope* envelope) const;
  Result<bool> advance() override;

 private:
  Offer(const Peer& to, proto::OutboxSlot* slot, const gc_message_data& data, gc_send_mode mode);
  Status put_place();
  Status put_data();
  bool lies_in_one() const;
  bool put_list();
  Result<bool> put_layout();
  Status tell_place();
  Result<uint64_t> start_packing(uint8_t* to, bool to_host);
  Status pack();
  Status drive_eager();
  bool may_leave();
  Status feed();

  proto::OutboxSlot* const slot_;
  const gc_message_data message_;
  const bool must_be_taken_;  // before it may end; the PML waits for the receivers of small synchronous messages
  const std::chrono::steady_clock::time_point began_;
  DeviceEnd* end_ = nullptr;
  coll::TypeCache::Pointer holds_;
  uint64_t launch_ = 0;            // of the copies that it has begun
  uint8_t* packed_ = nullptr;      // memory of end_ with packed data
  const uint8_t* data_ = nullptr;  // kernel address
  bool left_ = false;
};

}  // namespace gpucoll::pt2pt
