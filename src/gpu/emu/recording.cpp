#include "gpu/emu/recording.h"

#include <set>

namespace gpucoll::gpu::emu {

Recording::~Recording() {
  for (const LanePointer& lane : lanes_) lane->close();
  for (const auto& [release, argument] : kept_) release(argument);
}

Recording::LanePointer Recording::add_lane(int device) { return lanes_.emplace_back(std::make_shared<Queue>(device)); }

// Walks back from the end of lane 0: a lane is reached where one that is reached already waits for it.
bool Recording::joined() const {
  std::set<const Queue*> reached{lanes_.front().get()};
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const auto* wait = std::get_if<WaitQueue>(&step->work);
    if (reached.count(step->lane) == 0) {
      if (wait == nullptr) return false;
    } else if (wait != nullptr) {
      reached.insert(wait->other.get());
    }
  }
  return true;
}

Status Recording::finish() {
  if (!joined())
    return Status::error(Code::invalid_usage,
                         "a capture was ended while work of another stream that takes part in it was not waited for; "
                         "let the first stream wait for the others before the end");
  for (const LanePointer& lane : lanes_) GC_TRY(lane->reserve(1));
  for (const Step& step : steps_)
    if (const auto* launch = std::get_if<KernelLaunch>(&step.work))
      GC_TRY(step.lane->reserve(launch->blocks * launch->threads));
  return {};
}

Status Recording::replay(const std::shared_ptr<Recording>& self, const std::shared_ptr<Queue>& stream) {
  std::lock_guard lock(replay_);
  GC_TRY(stream->reserve(1));  // the last call that may fail: a replay is put whole or not at all
  GC_TRY(lanes_.front()->put(WaitQueue{stream}));
  for (const Step& step : steps_) GC_TRY(step.lane->put(step.work));
  GC_TRY(stream->put(WaitQueue{lanes_.front()}));
  return stream->put(Keep{self});
}

}  // namespace gpucoll::gpu::emu
