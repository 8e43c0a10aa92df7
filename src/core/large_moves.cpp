#include "core/large_moves.h"

#include <algorithm>

#include "base/params.h"

namespace gpucoll::core {
namespace {

uint64_t bytes_of(const CollectiveTask& task) { return task.count * task.element_bytes; }

void add_own(TaskQueue* queue, int rank, const PairTask& from, const PairTask& to) {
  if (from.buffer == to.buffer) return;  // in place
  queue->add_send(rank, from);
  queue->add_recv(rank, to);
}

void add_all_gather(TaskQueue* queue, int rank, int n_ranks, const CollectiveTask& task) {
  const uint64_t bytes = bytes_of(task);
  const PairTask mine = {const_cast<void*>(task.send), bytes, task.stream};
  const auto place_of = [&](int r) {
    return PairTask{static_cast<uint8_t*>(task.recv) + static_cast<uint64_t>(r) * bytes, bytes, task.stream};
  };
  add_own(queue, rank, mine, place_of(rank));
  for (int i = 1; i < n_ranks; ++i) {
    const int next = (rank + i) % n_ranks, previous = (rank + n_ranks - i) % n_ranks;
    queue->add_send(next, mine);
    queue->add_recv(previous, place_of(previous));
  }
}

void add_broadcast_to_one(TaskQueue* queue, int rank, const CollectiveTask& task) {
  const uint64_t bytes = bytes_of(task);
  const PairTask from = {const_cast<void*>(task.send), bytes, task.stream}, to = {task.recv, bytes, task.stream};
  const int other = 1 - rank;
  if (static_cast<uint32_t>(rank) != task.root) return queue->add_recv(other, to);
  add_own(queue, rank, from, to);
  queue->add_send(other, from);
}

// What this rank has for `rank`, or gets from it, in a buffer of a block for each rank.
PairTask block_at(const void* buffer, int rank, int n_ranks, const CollectiveTask& task) {
  const uint64_t bytes = bytes_of(task);
  // Copy engines of all ranks to all others at once slow each other down.
  const bool by_kernel = task.function == Function::all_to_all && n_ranks > 2;
  return {static_cast<uint8_t*>(const_cast<void*>(buffer)) + static_cast<uint64_t>(rank) * bytes, bytes, task.stream,
          by_kernel};
}

void add_all_to_all(TaskQueue* queue, int rank, int n_ranks, const CollectiveTask& task) {
  add_own(queue, rank, block_at(task.send, rank, n_ranks, task), block_at(task.recv, rank, n_ranks, task));
  for (int r = 0; r < n_ranks; ++r) {
    if (r == rank) continue;
    queue->add_send(r, block_at(task.send, r, n_ranks, task));
    queue->add_recv(r, block_at(task.recv, r, n_ranks, task));
  }
}

void add_gather(TaskQueue* queue, int rank, int n_ranks, const CollectiveTask& task) {
  const int root = static_cast<int>(task.root);
  const PairTask mine = block_at(task.send, 0, n_ranks, task);
  if (rank != root) return queue->add_send(root, mine);
  add_own(queue, rank, mine, block_at(task.recv, rank, n_ranks, task));
  for (int r = 0; r < n_ranks; ++r)
    if (r != rank) queue->add_recv(r, block_at(task.recv, r, n_ranks, task));
}

void add_scatter(TaskQueue* queue, int rank, int n_ranks, const CollectiveTask& task) {
  const int root = static_cast<int>(task.root);
  const PairTask mine = block_at(task.recv, 0, n_ranks, task);
  if (rank != root) return queue->add_recv(root, mine);
  add_own(queue, rank, block_at(task.send, rank, n_ranks, task), mine);
  for (int r = 0; r < n_ranks; ++r)
    if (r != rank) queue->add_send(r, block_at(task.send, r, n_ranks, task));
}

bool is_one_shot(Function function, uint64_t bytes, const CommShape& shape) {
  const bool wanted = (params().algorithm == kAlgorithmAuto || params().algorithm == kAlgorithmOneShot) &&
                      (params().protocol == kProtocolAuto || params().protocol == kProtocolLl);
  return wanted && !obstacle(function, Algorithm::one_shot, Protocol::ll, bytes, shape, true);
}

}  // namespace

bool goes_as_messages(Function function, uint64_t bytes, const CommShape& shape) {
  if (is_exchange(function)) return bytes != 0 && !is_one_shot(function, bytes, shape);
  if (!shape.copy_bytes || bytes < shape.copy_bytes) return false;
  if (params().algorithm != kAlgorithmAuto || params().protocol != kProtocolAuto) return false;  // kernels are wanted
  return (function == Function::all_gather || function == Function::broadcast) && shape.n_ranks == 2;
}

void replace_large_moves(TaskQueue* queue, int rank, const CommShape& shape) {
  const int n = shape.n_ranks;
  const auto large = [&](const CollectiveTask& task) { return goes_as_messages(task.function, bytes_of(task), shape); };
  for (const CollectiveTask& task : queue->collectives) {
    if (!large(task)) continue;
    switch (task.function) {
      case Function::all_gather: add_all_gather(queue, rank, n, task); break;
      case Function::broadcast: add_broadcast_to_one(queue, rank, task); break;
      case Function::all_to_all: add_all_to_all(queue, rank, n, task); break;
      case Function::gather: add_gather(queue, rank, n, task); break;
      case Function::scatter: add_scatter(queue, rank, n, task); break;
      default: break;
    }
  }
  std::erase_if(queue->collectives, large);
}

}  // namespace gpucoll::core
