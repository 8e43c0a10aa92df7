#include "core/connect/needs.h"

#include <algorithm>
#include <iterator>

#include "core/plan/chosen_collectives.h"
#include "core/plan/copy_reductions.h"

namespace gpucoll::core {
namespace {

void sort_out(std::vector<int>& peers) {
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
}

std::vector<int> united(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

}  // namespace

void Needs::add(const Needs& more) {
  ring |= more.ring;
  tree |= more.tree;
  mesh |= more.mesh;
  line_mesh |= more.line_mesh;
  copy_reductions |= more.copy_reductions;
  channels = std::max(channels, more.channels);
  send_to = united(send_to, more.send_to);
  receive_from = united(receive_from, more.receive_from);
}

Needs needs_of(const TaskQueue& queue, int rank, const CommShape& shape) {
  Needs needs;
  if (shape.n_ranks == 1) return needs;
  for (const CollectiveTask& task : queue.collectives) {
    if (task.count == 0) continue;
    needs.copy_reductions |= reduces_by_copies(task, shape);
    if (reduces_by_copies(task, shape)) continue;
    const Choice choice = choose_for(task, shape);
    needs.ring |= choice.algorithm == Algorithm::ring;
    needs.tree |= choice.algorithm == Algorithm::tree;
    needs.mesh |= choice.algorithm == Algorithm::one_shot || choice.zero_copy;
    needs.line_mesh |= choice.algorithm == Algorithm::all_pairs;
    // Loads puts an operation above others only where these leave no room below.
    if (choice.algorithm != Algorithm::one_shot)
      needs.channels = std::min(needs.channels + choice.channels, shape.n_channels);
  }
  for (const TaskQueue::Pair& task : queue.sends)
    if (task.peer != rank) needs.send_to.push_back(task.peer);
  for (const TaskQueue::Pair& task : queue.recvs)
    if (task.peer != rank) needs.receive_from.push_back(task.peer);
  sort_out(needs.send_to);
  sort_out(needs.receive_from);
  return needs;
}

}  // namespace gpucoll::core
