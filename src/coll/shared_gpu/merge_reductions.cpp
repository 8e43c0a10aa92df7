// Reductions of a group: within the device in the order of ranks, between the leaders, and to those who want the
// result.
#include <utility>

#include "coll/shared_gpu/merge.h"
#include "mpi/datatype/address.h"

namespace gpucoll::coll {
namespace {

using core::CollectiveTask;
using proto::Function;

// Operands that a kernel of reductions takes at once.
constexpr size_t kOperands = 3;

}  // namespace

// The members' operands, in the order of their ranks. Where it is: `result`, or the only member's own; and at `more`,
// where operands may be. REQUIRES: the first member's operand is the only one that may be at `result`, or there are
// kOperands at most; `more` is for several members.
uint8_t* Merge::combine(size_t c, uint64_t count, uint8_t* result, std::span<uint8_t* const> more) {
  const CollectiveTask& its = task(c);
  uint8_t* sum = ends(c, 0).send;
  for (size_t next = 1; next < size(); sum = result) {
    const size_t n = std::min(size() - next + 1, kOperands);
    uint8_t* const second = ends(c, next).send;
    // The last one is `own`; the others lie as far apart as they do.
    const bool three = n == kOperands;
    uint8_t* const last = three ? ends(c, next + 1).send : second;
    const uint64_t stride = three ? reinterpret_cast<uintptr_t>(second) - reinterpret_cast<uintptr_t>(sum) : 0;
    const auto ranks = static_cast<uint32_t>(n);
    whole_.reductions.push_back(local_task(its, {last, sum, result, count, stride, ranks - 1, ranks}));
    next += n - 1;
  }
  if (!more.empty()) {
    proto::LocalReduction& last = whole_.reductions.back().reduction;
    last.n_more = static_cast<uint8_t>(more.size());
    std::copy(more.begin(), more.end(), last.more);
  }
  return sum;
}

void Merge::all_reduce(size_t c) {
  const CollectiveTask& its = task(c);
  uint8_t* const result = ends(c, 0).recv;
  std::vector<uint8_t*> others;
  for (size_t i = 1; i < size(); ++i) others.push_back(ends(c, i).recv);
  const bool alone = groups_.size() == 1;
  const size_t stored = alone ? std::min<size_t>(others.size(), proto::kMoreResults) : 0;  // by the reducing kernel
  uint8_t* const sum = combine(c, its.count, result, std::span(others).first(stored));
  if (!alone) add_task(its, Function::all_reduce, sum, result, its.count, 0);
  for (size_t i = stored; i < others.size(); ++i) spread_result(its, others[i], result);
}

// Reduces. Data in place at the root are still to be read when a chain of kernels begins to store: the result has
// another place.
void Merge::reduce(size_t c) {
  const CollectiveTask& its = task(c);
  const int root = static_cast<int>(its.root);
  const uint64_t bytes = its.count * its.element_bytes;
  const Ends at_root = is_mine(root) ? ends(c, place_of(root)) : Ends{nullptr, nullptr};
  const bool in_the_way = at_root.recv == at_root.send && root != members_[0] && size() > kOperands;
  uint8_t* result = at_root.recv;
  if (!is_mine(root) || in_the_way) result = aside(bytes);
  uint8_t* const sum = combine(c, its.count, result);
  if (groups_.size() > 1)
    add_task(its, Function::reduce, sum, at_root.recv, its.count, group_of(root));
  else
    spread_result(its, at_root.recv, sum);
}

// A reduce to each rank's leader, side by side, of what the group has put together.
void Merge::reduce_scatter(size_t c) {
  const CollectiveTask& its = task(c);
  const uint64_t bytes = its.count * its.element_bytes, n = static_cast<uint64_t>(n_ranks());
  uint8_t* const sum = combine(c, n * its.count, aside(n * bytes));
  for (int r = 0; r < n_ranks(); ++r) {
    uint8_t* const to = is_mine(r) ? ends(c, place_of(r)).recv : nullptr;
    uint8_t* const from = sum + static_cast<uint64_t>(r) * bytes;
    if (groups_.size() > 1)
      add_task(its, Function::reduce, from, to, its.count, group_of(r));
    else
      spread_result(its, to, from);
  }
}

// Returns whether the members of a group need the rank's operand.
bool Merge::is_scanned(const CollectiveTask& its, int rank, int group) const {
  const int last = groups_.members[static_cast<size_t>(group)].back();
  return its.function == Function::scan ? rank <= last : rank < last;
}

// Returns a scan's operand: a member's own, or the place where that of another rank is to arrive.
uint8_t* Merge::operand_of(size_t c, int rank, uint64_t bytes) {
  if (is_mine(rank)) return ends(c, place_of(rank)).send;
  uint8_t* const landed = aside(bytes);
  receives(rank, members_[0], landed, bytes);
  return landed;
}

// Prefixes that members get are kept aside until all operands have been read: these may lie in place.
void Merge::scan(size_t c) {
  const CollectiveTask& its = task(c);
  const uint64_t bytes = its.count * its.element_bytes;
  for (int member : members_)
    for (int group = 0; group < groups_.size(); ++group)
      if (group != mine_ && is_scanned(its, member, group))
        sends(member, groups_.members[static_cast<size_t>(group)].front(), ends(c, place_of(member)).send, bytes);
  const int shift = its.function == Function::scan ? 0 : 1;  // an exscan's prefixes end before the rank
  std::vector<std::pair<uint8_t*, uint8_t*>> results;        // to, from
  uint8_t* prefix = nullptr;
  for (int r = 0; is_scanned(its, r, mine_); ++r) {
    uint8_t* const next = operand_of(c, r, bytes);
    uint8_t* const to = r ? aside(bytes) : next;
    if (r) whole_.late_reductions.push_back(pair_of(its, prefix, next, to));
    prefix = to;
    const int gets = r + shift;
    if (gets < n_ranks() && is_mine(gets)) results.emplace_back(ends(c, place_of(gets)).recv, prefix);
  }
  for (const auto& [to, from] : results) spread_result(its, to, from);
}

// A pair that is reduced with itself stays as it is (maxloc, minloc), and so does what lies in the gaps of the result.
void Merge::spread_result(const CollectiveTask& its, uint8_t* to, uint8_t* from) {
  if (!gaps_) return spread(to, from, its.count * its.element_bytes);
  if (to != from) whole_.late_reductions.push_back(pair_of(its, from, from, to));
}

}  // namespace gpucoll::coll
