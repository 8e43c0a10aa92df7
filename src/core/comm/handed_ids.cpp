#include "core/comm/handed_ids.h"

#include <chrono>
#include <ctime>

#include "base/hash.h"
#include "base/mutant.h"
#include "core/peer/heart.h"

namespace gpucoll::core {
namespace {

uint64_t hash_of(const std::vector<int>& ranks) {
  uint64_t hash = 0;
  for (int rank : ranks) hash = hash_combine(hash, static_cast<uint64_t>(rank) + 1);
  return hash;
}

}  // namespace

// Keeps a letter to other ranks: it may be of the attempt that this rank makes next.
bool HandedIds::is_handed(const std::vector<int>& some) {
  const int first = some.front();
  if (first == peers_.rank()) return false;
  WireupMessage message;
  if (mailbox_.poll_latest(first, proto::kLaneSurvivors, &message)) letters_[first] = message.as<Letter>();
  const auto letter = letters_.find(first);
  return letter != letters_.end() && letter->second.members == hash_of(some);
}

// An id that follows one which was not in vain is for the next call: the first rank may be through with this one.
bool HandedIds::handed_anew(const std::vector<int>& some, uint64_t number) {
  return is_handed(some) && (letters_.at(some.front()).in_vain >= number || gc_mutant(227));
}

Result<uint64_t> HandedIds::hand_out(const std::vector<int>& some, proto::UniqueId* id,
                                     const std::function<Status()>& watch) {
  constexpr timespec kNap = {0, 50'000};
  constexpr int kLooksPerCheck = 64;
  const int first = some.front(), self = peers_.number(peers_.rank());
  if (first == peers_.rank()) {
    const auto letter = WireupMessage::of(Letter{hash_of(some), ++last_, in_vain_, *id});
    for (int member : some)
      if (member != first) GC_TRY(mailbox_.post(member, proto::kLaneSurvivors, letter));
    return last_;
  }
  const auto start = RunningClock::now();
  for (int look = 1; !is_handed(some); ++look) {
    nanosleep(&kNap, nullptr);
    if (look % kLooksPerCheck != 0) continue;
    GC_TRY(watch());
    if (peers_.closing(first))
      return Status::error(Code::remote,
                           "rank %d waits for %s to shrink the communicator with it, which has finalised, destroyed or "
                           "aborted the communicator",
                           self, peers_.name(first).c_str());
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(RunningClock::now() - start).count();
    if (peers_.timeout() && waited >= peers_.timeout())
      return Status::error(Code::timed_out,
                           "rank %d has waited %lld s (parameter timeout) for %s to shrink the communicator with it, "
                           "which may have left out other ranks",
                           self, static_cast<long long>(waited), peers_.name(first).c_str());
  }
  const Letter letter = letters_.extract(first).mapped();
  *id = letter.id;
  return letter.number;
}

}  // namespace gpucoll::core
