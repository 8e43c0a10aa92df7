// A graph of the emulated device: what was put into the streams of a capture, in the order of the calls.
//
// Each stream of the capture has a queue of the recording's own beside it, a lane. A replay puts all steps into the
// lanes once more, in recorded order: whatever ran side by side when it was captured does so again, and replays of one
// recording follow each other. Events are recorded and waited for as the steps are put, at each replay anew.
// Thread safety: until finish() the caller locks; replay() may be called from any thread. Ownership: shared_ptr, as
// each replay keeps the recording until it has run. Invariant: lane 0 is that of the stream that began the capture.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu/emu/queue.h"

namespace gpucoll::gpu::emu {

class Recording {
 public:
  explicit Recording(uint64_t id) : id_(id) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  // Calls what was kept.
  ~Recording();

  using LanePointer = std::shared_ptr<Queue>;  // why shared: see queue.h

  uint64_t id() const noexcept { return id_; }
  LanePointer add_lane(int device);
  const LanePointer& first_lane() const { return lanes_.front(); }
  void add(const LanePointer& lane, Work work) { steps_.push_back({lane.get(), std::move(work)}); }
  void keep(void (*release)(void*), void* argument) { kept_.emplace_back(release, argument); }

  // Ends the capture. Errors: invalid_usage, where lane 0 does not wait for all that is in the others.
  Status finish();
  // Puts everything into `stream`, as one piece of it. REQUIRES: self is this; finish() succeeded.
  Status replay(const std::shared_ptr<Recording>& self, const std::shared_ptr<Queue>& stream);

 private:
  struct Step {
    Queue* lane;
    Work work;
  };
  bool joined() const;

  const uint64_t id_;
  std::mutex replay_;  // one replay after another is put into the lanes
  std::vector<LanePointer> lanes_;
  std::vector<Step> steps_;
  std::vector<std::pair<void (*)(void*), void*>> kept_;
};

}  // namespace gpucoll::gpu::emu
