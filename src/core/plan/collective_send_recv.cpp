#include "core/plan/collective_send_recv.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/params.h"
#include "core/plan/tuning_file.h"

namespace gpucoll::core {
namespace {

uint64_t bytes_of(const CollectiveTask& task) { return task.count * task.element_bytes; }

// Which rank has something for which, and whether `send` has a block for each rank, and `recv` one of each.
struct Pattern {
  bool from_root, to_root, sends_blocks, receives_blocks;
};
Pattern pattern_of(Function function) {
  switch (function) {
    case Function::broadcast: return {true, false, false, false};
    case Function::scatter: return {true, false, true, false};
    case Function::gather: return {false, true, false, true};
    case Function::all_gather: return {false, false, false, true};
    default: return {false, false, true, true};  // all_to_all
  }
}

class Messages {
 public:
  explicit Messages(const CollectiveTask& task)
      : task_(task),
        pattern_(pattern_of(task.function)),
        exchange_(task.function == Function::all_to_all || task.function == Function::all_gather) {}

  bool go(int from, int to) const {
    const int root = static_cast<int>(task_.root);
    return (!pattern_.from_root || from == root) && (!pattern_.to_root || to == root);
  }
  SendRecvTask to(int rank) const { return block(task_.send, pattern_.sends_blocks ? rank : 0); }
  SendRecvTask from(int rank) const { return block(task_.recv, pattern_.receives_blocks ? rank : 0); }

 private:
  SendRecvTask block(const void* buffer, int index) const {
    uint8_t* const first = static_cast<uint8_t*>(const_cast<void*>(buffer));
    return {first + static_cast<uint64_t>(index) * bytes_of(task_), bytes_of(task_), task_.stream, exchange_};
  }

  const CollectiveTask& task_;
  const Pattern pattern_;
  const bool exchange_;
};

// Peers in the order of their distance, so that not all ranks begin with the same one.
void add_messages(TaskQueue* queue, int rank, int n_ranks, const CollectiveTask& task) {
  const Messages messages(task);
  for (int i = 0; i < n_ranks; ++i) {
    const int next = (rank + i) % n_ranks, previous = (rank + n_ranks - i) % n_ranks;
    if (i == 0 && messages.to(rank).buffer == messages.from(rank).buffer) continue;  // in place
    if (messages.go(rank, next)) queue->add_send(next, messages.to(next));
    if (messages.go(previous, rank)) queue->add_recv(previous, messages.from(previous));
  }
}

// Appends an allreduce as messages, which bring the other ranks' operands, and the reduction of these.
void add_exchange(TaskQueue* queue, int rank, int n_ranks, const CollectiveTask& task, uint8_t* operands) {
  auto* const own = static_cast<uint8_t*>(const_cast<void*>(task.send));
  const uint64_t bytes = bytes_of(task);
  for (int i = 1; i < n_ranks; ++i) {
    const int next = (rank + i) % n_ranks, previous = (rank + n_ranks - i) % n_ranks;
    // In the order of the ranks, without the own.
    const int place = gc_mutant(598) ? i - 1 : previous < rank ? previous : previous - 1;
    queue->add_send(next, {own, bytes, task.stream});
    queue->add_recv(previous, {operands + static_cast<uint64_t>(place) * kMostExchangedBytes, bytes, task.stream});
  }
  LocalTask reduction =
      local_task(task, {own, operands, static_cast<uint8_t*>(task.recv), task.count, kMostExchangedBytes,
                        static_cast<uint32_t>(rank), static_cast<uint32_t>(n_ranks)});
  reduction.reduction.waited = 1;
  queue->late_reductions.push_back(reduction);
}

bool goes_through_mesh(Function function, uint64_t bytes, const CommProperties& shape) {
  const auto wanted = [](int64_t algorithm, int64_t protocol) {
    return (params().algorithm == kAlgorithmAuto || params().algorithm == algorithm) &&
           (params().protocol == kProtocolAuto || params().protocol == protocol);
  };
  return (wanted(kAlgorithmOneShot, kProtocolLl) &&
          !obstacle(function, Algorithm::one_shot, Protocol::ll, bytes, shape, true)) ||
         (wanted(kAlgorithmAllPairs, kProtocolLl128) &&
          !obstacle(function, Algorithm::all_pairs, Protocol::ll128, bytes, shape, true));
}

// Returns whether the tuning file says that messages are faster than the mesh.
bool measured_faster(Function function, uint64_t bytes, const CommProperties& shape) {
  if (!shape.table || params().algorithm != kAlgorithmAuto || params().protocol != kProtocolAuto) return false;
  const double mesh = choose(function, bytes, shape, true).us;
  const auto faster = [&](Protocol protocol) {
    const double us = shape.table->us(function, Algorithm::pairwise, protocol, bytes);
    return us >= 0 && us < mesh;
  };
  return faster(Protocol::ll) || faster(Protocol::simple);
}

}  // namespace

uint64_t least_copied_collective(Function function, const CommProperties& shape) {
  if (function == Function::all_gather) return shape.copies.all_gathers;
  return function == Function::broadcast && shape.n_ranks == 2 ? shape.copies.messages : 0;
}

bool goes_as_messages(Function function, uint64_t bytes, const CommProperties& shape) {
  if (is_exchange(function))
    return bytes != 0 && (!goes_through_mesh(function, bytes, shape) || measured_faster(function, bytes, shape));
  const uint64_t least = least_copied_collective(function, shape);
  if (!least || bytes < least) return false;
  return params().algorithm == kAlgorithmAuto && params().protocol == kProtocolAuto;  // else kernels are wanted
}

uint64_t most_exchanged_bytes(int n_ranks, int n_nodes) {
  const bool can = n_ranks > 1 && n_nodes == n_ranks && n_ranks <= kMostExchanging;
  return can ? std::min(param_or(params().exchange_bytes, kMostExchangedBytes), kMostExchangedBytes) : 0;
}

bool reduces_by_exchange(const CollectiveTask& task, const CommProperties& shape) {
  const uint64_t bytes = bytes_of(task);
  return task.function == Function::all_reduce && task.kernels.local && bytes != 0 && bytes <= shape.exchange_bytes &&
         params().algorithm == kAlgorithmAuto && params().protocol == kProtocolAuto;
}

void replace_by_messages(TaskQueue* queue, int rank, const CommProperties& shape, uint8_t* operands) {
  const auto as_messages = [&](const CollectiveTask& task) {
    return goes_as_messages(task.function, bytes_of(task), shape);
  };
  const auto by_exchange = [&](const CollectiveTask& task) { return reduces_by_exchange(task, shape); };
  for (const CollectiveTask& task : queue->collectives)
    if (as_messages(task)) add_messages(queue, rank, shape.n_ranks, task);
  std::erase_if(queue->collectives, as_messages);
  if (!operands || std::ranges::count_if(queue->collectives, by_exchange) > kMostExchanges) return;
  for (const CollectiveTask& task : queue->collectives) {
    if (!by_exchange(task)) continue;
    add_exchange(queue, rank, shape.n_ranks, task, operands);
    operands += exchange_memory_bytes(shape.n_ranks) / kMostExchanges;
  }
  std::erase_if(queue->collectives, by_exchange);
}

}  // namespace gpucoll::core
