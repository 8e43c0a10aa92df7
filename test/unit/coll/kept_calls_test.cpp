// Blocking calls that come again are found whichever of their arguments differ.
#include "coll/runtime/kept_calls.h"

#include <gtest/gtest.h>

#include <set>

#include "core/comm/recent_table.h"

namespace gpucoll::coll {
namespace {

// As many calls as there are sets, which differ in one word. Four in a set are kept, so that most of sixteen are found
// where they lie in six sets.
TEST(KeptCalls, ThatDifferInOneWordLieInManySets) {
  using Table = RecentTable<KeptCall>;
  const gc_arguments one = {GC_FUNCTION_allreduce, {0x7f52c0001100, 0x7f52c0043300, 3, 0x55e0a1b20, 0x55e0a1c60}};
  for (size_t word = 0; word < std::size(one.words); ++word)
    for (uint64_t stride = 1; stride <= uint64_t{1} << 24; stride *= 2) {
      std::set<uint64_t> sets;
      gc_arguments other = one;
      for (size_t i = 0; i < Table::kSets; ++i, other.words[word] += stride) sets.insert(hash_of(other) % Table::kSets);
      EXPECT_GE(sets.size(), 6) << "word " << word << " by " << stride;
    }
}

}  // namespace
}  // namespace gpucoll::coll
