// Lets the ranks of one device tell each other in shared memory (proto/format/device_group.h): the members what they
// ask for, their leader that it is done.
//
// Memory is named by places in exported allocations (core/memory/registration.h), which the leader opens once. What its
// owner has freed is found by the watchdog, and closed by the proxy, as closing may wait for the device. Thread safety:
// one caller at a time; watchdog and proxy come in beside it. Ownership: owns this rank's page and exports, and what is
// open of others. REQUIRES: no kernel uses what is open when it is destroyed.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "base/shared_memory.h"
#include "core/memory/registration.h"
#include "core/plan/task.h"
#include "core/progress/proxy.h"
#include "core/progress/watchdog.h"
#include "mpi/datatype/address.h"
#include "proto/format/device_group.h"

namespace gpucoll::coll {

// Page-locked memory of this rank, which no other can open, and device memory that others use in its place.
struct AddressMap {
  const uint8_t* pinned = nullptr;  // kernel address
  size_t bytes = 0;
  uint8_t* memory = nullptr;  // kernel address

  const void* of(const void* kernel_address) const {
    const uintptr_t at = reinterpret_cast<uintptr_t>(kernel_address) - reinterpret_cast<uintptr_t>(pinned);
    return at < bytes ? moved(memory, static_cast<ptrdiff_t>(at)) : kernel_address;
  }
};

class MemberPages final : public core::Watched, public core::ProxyWork {
 public:
  static Result<std::unique_ptr<MemberPages>> create(gpu::Device& device, int n_ranks);
  ~MemberPages() override;

  SharedMemoryName name() const noexcept { return memory_.name(); }
  // The page of another rank.
  Status open(int rank, const SharedMemoryName& name);

  // Writes what this rank asks for onto its page; false where it cannot be told: memory that other processes cannot
  // open, or too much. REQUIRES: nobody reads the last call's any more.
  bool describe(const core::TaskQueue& part, const AddressMap& map);
  // Only whether it can be told; any place in the map will do.
  bool can_describe(const core::TaskQueue& part, const AddressMap& map);
  void submit(uint64_t call) noexcept;
  // A leader reads a member's pages: handed() returns whether the member has handed over its part. read() reads that
  // part, where `like` has the tasks of the same call but for their addresses.
  bool handed(int member, uint64_t call) const noexcept;
  Status read(int member, const core::TaskQueue& like, core::TaskQueue* part);

  // The leader calls this.
  void answer(uint64_t call, proto::LeaderAnswer answer, const char* why) noexcept;
  // Returns whether the leader has answered.
  bool answered(int leader, uint64_t call) const noexcept;
  // REQUIRES: answered().
  proto::LeaderAnswer answer_of(int leader) const noexcept { return page_of(leader).answer; }
  const char* reason_of(int leader) const noexcept { return page_of(leader).why; }

  void check() noexcept override;
  Progress progress() noexcept override { return Progress::none_pending; }
  void tidy() noexcept override { imports_.close_dropped_at_rest(mutex_); }

 private:
  MemberPages(gpu::Device& device, SharedMemory memory, size_t n_items, int n_ranks);
  static size_t bytes_for(size_t n_items) { return sizeof(proto::MemberPage) + n_items * sizeof(proto::MemberItem); }
  static proto::MemberItem* items_of(const SharedMemory& memory) {
    return reinterpret_cast<proto::MemberItem*>(static_cast<char*>(memory.data()) + sizeof(proto::MemberPage));
  }
  proto::MemberPage& own() const noexcept { return *static_cast<proto::MemberPage*>(memory_.data()); }
  const proto::MemberPage& page_of(int rank) const noexcept {
    return *static_cast<const proto::MemberPage*>(others_[static_cast<size_t>(rank)].data());
  }
  proto::MemberItem* add_item(proto::MemberKind kind);
  bool tell_all(const core::TaskQueue& part);
  bool tell(const void* kernel_address, proto::MemberPlace* place);
  bool tell(proto::MemberKind kind, const proto::PackItem& item);
  bool tell(proto::MemberKind kind, const core::TaskQueue::Pair& message);
  bool tell(const core::LocalTask& task);
  void drop_freed();
  Result<uint8_t*> open_place(int member, const core::ExportedPlace& place);
  Result<uint8_t*> find(int member, const proto::MemberPlace& place);
  Status add(int member, const proto::MemberItem& item, const core::TaskQueue& like, core::TaskQueue* part);
  Result<proto::PackItem> pack_of(int member, const proto::MemberItem& item);
  Result<core::LocalTask> reduction_of(int member, const proto::MemberItem& item);

  gpu::Device& device_;
  SharedMemory memory_;
  const size_t n_items_;
  // tell_all()'s.
  AddressMap address_map_;
  bool on_page_ = false;
  size_t n_told_ = 0;
  proto::MemberItem not_on_page_ = {};
  std::vector<SharedMemory> others_;  // by rank
  core::Exports exports_;
  std::mutex mutex_;  // of imports_
  core::Imports imports_;
};

}  // namespace gpucoll::coll
