#include "pt2pt/pieces.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/observe/counters.h"
#include "mpi/staging/packed_copy.h"
#include "mpi/staging/pinned_pool.h"

using namespace gpucoll;
using coll::PinnedPool;

gc_pieces::gc_pieces(const gc_message_data& data, size_t bytes, size_t piece, bool sends)
    : data_(data), bytes_(bytes), piece_(piece), n_((bytes + piece - 1) / piece), sends_(sends) {}

gc_pieces::~gc_pieces() {
  const size_t ended = has_failed() ? 0 : sends_ ? given_ : emptied_;
  if (begun_ > ended) end_->device.synchronize(stream_).ignore();
  for (const Slot& slot : slots_) {
    end_->put_event(slot.event);
    if (!leaves_memory_) PinnedPool::instance().put(slot.memory);
  }
  if (packed_) end_->put_memory(packed_);
}

Status gc_pieces::begin() {
  memory_ = static_cast<uint8_t*>(data_.memory);
  if (bytes_ == 0 || !data_.on_device) return {};
  GC_TRY_AS(gpu::Device* const device, pt2pt::DeviceEnd::device_of(data_, bytes_));
  GC_TRY_AS(end_, pt2pt::DeviceEnd::of(*device));
  GC_TRY_AS(stream_, end_->stream_of_pieces(sends_));
  GC_TRY(add_slots());
  if (!data_.map) {
    memory_ = static_cast<uint8_t*>(device->kernel_address(data_.memory));
    return {};
  }
  GC_TRY_AS(packed_, end_->take_memory(bytes_));
  memory_ = packed_;
  return sends_ ? unpack() : Status();
}

// Takes page-locked memory for as many pieces as a message may have there, or for fewer where there is no more.
Status gc_pieces::add_slots() {
  slots_.reserve(kWindow);
  while (slots_.size() < std::min(n_, kWindow)) {
    auto* const memory = static_cast<uint8_t*>(PinnedPool::instance().get(&end_->device, piece_));
    if (!memory && !slots_.empty()) return {};
    if (!memory) return Status::error(Code::out_of_memory, "no %zu bytes of host memory for a message", piece_);
    auto event = end_->take_event();
    if (!event) {
      PinnedPool::instance().put(memory);
      return event.status();
    }
    slots_.push_back({memory, *event});
  }
  return {};
}

// Puts the copy between the data with gaps and the packed ones into the queue.
Status gc_pieces::unpack() {
  std::vector<proto::PackItem> items;
  GC_TRY_AS(holds_, coll::append_packed_copy(&items, end_->device, data_.map, data_.memory, packed_, bytes_, !sends_));
  GC_TRY_AS(launch_, end_->copies().add(items, false));
  is_unpacking_ = true;
  return {};
}

// Returns whether no kernel packs or unpacks the data.
Result<bool> gc_pieces::is_packed() {
  if (!is_unpacking_) return true;
  GC_TRY_AS(const bool ended, end_->copies().ended(launch_));
  if (ended) is_unpacking_ = false;
  return ended;
}

size_t gc_pieces::bytes_of(size_t number) const { return std::min(piece_, bytes_ - number * piece_); }

Status gc_pieces::start_copy(size_t number) {
  const Slot& slot = slot_of(number);
  uint8_t* const data = memory_ + number * piece_;
  const size_t bytes = bytes_of(number) - (gc_mutant(381) && number == kWindow ? 1 : 0);
  GC_TRY(sends_ ? end_->device.copy_async(slot.memory, data, bytes, stream_)
                : end_->device.copy_async(data, slot.memory, bytes, stream_));
  return end_->device.record(slot.event, stream_);
}

// Has the copy engine fill what slots are free.
Status gc_pieces::fill() {
  GC_TRY_AS(const bool packed, is_packed());
  for (; packed && begun_ < n_ && begun_ - moved_ < slots_.size(); ++begun_) GC_TRY(start_copy(begun_));
  return {};
}

// Has the copy engine empty the slots into which the PML has received, and looks which are empty.
Status gc_pieces::empty() {
  for (; begun_ < moved_; ++begun_) GC_TRY(start_copy(begun_));
  while (emptied_ < begun_) {
    GC_TRY_AS(const bool there, end_->device.reached(slot_of(emptied_).event));
    if (!there) break;
    ++emptied_;
  }
  return {};
}

Result<bool> gc_pieces::next(void** memory, size_t* bytes) {
  if (given_ == n_) return false;
  *bytes = bytes_of(given_);
  const bool by_slots = !slots_.empty();
  if (sends_ && has_failed()) {
    *bytes = 0;
  } else if (sends_ && by_slots) {
    GC_TRY(fill());
    if (given_ == begun_) return false;
    GC_TRY_AS(const bool there, end_->device.reached(slot_of(given_).event));
    if (!there) return false;
  } else if (by_slots) {
    if (!has_failed()) GC_TRY(empty());
    if (given_ - (has_failed() ? moved_ : emptied_) >= slots_.size()) return false;
  } else if (given_ - moved_ >= kWindow) {
    return false;
  }
  *memory = by_slots ? slot_of(given_).memory : memory_ + given_ * piece_;
  ++given_;
  count(Counter::pieces);
  count(Counter::pieces_bytes, *bytes);
  return true;
}

Status gc_pieces::moved() {
  ++moved_;
  if (has_failed() || slots_.empty()) return {};
  return sends_ ? fill() : empty();
}

Result<bool> gc_pieces::ended() {
  if (moved_ < n_) return false;
  if (sends_ || has_failed() || slots_.empty()) return true;
  GC_TRY(empty());
  if (emptied_ < n_) return false;
  if (packed_ && !launch_) GC_TRY(unpack());
  return is_packed();
}
