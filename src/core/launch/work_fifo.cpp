#include "core/launch/work_fifo.h"

#include "base/mutant.h"

namespace gpucoll::core {

Result<std::unique_ptr<WorkFifo>> WorkFifo::create(gpu::Device& device, size_t n_items) {
  GC_TRY_AS(gpu::HostBlock block, device.allocate_host(n_items * sizeof(proto::WorkItem)));
  return std::unique_ptr<WorkFifo>(new WorkFifo(device, block, n_items));
}

WorkFifo::~WorkFifo() { device_.release_host(block_); }

void WorkFifo::take_back(uint64_t done) {
  for (; !uses_.empty() && uses_.front().launch <= done; uses_.pop_front()) first_ = uses_.front().end;
  // Unused as a whole, it begins anew: then a piece of any size has room.
  if (uses_.empty()) first_ = next_ = 0;
}

proto::WorkItem* WorkFifo::reserve(size_t n, uint64_t launch, uint64_t done) {
  take_back(done);
  const size_t to_end = capacity_ - next_ % capacity_;
  const uint64_t begin = n <= to_end ? next_ : next_ + to_end;  // in a row: what is left before the end may be skipped
  if (begin + n - first_ > capacity_ && !gc_mutant(306)) return nullptr;
  next_ = begin + n;
  uses_.push_back({next_, launch});
  return static_cast<proto::WorkItem*>(block_.host) + begin % capacity_;
}

const proto::WorkItem* WorkFifo::kernel_address(const proto::WorkItem* items) const {
  return static_cast<const proto::WorkItem*>(block_.kernel) + (items - static_cast<proto::WorkItem*>(block_.host));
}

}  // namespace gpucoll::core
