// Takes a message that another process has offered: copies it from the sender's memory, by kernel or copy engine, or
// from where the sender has copied it in its outbox.
//
// Thread safety: one caller at a time. Ownership: leads the slot on to done or failed.
#pragma once
#include <chrono>
#include <deque>
#include <string>
#include <vector>

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
  enum class Way { opening, bringing_list, by_queue, by_engine, by_slots, by_eager, by_bounce, done };
  Status open();
  Result<uint8_t*> open_place(const core::ExportedPlace& place);
  Status open_memory();
  Status find_list(uint8_t* source);
  Status look_at_list();
  Status start_copy(uint8_t* source);
  Status unpack(uint8_t* source);
  Status gather(uint8_t* source);
  Status put_in_queue(const std::vector<proto::PackItem>& items);
  Status look_at_engine();
  bool suits_slots(const gpu::PointerInfo& target, bool is_out_of_reach) const;
  Status go_through_slots();
  Status fill_slots();
  Status empty_slots();
  Status ask_sender();
  Status take_eager();
  Status take_from_bounce();
  Status store(const void* packed);
  // Returns whether the sender copies the data aside, or has done so.
  bool comes_eagerly() const { return __atomic_load_n(&slot_.eager_at, __ATOMIC_RELAXED) != 0; }
  // Looks now and then whether the sender lives, and whether it has failed.
  Status look_at_sender();
  bool is_eager_there() const { return is_past(peer.outbox(), slot_, slot_.eager_at); }

  proto::OutboxSlot& slot_;
  const gc_message_data target_;
  const size_t bytes_;    // to be stored
  bool to_host_ = false;  // the memory may be the host's for the moment
  Way way_ = Way::opening;
  std::string unopened_;  // why this process could not open the memory; told at the end, when nobody holds a lock
  std::chrono::steady_clock::time_point began_;
  DeviceEnd* end_ = nullptr;
  uint64_t launch_ = 0;         // of the queue's copies
  gpu::Event event_ = nullptr;  // behind the copy engine's
  coll::TypeCache::Pointer holds_;
  PeerLists::Pointer list_;    // of the sender's type
  uint8_t* source_ = nullptr;  // while the list is brought, or the data go through slots
  // Slots that the copy engine fills, in the order of the data.
  struct Piece {
    uint8_t* slot;
    size_t bytes;
    gpu::Event there;
  };
  std::deque<Piece> pieces_;
  size_t begun_ = 0, stored_ = 0;  // bytes
  uint8_t* gathered_ = nullptr;    // host memory for the data
};

}  // namespace gpucoll::pt2pt
