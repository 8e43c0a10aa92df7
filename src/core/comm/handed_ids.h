// The ids by which some ranks of a communicator meet in a new one, while the others take no part and may be dead: the
// first of the ranks hands an id to the rest, by pages that they share.
//
// Thread safety: one caller at a time. Ownership: borrows mailbox and peers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/peer/mailbox.h"
#include "core/peer/peers.h"
#include "proto/format/bootstrap.h"

namespace gpucoll::core {

class HandedIds {
 public:
  HandedIds(Mailbox& mailbox, const Peers& peers) : mailbox_(mailbox), peers_(peers) {}

  // Gives the ranks `some`, in rising order, this one among them, the id that the first of them passes. Returns the
  // id's number. `watch` is called now and then while this rank waits: its failure ends the wait. Errors: remote where
  // the first has left; timed_out.
  Result<uint64_t> hand_out(const std::vector<int>& some, proto::UniqueId* id, const std::function<Status()>& watch);
  // The first rank says that the ranks have not met by the id with this number.
  void in_vain(uint64_t number) noexcept { in_vain_ = std::max(in_vain_, number); }
  // Returns whether the first of the ranks `some` has handed out another id, as that of this number was in vain.
  bool handed_anew(const std::vector<int>& some, uint64_t number);

 private:
  // An id for the ranks whose hash this is. Its first rank numbers them, and says which was the last one in vain.
  struct Letter {
    uint64_t members, number, in_vain;
    proto::UniqueId id;
  };
  bool is_handed(const std::vector<int>& some);

  Mailbox& mailbox_;
  const Peers& peers_;
  uint64_t last_ = 0, in_vain_ = 0;  // numbers of the last ids, as the first rank
  std::map<int, Letter> letters_;    // the last one by sender, until hand_out() has used it
};

}  // namespace gpucoll::core
