#include "core/launch/graph_users.h"

#include <algorithm>
#include <utility>

namespace gpucoll::core {

GraphUsers& GraphUsers::instance() {
  // Never destroyed: a graph may end after the process's static objects.
  static GraphUsers* users = new GraphUsers;
  return *users;
}

void GraphUsers::add(uint64_t capture, GraphUser* user) {
  std::lock_guard lock(mutex_);
  Users& users = captures_[capture];
  if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
}

void GraphUsers::bind(uint64_t capture, gpu::Graph graph) {
  std::lock_guard lock(mutex_);
  const auto its = captures_.find(capture);
  graphs_.erase(graph);  // one that was at its place, and has ended elsewhere
  if (its == captures_.end()) return;
  graphs_[graph] = {capture, std::move(its->second)};
  captures_.erase(its);
}

void GraphUsers::forget(gpu::Graph graph) noexcept {
  std::lock_guard lock(mutex_);
  graphs_.erase(graph);
}

void GraphUsers::forget(uint64_t capture) noexcept {
  std::lock_guard lock(mutex_);
  captures_.erase(capture);
  std::erase_if(graphs_, [=](const auto& graph) { return graph.second.capture == capture; });
}

Status GraphUsers::may_launch(gpu::Graph graph) {
  std::lock_guard lock(mutex_);
  const auto its = graphs_.find(graph);
  if (its == graphs_.end()) return {};
  for (GraphUser* user : its->second.users) GC_TRY(user->may_launch());
  return {};
}

}  // namespace gpucoll::core
