// Puts on a stream what a group does there besides launching kernels: its beginning before the launches, its end
// behind, and what belongs to steps between them (PlannedLaunch of Stage::step).
//
// Thread safety: one caller at a time, between begin() of whoever implements it and the launches.
#pragma once
#include <cstddef>

#include "base/status.h"
#include "gpu/device.h"

namespace gpucoll::core {

class StreamOps {
 public:
  virtual ~StreamOps() = default;
  // Before step 0, which every group has, and behind each step's launch with the number of the next one.
  virtual Status put_ready(gpu::Stream stream, uint32_t step) = 0;
  // Before a step's launch.
  virtual Status put_waits(gpu::Stream stream, uint32_t step) = 0;
  // Returns whether put_end() would have the stream wait for nothing that the host has still to do. Behind put_ready().
  virtual bool has_ended() const noexcept { return true; }
  // Also after a failure, if anything has been put.
  virtual Status put_end(gpu::Stream stream) = 0;
};

// Those of one group, one after the other.
class StreamOpsList final : public StreamOps {
 public:
  void clear() noexcept { n_ = 0; }
  bool empty() const noexcept { return n_ == 0; }
  void add(StreamOps& part) noexcept { parts_[n_++] = &part; }

  Status put_ready(gpu::Stream stream, uint32_t step) override {
    for (size_t i = 0; i < n_; ++i) GC_TRY(parts_[i]->put_ready(stream, step));
    return {};
  }
  Status put_waits(gpu::Stream stream, uint32_t step) override {
    for (size_t i = 0; i < n_; ++i) GC_TRY(parts_[i]->put_waits(stream, step));
    return {};
  }
  bool has_ended() const noexcept override {
    for (size_t i = 0; i < n_; ++i)
      if (!parts_[i]->has_ended()) return false;
    return true;
  }
  Status put_end(gpu::Stream stream) override {
    Status first;
    for (size_t i = 0; i < n_; ++i)
      if (Status status = parts_[i]->put_end(stream); first) first = std::move(status);
    return first;
  }

 private:
  static constexpr size_t kMost = 2;
  StreamOps* parts_[kMost] = {};
  size_t n_ = 0;
};

}  // namespace gpucoll::core
