// Collectives that move data, drawn at random: bcast, gather(v), scatter(v), allgather(v), alltoall(v, w) and those of
// neighbours. What a block holds follows from who sent it, so a receiver knows it from the definition alone.
//
// Thread safety: none. Ownership: a Move owns its types and buffers.
#pragma once
#include <climits>

#include "generated_case.h"

namespace generated {

enum class Function {
  bcast,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw
};
inline constexpr int kFunctions = 10, kNeighborFunctions = 5;
inline const char* name_of(Function f) {
  static const char* const names[] = {"bcast",
                                      "gather",
                                      "gatherv",
                                      "scatter",
                                      "scatterv",
                                      "allgather",
                                      "allgatherv",
                                      "alltoall",
                                      "alltoallv",
                                      "alltoallw",
                                      "neighbor_allgather",
                                      "neighbor_allgatherv",
                                      "neighbor_alltoall",
                                      "neighbor_alltoallv",
                                      "neighbor_alltoallw"};
  return names[static_cast<int>(f)];
}

class Move : public Case {
 public:
  Move(uint64_t seed, const Group& group, Form form, const std::vector<Base>& bases);
  void check() override;

 private:
  using F = Function;
  template <class... Fs>
  bool is(Fs... functions) const {
    return ((function_ == functions) || ...);
  }
  bool rooted() const { return function_ <= F::scatterv; }
  bool gathers() const { return is(F::gather, F::gatherv); }
  bool scatters() const { return is(F::scatter, F::scatterv); }
  bool neighbors() const { return function_ >= F::neighbor_allgather; }
  bool one_block_for_all() const {
    return is(F::bcast, F::allgather, F::allgatherv, F::neighbor_allgather, F::neighbor_allgatherv) || gathers();
  }
  bool typed() const { return is(F::alltoallw, F::neighbor_alltoallw); }
  bool varies() const {
    return typed() ||
           is(F::gatherv, F::scatterv, F::allgatherv, F::alltoallv, F::neighbor_allgatherv, F::neighbor_alltoallv);
  }

  // The root, or who takes its place in the group of two that has it.
  bool is_root() const { return rooted() && group_.side == root_side_ && group_.rank == root_; }
  bool beside_root() const { return rooted() && group_.inter && group_.side == root_side_ && group_.rank != root_; }
  bool sends() const {
    if (beside_root()) return false;
    if (is(F::bcast) || scatters()) return is_root();
    return !(gathers() && group_.inter && is_root());
  }
  bool receives() const {
    if (beside_root()) return false;
    if (gathers()) return is_root();
    return !((is(F::bcast) || scatters()) && group_.inter && is_root());
  }
  bool is_in_place() const { return in_place_ && (!rooted() || is_root()); }
  bool in_receive_buffer() const { return is(F::bcast) || (is_in_place() && !scatters()); }

  int count(int from_side, int from, int to) const;
  std::vector<int> send_counts() const;
  std::vector<int> receive_counts() const;
  std::vector<Block> lay_out(const std::vector<int>& counts, std::vector<Type>& types, bool receive);
  std::vector<Block> lay_out_typed(const std::vector<int>& counts, std::vector<Type>& types, Random& random);
  struct Source {
    int rank, block;
  };
  Source source(size_t block, bool otherwise) const;
  Bytes content(int side, int rank, int block, size_t bytes) const;
  void expect(bool otherwise);
  std::string words() const override;
  void fill() override;
  int call() override;
  void drop_types() override;

  Function function_;
  const Base* base_;
  int units_, most_, root_ = 0, root_side_ = 0;
  bool in_place_ = false;
  std::vector<Type> send_types_, recv_types_;
  std::vector<Block> send_blocks_, recv_blocks_;
  std::unique_ptr<Side> send_, recv_;
  Arguments to_, from_;
};

inline Move::Move(uint64_t seed, const Group& group, Form form, const std::vector<Base>& bases)
    : Case(seed, group, form) {
  Random random(mix(seed, 1));
  const int functions = group.topology() ? kFunctions + kNeighborFunctions : kFunctions;
  int function = random.below(functions);
  if (group.topology() && random.one_in(2)) function = kFunctions + random.below(kNeighborFunctions);
  function_ = static_cast<Function>(function);
  base_ = &random.of(bases);
  units_ = random.one_in(3) ? 1 : random.one_in(40) ? 0 : 1 + random.below(6);
  static const std::vector<int> sizes = {0, 1, 1, 2, 3, 5, 17, 64, 300, 1023, 4001, 30011};
  most_ = std::min(random.of(sizes), 300000 / (std::max(group.size, group.peers) * std::max(units_, 1)));
  if (rooted()) {
    root_side_ = group.inter ? random.below(2) : 0;
    // Ranks of both sides must agree on a root that exists.
    const int ranks = group.side == root_side_ ? group.size : group.peers;
    root_ = static_cast<int>(random.next() % static_cast<uint64_t>(ranks));
  }
  in_place_ = !group.inter && !neighbors() && !is(F::bcast) && random.one_in(3);
  // Open MPI 4.1's own hang where some counts are 0.
  if (is(F::alltoallv, F::alltoallw) &&
      (form == Form::persistent || (form == Form::nonblocking && g_memory != "device")))
    in_place_ = false;
  const std::vector<int> to = send_counts(), from = receive_counts();
  send_blocks_ = lay_out(to, send_types_, false);
  recv_blocks_ = lay_out(from, recv_types_, true);
  const int lead = base_->alignment * static_cast<int>(draw(5, group.rank) % 3);
  if (sends() && !in_receive_buffer())
    send_ = std::make_unique<Side>(where(false, root_), send_blocks_, draw(6, group.rank), lead);
  if (!recv_blocks_.empty() || neighbors())
    recv_ = std::make_unique<Side>(where(true, root_), recv_blocks_, draw(7, group.rank), lead);
}

// Elements that go from one rank to another.
inline int Move::count(int from_side, int from, int to) const {
  if (!varies()) return most_;
  if (one_block_for_all()) to = 0;
  if (scatters()) from = 0;
  // MPI_IN_PLACE wants what goes to a rank as long as what comes from it.
  if (in_place_ && !one_block_for_all() && !scatters() && from > to) std::swap(from, to);
  const uint64_t random = draw(8 + static_cast<uint64_t>(from_side), from, to);
  return random % 4 == 0 ? 0 : static_cast<int>((random >> 8) % static_cast<uint64_t>(most_ + 1));
}

inline std::vector<int> Move::send_counts() const {
  std::vector<int> counts;
  if (!sends()) return counts;
  if (one_block_for_all()) return {count(group_.side, group_.rank, 0)};
  if (neighbors()) {
    for (Edge e : group_.out) counts.push_back(e.rank == MPI_PROC_NULL ? most_ : count(0, group_.rank, e.rank));
    return counts;
  }
  for (int r = 0; r < group_.peers; r++) counts.push_back(count(group_.side, group_.rank, r));
  return counts;
}

// With MPI_IN_PLACE in a gather's root or an all-to-all these are the counts of what goes out as well.
inline std::vector<int> Move::receive_counts() const {
  std::vector<int> counts;
  const int other = group_.inter ? 1 - group_.side : 0;
  if (is(F::bcast)) return beside_root() ? counts : std::vector<int>{most_};
  if (!receives() || (scatters() && is_in_place())) return counts;
  if (scatters()) return {count(root_side_, root_, group_.rank)};
  if (neighbors()) {
    for (Edge e : group_.in) counts.push_back(e.rank == MPI_PROC_NULL ? most_ : count(0, e.rank, group_.rank));
    return counts;
  }
  for (int r = 0; r < group_.peers; r++) counts.push_back(count(other, r, group_.rank));
  return counts;
}

// Blocks one after another; of the v-variants in any order with gaps, some before the pointer.
inline std::vector<Block> Move::lay_out(const std::vector<int>& counts, std::vector<Type>& types, bool receive) {
  std::vector<Block> blocks;
  if (counts.empty() && !neighbors()) return blocks;
  Random random(draw(10 + receive, group_.side * 64 + group_.rank));
  if (typed()) return lay_out_typed(counts, types, random);
  const bool free = varies() && counts.size() > 1;
  std::vector<int> at(counts.size()), order(counts.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int>(i);
  for (size_t i = order.size(); free && i-- > 1;) std::swap(order[i], order[random.next() % (i + 1)]);
  int total = 0;
  for (int block : order) {
    at[static_cast<size_t>(block)] = total;
    total += counts[static_cast<size_t>(block)] + (free ? random.below(3) : 0);
  }
  const int shift = free && random.one_in(3) ? random.below(total + 1) : 0;
  types.push_back(spell(*base_, units_, std::max(total, 1), random));
  for (size_t i = 0; i < counts.size(); i++)
    blocks.push_back({counts[i], (at[i] - shift) * types[0].shape.extent(), &types[0]});
  return blocks;
}

// A type for each block.
inline std::vector<Block> Move::lay_out_typed(const std::vector<int>& counts, std::vector<Type>& types,
                                              Random& random) {
  std::vector<Block> blocks;
  types.reserve(counts.size());
  ptrdiff_t cursor = -256 * random.below(2);
  for (int count : counts) {
    types.push_back(spell(*base_, units_, std::max(count, 1), random));
    Block b{count, 0, &types.back()};
    // Of one rank with itself, Open MPI 4.1 takes the place for a number of elements.
    if (b.bytes() > 0 && counts.size() > 1) {
      b.at = cursor - (b.first() & ~ptrdiff_t{15});
      cursor = (b.end() + 16 * random.below(3) + 15) & ~ptrdiff_t{15};
    }
    blocks.push_back(b);
  }
  return blocks;
}

// Whose block arrives in this one of ours.
inline Move::Source Move::source(size_t block, bool otherwise) const {
  if (is(F::bcast) || scatters()) return {root_, scatters() ? group_.rank : 0};
  if (!neighbors()) return {static_cast<int>(block), one_block_for_all() ? 0 : group_.rank};
  const Edge edge = group_.in[block];
  return {edge.rank, one_block_for_all() ? 0 : otherwise ? edge.other_slot : edge.slot};
}

inline Bytes Move::content(int side, int rank, int block, size_t bytes) const {
  return stream(
      mix(draw(12, side * 1024 + rank, block), static_cast<uint64_t>(run_), static_cast<uint64_t>(group_.color)),
      bytes);
}

inline void Move::fill() {
  if (send_) {
    send_->clear();
    for (size_t i = 0; i < send_blocks_.size(); i++)
      send_->put(i, content(group_.side, group_.rank, static_cast<int>(i), send_blocks_[i].bytes()));
    send_->write();
  }
  if (!recv_) return;
  recv_->clear();
  if (sends() && in_receive_buffer())
    for (size_t i = 0; i < recv_blocks_.size(); i++) {
      if (one_block_for_all() && !is(F::bcast) && static_cast<int>(i) != group_.rank) continue;
      const int block = one_block_for_all() ? 0 : static_cast<int>(i);
      recv_->put(i, content(group_.side, group_.rank, block, recv_blocks_[i].bytes()));
    }
  recv_->write();
}

inline void Move::expect(bool otherwise) {
  if (!receives()) return;
  const int other = group_.inter ? 1 - group_.side : 0;
  for (size_t i = 0; i < recv_blocks_.size(); i++) {
    const Source from = source(i, otherwise);
    if (from.rank == MPI_PROC_NULL) continue;
    recv_->put(i, content(other, from.rank, from.block, recv_blocks_[i].bytes()));
  }
}

inline void Move::check() {
  if (send_) compare("send", *send_);
  if (!recv_) return;
  if (is(F::neighbor_alltoall, F::neighbor_alltoallv, F::neighbor_alltoallw)) {
    expect(true);
    if (recv_->difference() < 0) return;
  }
  expect(false);
  compare("receive", *recv_);
}

inline std::string Move::words() const {
  std::string text = name_of(function_) + std::string(" of up to ") + std::to_string(most_) + " x " +
                     std::to_string(units_) + " " + base_->name;
  if (!send_types_.empty()) text += " from " + send_types_[0].name;
  if (!recv_types_.empty()) text += " to " + recv_types_[0].name;
  if (rooted()) text += ", root " + std::to_string(root_);
  return text + (in_place_ ? ", in place" : "");
}

inline void Move::drop_types() {
  // Open MPI 4.1 does not keep those of persistent calls, nor all where call() says so.
  if (form_ == Form::persistent || (typed() && group_.topology())) return;
  if (draw(13, group_.rank) % 4 != 0) return;
  for (Type& t : send_types_) t.release();
  for (Type& t : recv_types_) t.release();
}

}  // namespace generated
