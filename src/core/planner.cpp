#include "core/planner.h"

namespace gpucoll::core {
namespace {

CommShape without_mesh(CommShape shape) {
  shape.mesh = false;
  return shape;
}

}  // namespace

std::vector<PlannedLaunch> plan(const std::vector<Task>& tasks, const CommShape& shape, uint32_t* mesh_flag) {
  std::vector<PlannedLaunch> launches;
  for (const Task& task : tasks) {
    if (task.count == 0) continue;
    Choice choice = choose(task.count * task.element_bytes, task.one_shot ? shape : without_mesh(shape));
    bool one_shot = choice.algorithm == Algorithm::one_shot;
    const gpu::Kernel* kernel = one_shot ? task.one_shot : task.ring;
    PlannedLaunch* last = launches.empty() ? nullptr : &launches.back();
    if (!last || last->kernel != kernel || last->stream != task.stream || last->threads != choice.threads ||
        last->plan.n_items == proto::kMaxItems)
      last = &launches.emplace_back(PlannedLaunch{kernel, task.stream, choice.threads, {}});
    if (one_shot) *mesh_flag = proto::next_mesh_flag(*mesh_flag);
    proto::CollectiveItem& item = last->plan.items[last->plan.n_items++];
    item.send = task.send;
    item.recv = task.recv;
    item.count = task.count;
    item.n_channels = static_cast<uint32_t>(choice.channels);
    item.flag = one_shot ? *mesh_flag : 0;  // 0 also leaves a ring's chunks at their full size
    last->plan.channel_mask |= (uint64_t{1} << choice.channels) - 1;
  }
  return launches;
}

}  // namespace gpucoll::core
