// Keeps what was used last, to be found again by a key: a table of sets, in each of which the entry not used for the
// longest time makes room, as in a processor's cache. Its owner hashes keys and compares them.
//
// Thread safety: one caller at a time. Ownership: owns its entries.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace gpucoll {

template <class Entry>
class RecentTable {
 public:
  static constexpr size_t kWays = 4, kSets = 16;

  // Returns the entry of that hash for which is_it(entry) holds, as the one used last; null where there is none.
  template <class Predicate>
  Entry* find(uint64_t hash, Predicate&& is_it) {
    if (!sets_ || !set_of(hash)) return nullptr;
    for (Slot& slot : *set_of(hash)) {
      if (!slot.last_use || !is_it(slot.entry)) continue;
      slot.last_use = ++now_;
      return &slot.entry;
    }
    return nullptr;
  }

  // Returns an entry to be written for a key of that hash that find() has not found. Throws std::bad_alloc.
  Entry& make_room(uint64_t hash) {
    if (!sets_) sets_ = std::make_unique<Sets>();
    std::unique_ptr<Set>& set = set_of(hash);
    if (!set) set = std::make_unique<Set>();
    Slot& slot = *std::ranges::min_element(*set, {}, &Slot::last_use);
    slot.last_use = ++now_;
    return slot.entry;
  }

  // Forgets an entry that find() has returned.
  void forget(const Entry& entry) noexcept {
    for (const std::unique_ptr<Set>& set : *sets_) {
      if (!set) continue;
      for (Slot& slot : *set)
        if (&slot.entry == &entry) slot.last_use = 0;
    }
  }
  void forget_all() noexcept { sets_.reset(); }

 private:
  struct Slot {
    uint64_t last_use = 0;  // 0: empty
    Entry entry;
  };
  using Set = std::array<Slot, kWays>;
  using Sets = std::array<std::unique_ptr<Set>, kSets>;

  std::unique_ptr<Set>& set_of(uint64_t hash) noexcept { return (*sets_)[hash % kSets]; }

  std::unique_ptr<Sets> sets_;  // null until the first entry, as is each set: most owners have no entry or but a few
  uint64_t now_ = 0;
};

}  // namespace gpucoll
