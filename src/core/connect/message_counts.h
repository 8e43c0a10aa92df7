// Counts the messages that this rank has sent to each other one, and received from it: when a peer closes the
// communicator, both compare their counts (net::PeerEnd).
//
// Messages in graphs are not counted, as nobody knows how often a graph runs.
// Thread safety: count() by one caller at a time; the rest from any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/plan/task.h"
#include "net/transport.h"
#include "proto/format/step_frame.h"

namespace gpucoll::core {

class MessageCounts {
 public:
  explicit MessageCounts(int n_ranks) : sent_(static_cast<size_t>(n_ranks)), received_(static_cast<size_t>(n_ranks)) {}

  void count(const TaskQueue& queue, bool captured) noexcept {
    if (captured && !(queue.sends.empty() && queue.recvs.empty())) in_graphs_.store(true, std::memory_order_relaxed);
    if (captured) return;
    for (const TaskQueue::Pair& send : queue.sends) add(&sent_, send.peer);
    for (const TaskQueue::Pair& recv : queue.recvs) add(&received_, recv.peer);
  }
  // Returns how many there are at least.
  uint64_t least(int peer, net::Side side) const noexcept {
    const auto& counts = side == net::Side::send ? sent_ : received_;
    return counts[static_cast<size_t>(peer)].load(std::memory_order_relaxed);
  }
  // Returns what the peer is told.
  uint64_t told(int peer, net::Side side) const noexcept {
    return in_graphs_.load(std::memory_order_relaxed) ? proto::kUnknownMessages : least(peer, side);
  }

 private:
  using Counts = std::vector<std::atomic<uint64_t>>;
  static void add(Counts* counts, int peer) noexcept {
    (*counts)[static_cast<size_t>(peer)].fetch_add(1, std::memory_order_relaxed);
  }
  Counts sent_, received_;
  std::atomic<bool> in_graphs_{false};
};

}  // namespace gpucoll::core
