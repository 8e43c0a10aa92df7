#include "core/connect/requirements.h"

#include <algorithm>
#include <iterator>

#include "core/plan/algorithm_choice.h"
#include "core/plan/copy_engine_reduction.h"

namespace gpucoll::core {
namespace {

void sort_out(std::vector<int>& peers) {
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
}

bool is_scan(Function function) { return function == Function::scan || function == Function::exscan; }

std::vector<int> united(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

}  // namespace

void Requirements::add(const Requirements& more) {
  ring |= more.ring;
  chain |= more.chain;
  reduces_in_ring |= more.reduces_in_ring;
  tree |= more.tree;
  mesh |= more.mesh;
  line_mesh |= more.line_mesh;
  copy_reductions |= more.copy_reductions;
  channels = std::max(channels, more.channels);
  send_to = united(send_to, more.send_to);
  receive_from = united(receive_from, more.receive_from);
}

Requirements required_by(const TaskQueue& queue, int rank, const CommProperties& shape) {
  Requirements required;
  if (shape.n_ranks == 1) return required;
  for (const CollectiveTask& task : queue.collectives) {
    if (task.count == 0) continue;
    required.copy_reductions |= reduces_by_copies(task, shape);
    if (reduces_by_copies(task, shape)) continue;
    const Choice choice = choose_for(task, shape);
    if (choice.algorithm == Algorithm::ring) {
      (is_scan(task.function) ? required.chain : required.ring) = true;
      required.reduces_in_ring |= task.kernels.plan != nullptr && !is_scan(task.function);
    }
    required.tree |= choice.algorithm == Algorithm::tree;
    required.mesh |= choice.algorithm == Algorithm::one_shot || choice.zero_copy;
    required.line_mesh |= choice.algorithm == Algorithm::all_pairs;
    // Loads puts an operation above others only where these leave no room below.
    if (choice.algorithm != Algorithm::one_shot)
      required.channels = std::min(required.channels + choice.channels, shape.n_channels);
  }
  for (const TaskQueue::Pair& task : queue.sends)
    if (task.peer != rank) required.send_to.push_back(task.peer);
  for (const TaskQueue::Pair& task : queue.recvs)
    if (task.peer != rank) required.receive_from.push_back(task.peer);
  sort_out(required.send_to);
  sort_out(required.receive_from);
  return required;
}

}  // namespace gpucoll::core
