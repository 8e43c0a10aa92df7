// Hands this rank's part of each call over to the leader of its device, in memory that the leader can open, and takes
// back what has come there.
//
// Host memory of a call is in page-locked memory by now, which only this rank's kernels see: device memory stands for
// it.
//
// Thread safety: one caller at a time. Ownership: owns the pages and the device memory.
#pragma once
#include <memory>

#include "coll/runtime/mpi_runtime.h"
#include "coll/shared_gpu/member_pages.h"

namespace gpucoll::coll {

class OwnPart {
 public:
  // Makes this rank's pages, if there are none. Returns false where they cannot be.
  bool make_pages(gpu::Device& device, int n_ranks);
  MemberPages& pages() const { return *pages_; }
  // Returns the device of the pages; null: there have been none.
  gpu::Device* device() const noexcept { return device_; }
  bool emulated() const noexcept { return emulated_; }

  // Return whether the leader can be told the part, and write it onto the page, for the call that comes next.
  bool can_describe(const DeviceCall& call);
  bool describe(const DeviceCall& call);
  // Forgets what has been described: that call has gone through the host.
  void forget() noexcept { described_ = false; }
  // Describes a call that has not been described, and uploads what it has in host memory, if it `uploads`. Returns
  // false where there is no memory to tell it.
  Result<bool> prepare(const DeviceCall& call, bool uploads);
  // Copies back what has come for host memory.
  Status take_back(const DeviceCall& call) const;

  // Gives the pages back at once. REQUIRES: nobody has opened them, and this rank has opened no others.
  void release_pages() { pages_.reset(); }
  // Gives the pages back once no kernel uses what is open; and the device memory at once.
  void release_when_idle();
  void release_memory() { mapped_memory_.release(); }

 private:
  bool make_address_map(const gpu::HostBlock& pinned);

  std::unique_ptr<MemberPages> pages_;
  gpu::Device* device_ = nullptr;
  bool emulated_ = false;
  bool described_ = false;
  Scratch mapped_memory_;
  AddressMap address_map_;
};

}  // namespace gpucoll::coll
