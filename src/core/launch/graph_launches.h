// What graphs hold of a communicator's launches, and how far these have come. The communicator's end ends them: those
// that begin later move nothing, and the program is told of them once.
//
// Thread safety: note_end() and end() by the caller that closes, look() by the watchdog; the rest any thread.
// Ownership: borrows words and pages.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/launch/graph_memory.h"
#include "core/launch/host_words.h"
#include "proto/format/peer.h"

namespace gpucoll::core {

class GraphLaunches {
 public:
  explicit GraphLaunches(const HostWords& words) : words_(words) {}

  // Sets this rank's page, for the peers; null takes it away.
  void attach(proto::ControlPage* page) noexcept;
  GraphHold& hold() noexcept { return hold_; }
  // Returns whether graphs hold some launches: then all that these use must stay.
  bool any() const noexcept { return hold_.any(); }
  // Tells the peers, and the program where it has launched a graph after note_end().
  void look(int rank) noexcept;
  // Has launches of graphs end at once from now on: they find the latch as after a fault.
  void end() noexcept;
  // Takes those that have begun for all that may begin.
  void note_end() noexcept;

 private:
  void tell_begun(uint64_t begun) noexcept;

  const HostWords& words_;
  GraphHold hold_;
  proto::ControlPage* page_ = nullptr;
  uint64_t begun_at_end_ = 0;  // written before has_ended_
  std::atomic<bool> has_ended_{false};
  bool late_one_told_ = false;  // look()'s
};

}  // namespace gpucoll::core
