// Where connections come in: side by side, and without waiting, it finds out who shows the secret. Whoever says
// something else is hung up on at once, whoever says nothing after a while, or when too many wait, the oldest first.
// Thread safety: one caller at a time.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <vector>

#include "net/bootstrap/socket.h"
#include "net/bootstrap/spare.h"
#include "proto/format/bootstrap.h"

namespace gpucoll::net {

class Door {
 public:
  static constexpr size_t kMostStrangers = 64;
  // For a process that is not told how many come: all ranks of a large communicator may knock at once.
  static constexpr size_t kMostRanks = 1024;
  static constexpr std::chrono::milliseconds kBudget{2000};  // for a connection to show the secret

  struct Guest {
    Spare::Spent spare;  // came in by the process's spare descriptor; goes after fd
    UniqueFd fd;
    proto::BootstrapHello hello;
  };
  using Knows = std::function<bool(const proto::BootstrapHello&)>;

  Door() noexcept = default;
  // most_strangers: how many may stand here at once that have said nothing yet. Each door has at most a quarter of the
  // descriptors that the process may have open.
  explicit Door(std::vector<UniqueFd> listeners, size_t most_strangers = kMostStrangers) noexcept
      : listeners_(std::move(listeners)), most_strangers_(most_strangers) {}
  explicit operator bool() const noexcept { return !listeners_.empty(); }
  // Returns how many stand here that have said nothing yet.
  size_t strangers() const noexcept { return strangers_.size(); }

  // Stops listening, also where a forked child has inherited the listener, and drops the strangers.
  void shut() noexcept;

  void watch(PollSet* set) const;
  // Returns whether somebody stands here who came in by the spare descriptor.
  bool has_last() const;
  // Those with a Hello that is known come in; REQUIRES: the set was watched and has waited. spends: by the spare
  // descriptor where no other is left. Errors: system, where no descriptor is left for who knocks.
  Status serve(const PollSet& set, const Knows& knows, std::vector<Guest>* guests, bool spends = true);

 private:
  struct Stranger {
    Spare::Spent spare;  // as a guest's
    UniqueFd fd;
    Clock::time_point since;
    std::array<uint8_t, sizeof(proto::BootstrapHello)> said = {};
    size_t bytes = 0;
  };
  enum class Heard { less, hello, nonsense };
  static Heard hear(Stranger* stranger);
  // Returns whether the stranger is one no longer.
  static bool settle(Stranger* stranger, const Knows& knows, std::vector<Guest>* guests);
  // Returns whether someone came in; sets errno where not.
  bool accept_one(int listener, const Knows& knows, std::vector<Guest>* guests, bool spends);
  Status accept_all(int listener, const Knows& knows, std::vector<Guest>* guests, bool spends);
  size_t room() const noexcept;

  std::vector<UniqueFd> listeners_;  // one for each address
  size_t most_strangers_ = kMostStrangers;
  std::deque<Stranger> strangers_;  // the oldest first
};

}  // namespace gpucoll::net
