#include "core/planner.h"

#include <algorithm>

namespace gpucoll::core {

int channels_for(uint64_t bytes, const PlanShape& shape) {
  uint64_t share = bytes / static_cast<uint64_t>(std::max(shape.n_ranks, 1));
  uint64_t wanted = (share + kBytesPerChannelStep - 1) / kBytesPerChannelStep;
  return static_cast<int>(std::clamp<uint64_t>(wanted, 1, static_cast<uint64_t>(shape.n_channels)));
}

std::vector<PlannedLaunch> plan(const std::vector<Task>& tasks, const PlanShape& shape) {
  std::vector<PlannedLaunch> launches;
  for (const Task& task : tasks) {
    if (task.count == 0) continue;
    bool joins = !launches.empty() && launches.back().kernel == task.kernel && launches.back().stream == task.stream &&
                 launches.back().plan.n_items < proto::kMaxItems;
    if (!joins) launches.push_back({task.kernel, task.stream, {}});
    proto::Plan& p = launches.back().plan;
    int channels = channels_for(task.count * task.element_bytes, shape);
    p.items[p.n_items++] = {task.send, task.recv, task.count, static_cast<uint32_t>(channels), 0};
    p.channel_mask |= channels >= 64 ? ~0ull : (1ull << channels) - 1;
  }
  return launches;
}

}  // namespace gpucoll::core
