// Moves one side of a message between nodes in pieces, through page-locked memory: the copy engine fills or empties
// some pieces while the PML carries others. Memory of the host without gaps is used as it is.
//
// Pieces have one order on both sides. A message has at most kWindow pieces in host memory at a time. Data with gaps
// are packed into device memory first, and unpacked from there. Thread safety: one caller at a time. Ownership: owns
// its host and device memory; borrows the data.
#pragma once
#include <vector>

#include "mpi/datatype/type_cache.h"
#include "pt2pt/device_ends.h"

struct gc_pieces {
 public:
  static constexpr size_t kWindow = 4;

  // `bytes` bytes of the data go in pieces of `piece` bytes.
  gc_pieces(const gc_message_data& data, size_t bytes, size_t piece, bool sends);
  ~gc_pieces();
  gc_pieces(const gc_pieces&) = delete;
  gc_pieces& operator=(const gc_pieces&) = delete;

  // Takes the memory that it needs; must be called first. Errors: out_of_memory; the device's.
  gpucoll::Status begin();
  // Returns whether the next piece may go to the PML: one that is in host memory, or room for one that is to come.
  gpucoll::Result<bool> next(void** memory, size_t* bytes);
  // The PML has moved the oldest piece that it was given.
  gpucoll::Status moved();
  // Returns whether all data are where they belong, and the PML has no piece.
  gpucoll::Result<bool> ended();
  // Something has failed: from now on pieces of a sender are empty, and those of a receiver are dropped.
  void fail(gpucoll::Code why) noexcept { failed_ = why; }
  gpucoll::Code failed() const noexcept { return failed_; }
  // The PML may go on using memory that it was given.
  void leave_memory() noexcept { leaves_memory_ = true; }

 private:
  bool has_failed() const noexcept { return failed_ != gpucoll::Code::ok; }
  gpucoll::Status add_slots();
  gpucoll::Result<bool> is_packed();
  gpucoll::Status unpack();
  gpucoll::Status fill();
  gpucoll::Status empty();
  gpucoll::Status start_copy(size_t number);
  size_t bytes_of(size_t number) const;
  struct Slot {
    uint8_t* memory;
    gpucoll::gpu::Event event;
  };
  Slot& slot_of(size_t number) { return slots_[number % slots_.size()]; }

  const gc_message_data data_;
  const size_t bytes_, piece_, n_;
  const bool sends_;
  gpucoll::Code failed_ = gpucoll::Code::ok;
  bool leaves_memory_ = false, is_unpacking_ = false;
  gpucoll::pt2pt::DeviceEnd* end_ = nullptr;
  gpucoll::coll::TypeCache::Pointer holds_;
  uint64_t launch_ = 0;        // that packs or unpacks
  uint8_t* packed_ = nullptr;  // of end_
  uint8_t* memory_ = nullptr;  // of the data without gaps: kernel address, or of the host
  gpucoll::gpu::Stream stream_ = nullptr;
  std::vector<Slot> slots_;  // none: the pieces lie in host memory already
  // Numbers of pieces. A sender: begun_ copies, given_ to the PML, which has moved_. A receiver: given_ to the PML,
  // which has moved_; begun_ copies, of which emptied_ have ended.
  size_t begun_ = 0, given_ = 0, moved_ = 0, emptied_ = 0;
};
