// Carries collectives that only move data as messages between their ranks. Large ones go so because copy engines carry
// messages (copy_messages.h) faster than kernels do, and leave the multiprocessors to the application. Exchanges of
// blocks between pairs of ranks go so where they are too large for a mesh, or where there is no mesh. Small allreduces
// between nodes go so, too: each rank gets the others' operands in one hop, where a ring of n ranks takes 2(n-1), and
// reduces them in the order of the ranks, as all do, so that all have the same bits.
//
// Pure functions of facts that are equal on all ranks, so that all ranks do alike.
#pragma once
#include "core/plan/task.h"
#include "core/plan/tuner.h"

namespace gpucoll::core {

// Returns from how many bytes on copy engines take a collective that kernels would carry otherwise; 0: never. bytes,
// here and below: count x element size of the task. Broadcast goes as messages between two ranks only: to more ranks a
// chain is faster than sending everything from the root.
uint64_t least_copied_collective(Function function, const CommProperties& shape);
bool goes_as_messages(Function function, uint64_t bytes, const CommProperties& shape);

// An allreduce between at most so many ranks, of at most so many bytes, may be exchanged, in a group of at most so
// many.
inline constexpr int kMostExchanging = 8, kMostExchanges = 8;
inline constexpr uint64_t kMostExchangedBytes = 4096;
// Returns the memory for the operands of a group's exchanges.
constexpr uint64_t exchange_memory_bytes(int n_ranks) {
  return kMostExchanges * kMostExchangedBytes * static_cast<uint64_t>(n_ranks);
}
// Returns up to how many bytes allreduces are exchanged between ranks that are on so many nodes; 0: none ever is, and
// there is no need of memory.
uint64_t most_exchanged_bytes(int n_ranks, int n_nodes);
bool reduces_by_exchange(const CollectiveTask& task, const CommProperties& shape);

// Takes such collectives out of the queue and appends messages in their place, and reductions of what they bring. Does
// nothing to a queue that it has had before.
// operands: exchange_memory_bytes() of this device, a kernel address; null: nothing is exchanged, as on all ranks.
void replace_by_messages(TaskQueue* queue, int rank, const CommProperties& shape, uint8_t* operands = nullptr);

}  // namespace gpucoll::core
