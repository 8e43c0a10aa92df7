// Offers a message to another process, and serves it where it cannot open the memory.
//
// Thread safety: one caller at a time. Ownership: owns the slot until the receiver is done with it.
#pragma once
#include "pt2pt/device_ends.h"
#include "pt2pt/transfer.h"

namespace gpucoll::pt2pt {

class Offer final : public gc_transfer {
 public:
  // Returns null where the PML must carry the data.
  static Result<std::unique_ptr<Offer>> make(const Peer& to, const gc_message_key& key, const gc_message_data& data);
  ~Offer() override;
  void fill(gc_envelope* envelope) const;
  Result<bool> advance() override;

 private:
  Offer(const Peer& to, proto::OutboxSlot* slot) : gc_transfer(to), slot_(slot) {}
  // Returns false where others cannot open the memory.
  Result<bool> put_place(const gc_message_data& data);
  Status pack(const gc_message_data& data);
  Status feed();

  proto::OutboxSlot* const slot_;
  DeviceEnd* end_ = nullptr;
  uint8_t* packed_ = nullptr;      // memory of end_ with packed data
  const uint8_t* data_ = nullptr;  // kernel address
};

}  // namespace gpucoll::pt2pt
