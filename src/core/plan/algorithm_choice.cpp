#include "core/plan/algorithm_choice.h"

#include <array>

#include "core/plan/copy_engine_reduction.h"

namespace gpucoll::core {
namespace {

using proto::Batch;
using proto::CollectiveItem;

// choose() again and again for the same few operations: the last answers, by a hash of what was asked.
struct Answer {
  uint64_t bytes;
  Function function;
  bool has_one_shot, valid;
  CommProperties shape;
  Choice choice;
};

bool moves_only(const CollectiveTask& task) { return task.kernels.plan == nullptr; }

const gpu::Kernel* kernel_of(const ChosenCollective& chosen) {
  const CollectiveKernels& kernels = chosen.task->kernels;
  switch (chosen.choice.algorithm) {
    case Algorithm::one_shot: return kernels.one_shot;
    case Algorithm::all_pairs: return chosen.choice.zero_copy ? kernels.open_pairs : kernels.pairs;
    default: return chosen.choice.zero_copy ? kernels.open_rings : kernels.plan;
  }
}

}  // namespace

Choice choose_for(const CollectiveTask& task, const CommProperties& shape) {
  if (!moves_only(task) && !task.kernels.open_rings && shape.zero_copy_bytes != 0) {
    CommProperties without = shape;
    without.zero_copy_bytes = 0;
    return choose_for(task, without);
  }
  constexpr size_t kAnswers = 16;
  thread_local std::array<Answer, kAnswers> answers;
  const uint64_t bytes = task.count * task.element_bytes;
  const bool has_one_shot = task.kernels.one_shot != nullptr;
  Answer& answer = answers[(bytes * 0x9e3779b97f4a7c15 >> 60 ^ static_cast<uint64_t>(task.function)) % kAnswers];
  if (!answer.valid || answer.bytes != bytes || answer.function != task.function ||
      answer.has_one_shot != has_one_shot || answer.shape != shape)
    answer = {bytes, task.function, has_one_shot, true, shape, choose(task.function, bytes, shape, has_one_shot)};
  return answer.choice;
}

// Tasks that only move data go with reductions by connections where there are any: one launch less.
std::vector<ChosenCollective> choose_all(const TaskQueue& queue, const CommProperties& shape, const gpu::Kernel* move) {
  std::vector<ChosenCollective> all;
  all.reserve(queue.collectives.size());
  const gpu::Kernel* mover = nullptr;
  for (const CollectiveTask& task : queue.collectives) {
    if (task.count == 0 || reduces_by_copies(task, shape)) continue;
    ChosenCollective& chosen = all.emplace_back(ChosenCollective{&task, nullptr, choose_for(task, shape), false});
    chosen.kernel = kernel_of(chosen);
    if (!mover && is_by_links(chosen)) mover = task.kernels.plan;
  }
  for (ChosenCollective& chosen : all)
    if (!chosen.kernel) chosen.kernel = mover ? mover : move;
  return all;
}

CollectiveItem item_of(const ChosenCollective& chosen) {
  const CollectiveTask& task = *chosen.task;
  CollectiveItem item = {};
  item.send = task.send;
  item.recv = task.recv;
  // Where nothing is reduced the kernel knows no types: bytes.
  item.count = moves_only(task) ? task.count * task.element_bytes : task.count;
  item.argument = task.argument;
  item.argument_high = task.argument_high;
  item.scalar_in_memory = task.scalar_in_memory;
  item.root = task.root;
  item.chunk_bytes = chosen.choice.chunk_bytes;
  item.n_channels = static_cast<uint16_t>(chosen.choice.channels);
  item.threads = static_cast<uint16_t>(chosen.choice.threads);
  return item;
}

Batch kind_of(const ChosenCollective& chosen) {
  const CollectiveTask& task = *chosen.task;
  const uint8_t op = moves_only(task) ? 0 : task.kernels.op;
  return {0, task.function, chosen.choice.algorithm, chosen.choice.protocol, op, 0, 0};
}

// About the bytes that pass through a rank.
uint64_t work_of(const CollectiveTask& task, const CommProperties& shape) {
  const uint64_t bytes = task.count * task.element_bytes;
  switch (task.function) {
    case Function::all_reduce: return 2 * bytes;
    case Function::all_gather:
    case Function::all_to_all:
    case Function::reduce_scatter: return static_cast<uint64_t>(shape.n_ranks) * bytes;
    default: return bytes;
  }
}

// A scalar of 16 bytes lies where a grant would.
bool may_be_direct(const ChosenCollective& chosen) {
  const CollectiveTask& task = *chosen.task;
  if (chosen.choice.algorithm != Algorithm::ring || chosen.choice.protocol != Protocol::simple) return false;
  if (chosen.choice.zero_copy) return false;
  return task.function == Function::broadcast || task.function == Function::all_gather ||
         (task.function == Function::all_reduce && task.element_bytes < 16);
}

uint64_t output_bytes(const CollectiveTask& task, const CommProperties& shape) {
  const uint64_t bytes = task.count * task.element_bytes;
  return task.function == Function::all_gather ? bytes * static_cast<uint64_t>(shape.n_ranks) : bytes;
}

}  // namespace gpucoll::core
