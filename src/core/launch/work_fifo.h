// The work FIFO of a communicator: work items that do not fit into a launch's arguments, in host memory that kernels
// read. A ring: room is given out in pieces that lie in a row, and comes back when the launch that reads them is done.
//
// Thread safety: one caller at a time. Ownership: owns the memory; the device outlives it.
// Invariant: what a launch that is not done may read is never given out again.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>

#include "gpu/device.h"

namespace gpucoll::core {

class WorkFifo {
 public:
  static Result<std::unique_ptr<WorkFifo>> create(gpu::Device& device, size_t n_items);
  ~WorkFifo();
  WorkFifo(const WorkFifo&) = delete;
  WorkFifo& operator=(const WorkFifo&) = delete;

  size_t capacity() const { return capacity_; }
  // Room for n items in a row, read by launch number `launch` alone; null while there is none: ask again when more
  // launches are done. `done`: so many launches have finished. REQUIRES: n <= capacity(); launch never decreases.
  proto::WorkItem* reserve(size_t n, uint64_t launch, uint64_t done);
  // The kernel address of what reserve() gave.
  const proto::WorkItem* kernel_address(const proto::WorkItem* items) const;

 private:
  struct Use {
    uint64_t end;     // position behind the piece
    uint64_t launch;  // that reads it
  };
  WorkFifo(gpu::Device& device, gpu::HostBlock block, size_t capacity)
      : device_(device), block_(block), capacity_(capacity) {}
  void take_back(uint64_t done);

  gpu::Device& device_;
  gpu::HostBlock block_;
  size_t capacity_;
  // Positions only grow; item p lies at p modulo capacity. In use: [first_, next_).
  uint64_t first_ = 0, next_ = 0;
  std::deque<Use> uses_;
};

}  // namespace gpucoll::core
