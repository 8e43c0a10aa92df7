// In which order sends and receives become items: those that meet each other on two ranks come at the same place on
// both.
//
// Thread safety: pure functions.
#pragma once
#include <algorithm>
#include <vector>

#include "core/plan/task.h"

namespace gpucoll::core {

// One half of a PairItem, and its place in the order of rounds.
struct Half {
  uint32_t pass, distance;
  const TaskQueue::Pair* task;
  bool operator<(const Half& other) const { return pass != other.pass ? pass < other.pass : distance < other.distance; }
};

// The halves in the order of passes and rounds; the k-th with a peer belongs to pass k.
template <class Distance>
std::vector<Half> in_rounds(const std::vector<TaskQueue::Pair>& tasks, Distance&& distance) {
  std::vector<Half> halves;
  halves.reserve(tasks.size());
  for (const TaskQueue::Pair& task : tasks) halves.push_back({0, distance(task.peer), &task});
  std::stable_sort(halves.begin(), halves.end(), [](const Half& a, const Half& b) { return a.distance < b.distance; });
  bool one_pass = true;
  for (size_t i = 1; i < halves.size(); ++i) {
    if (halves[i].distance != halves[i - 1].distance) continue;
    halves[i].pass = halves[i - 1].pass + 1;
    one_pass = false;
  }
  if (!one_pass) std::sort(halves.begin(), halves.end());  // no two are alike
  return halves;
}

}  // namespace gpucoll::core
