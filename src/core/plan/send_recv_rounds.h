// In which order sends and receives become items: those that meet each other on two ranks come at the same place on
// both.
//
// Thread safety: pure functions.
#pragma once
#include <algorithm>
#include <vector>

#include "core/plan/task.h"

namespace gpucoll::core {

// One direction of a SendRecvItem, and its place in the order of rounds.
struct Direction {
  uint32_t pass, distance;
  const TaskQueue::Pair* task;
  bool operator<(const Direction& other) const {
    return pass != other.pass ? pass < other.pass : distance < other.distance;
  }
};

// The directions in the order of passes and rounds; the k-th with a peer belongs to pass k.
template <class Distance>
std::vector<Direction> order_rounds(const std::vector<TaskQueue::Pair>& tasks, Distance&& distance) {
  std::vector<Direction> directions;
  directions.reserve(tasks.size());
  for (const TaskQueue::Pair& task : tasks) directions.push_back({0, distance(task.peer), &task});
  std::stable_sort(directions.begin(), directions.end(),
                   [](const Direction& a, const Direction& b) { return a.distance < b.distance; });
  bool one_pass = true;
  for (size_t i = 1; i < directions.size(); ++i) {
    if (directions[i].distance != directions[i - 1].distance) continue;
    directions[i].pass = directions[i - 1].pass + 1;
    one_pass = false;
  }
  if (!one_pass) std::sort(directions.begin(), directions.end());  // no two are alike
  return directions;
}

}  // namespace gpucoll::core
