// Holds for each device of this process what messages need: queues of copies, streams, events, memory for packed data,
// and which memory others and this process have opened.
//
// Thread safety: any thread. Ownership: lives until the process ends.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/memory/registration.h"
#include "gpu/device.h"
#include "mpi/staging/copy_queue.h"
#include "pt2pt/host_slots.h"
#include "pt2pt/outboxes.h"
#include "pt2pt/peer_lists.h"

namespace gpucoll::pt2pt {

class DeviceEnd {
 public:
  DeviceEnd(gpu::Device& of, uint32_t index, uint32_t* live)
      : device(of), number(index), exports(of, live), slots(of), imports_(of) {}
  DeviceEnd(const DeviceEnd&) = delete;
  DeviceEnd& operator=(const DeviceEnd&) = delete;

  // Errors: unsupported, where the process has too many devices; the device's.
  static Result<DeviceEnd*> of(gpu::Device& device);
  // Launches the copies that the queues of all devices hold.
  static void launch_copies();
  // Returns the device that the first `bytes` bytes of the data belong to; for host memory, one that this process uses.
  // kind: of the memory; may be null. Errors: invalid_argument, for memory that is not allocated.
  static Result<gpu::Device*> device_of(const gc_message_data& data, size_t bytes, gpu::MemoryKind* kind = nullptr);

  // Returns the address here of memory of a peer's device. Stores false in *idle, and returns null, while something of
  // this process is in flight beside which nothing may be opened. Errors: the device's.
  Result<uint8_t*> open(const Peer& peer, uint32_t of, const core::ExportedPlace& place, bool* idle);

  // The copies by kernels; its done word is the outbox's.
  coll::CopyQueue& copies() { return *copies_; }
  // The kernel address of a slot's part of this process's eager memory.
  uint8_t* eager_of(const proto::OutboxSlot& slot) const;
  // A stream for copy engines.
  Result<gpu::Stream> stream();
  // A stream for pieces of messages between nodes: those that are sent do not wait for those that are received.
  Result<gpu::Stream> stream_of_pieces(bool sends);
  // Waits for what stream() has been given.
  Status synchronize();
  Result<gpu::Event> take_event();
  void put_event(gpu::Event event);
  // Device memory that others can open (kernel address).
  Result<uint8_t*> take_memory(size_t bytes);
  void put_memory(uint8_t* memory);

  gpu::Device& device;
  const uint32_t number;  // of the outbox's table of allocations
  core::Exports exports;
  PeerLists lists;
  HostSlots slots;

 private:
  void release(uint8_t* memory);
  Status begin();
  void close_freed();

  std::mutex mutex_;
  std::unique_ptr<coll::CopyQueue> copies_;
  proto::Outbox* outbox_ = nullptr;  // kernel address
  core::Imports imports_;
  uint64_t opens_ = 0;
  gpu::Stream stream_ = nullptr, stream_of_pieces_[2] = {};
  std::vector<gpu::Event> events_;
  std::multimap<size_t, uint8_t*> spare_;
  size_t spare_bytes_ = 0;
  std::map<uint8_t*, size_t> taken_;
};

}  // namespace gpucoll::pt2pt
