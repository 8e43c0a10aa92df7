// Tree allreduce of one channel: every rank adds its contribution to what its children send and passes it on to its
// parent; the root completes the result and sends it down again. 2 log2(n) hops, whatever the size.
//
// result = op(op(child 0, child 1), own) at every rank; it is complete once, at the root, and then copied, so all ranks
// have the same bits, and the same call gives them again.
//
// Below the root one half of the block works upwards while the other half works downwards, so that chunks follow each
// other without a gap. In place: a chunk comes down only after the upper half has sent this rank's part of it, which
// acquires and releases order. LL has none of these, and little to move: there all threads go up with a chunk and then
// down, each of them with the same packs.
// Thread safety: called by all threads of the block that works for the channel.
#pragma once
#include "kernels/work.h"

namespace gpucoll::coll::device {

template <class Family, class Protocol, class Fan, class Coop>
GC_DEV proto::Primitives<Family, Coop, Protocol, Fan> tree_primitives(const Coop& coop, const Work& work,
                                                                      const proto::Ends<Fan>& ends) {
  return {coop, ends, work.shape(), work.comm.latch, work.buffers(), work.reduction<Family>()};
}

template <class Family, class Protocol>
struct Tree {
  using Up = proto::Fan<2, 1>;
  using Down = proto::Fan<1, 2>;
  using Top = proto::Fan<2, 2>;

  const Work& work;
  const proto::TreePlace& place;
  Range share;

  explicit GC_DEV Tree(const Work& w) : work(w), place(w.comm.tree), share(w.share<Family>()) {}

  GC_DEV bool is_root() const { return place.parent < 0; }
  GC_DEV proto::Connector* to(int child) const { return work.send_to(place.child[child]); }
  GC_DEV proto::Connector* from(int child) const { return work.recv_from(place.child[child]); }

  template <class Coop>
  GC_DEV auto up(const Coop& coop) const {
    return tree_primitives<Family, Protocol, Up>(coop, work, {{from(0), from(1)}, {work.send_to(place.parent)}});
  }
  template <class Coop>
  GC_DEV auto down(const Coop& coop) const {
    return tree_primitives<Family, Protocol, Down>(coop, work, {{work.recv_from(place.parent)}, {to(0), to(1)}});
  }
  template <class Coop>
  GC_DEV auto top(const Coop& coop) const {
    return tree_primitives<Family, Protocol, Top>(coop, work, {{from(0), from(1)}, {to(0), to(1)}});
  }
  // Returns the same on every rank, since it depends on the number of ranks and not on the place.
  template <class Prims>
  GC_DEV uint64_t chunk() const {
    uint32_t hops = 2;
    for (int32_t n = work.comm.n_ranks; n > 1; n /= 2) hops += 2;
    return pipeline_elements<Prims>(work, share, hops);
  }
};

template <class Family, class Protocol, class Coop>
GC_DEV void tree_top(const Coop& coop, const Tree<Family, Protocol>& tree) {
  auto prims = tree.top(coop);
  each_chunk(prims, tree.share, tree.template chunk<decltype(prims)>(),
             [&](uint64_t at, uint64_t n) { prims.recv_reduce_copy_send(at, at, n); });
}
template <class Family, class Protocol, class Coop>
GC_DEV void tree_up(const Coop& coop, const Tree<Family, Protocol>& tree) {
  auto prims = tree.up(coop);
  each_chunk(prims, tree.share, tree.template chunk<decltype(prims)>(),
             [&](uint64_t at, uint64_t n) { prims.recv_reduce_send(at, n); });
}
template <class Family, class Protocol, class Coop>
GC_DEV void tree_down(const Coop& coop, const Tree<Family, Protocol>& tree) {
  auto prims = tree.down(coop);
  each_chunk(prims, tree.share, tree.template chunk<decltype(prims)>(),
             [&](uint64_t at, uint64_t n) { prims.recv_copy_send(at, n); });
}
// One chunk up, then down.
template <class Family, class Protocol, class Coop>
GC_DEV void tree_up_and_down(const Coop& coop, const Tree<Family, Protocol>& tree) {
  auto up = tree.up(coop);
  auto down = tree.down(coop);
  each_chunk(down, tree.share, tree.template chunk<decltype(down)>(), [&](uint64_t at, uint64_t n) {
    up.recv_reduce_send(at, n);
    down.recv_copy_send(at, n);
  });
}

template <class Family, class Protocol, class Block>
GC_NOINLINE void tree_all_reduce(Block block, Work work) {
  const Tree<Family, Protocol> tree(work);
  if (tree.is_root()) return tree_top(block.split(1), tree);
  if constexpr (!std::is_same_v<Protocol, proto::Ll>) {
    if (block.size() >= 2 * proto::kWarp) {
      const auto half = block.split(2);
      return half.group() == 0 ? tree_up(half, tree) : tree_down(half, tree);
    }
  }
  tree_up_and_down(block.split(1), tree);
}

}  // namespace gpucoll::coll::device
