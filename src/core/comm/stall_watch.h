// Finds that a communicator does not go on: none of its launches ends while some are outstanding. It reports for whom
// they wait, and ends the wait after the parameter timeout.
//
// Thread safety: one caller at a time, the watchdog. Ownership: borrows peers and words.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "core/copy_engine/copy_engines.h"
#include "core/launch/host_words.h"
#include "core/peer/heart.h"
#include "core/peer/peers.h"

namespace gpucoll::core {

class StallWatch {
 public:
  StallWatch(const Peers& peers, const HostWords& words) : peers_(peers), words_(words) {}

  // launched: how many launches have been made outside of graphs. copies: null where nothing goes by copy engine.
  // Errors: timed_out, or what Peers::stopped() says, once nothing has ended for the parameter timeout.
  Status look(uint64_t launched, CopyEngines* copies);

 private:
  // Takes how many launches have ended and been made. Returns whether a stall goes on: nothing has ended since the last
  // look, though some are outstanding.
  bool goes_on(uint64_t done, uint64_t launched) noexcept;
  std::string waiting_for(uint64_t launch, CopyEngines* copies) const;
  std::string waiting_in_graphs() const;
  Status timed_out(long long waited_s, const std::string& others) const;

  const Peers& peers_;
  const HostWords& words_;
  uint64_t done_ = 0;
  RunningClock::time_point since_ = {};               // time that this process is stopped does not count
  std::chrono::steady_clock::time_point began_ = {};  // by the clock by which pauses are told
  bool is_told_ = false;
};

}  // namespace gpucoll::core
