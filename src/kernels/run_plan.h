// run_plan: what every thread of a launch does: finds its channel, runs the channel's batches one after another, and
// reports the end of the grid. See proto/format/plan.h for the plan and for who may read what after it.
//
// Thread safety: called by all threads of all blocks of one launch; one launch per communicator at a time.
#pragma once
#include "kernels/dispatch.h"
#include "kernels/one_shot.h"
#include "kernels/send_recv.h"
#include "proto/format/doorbell.h"

namespace gpucoll::coll::device {

// The position of the n-th set bit. REQUIRES: mask has more than n set bits.
GC_HD uint32_t nth_bit(uint64_t mask, uint32_t n) {
  if ((mask & (mask + 1)) == 0) return n;  // as nearly always: the first ones are
  GC_NO_UNROLL
  for (; n > 0; --n) mask &= mask - 1;
  return proto::lowest_bit(mask);
}

// The last block to finish counts the launch and stores the completion word. The barrier before (REQUIRES: the block
// has met) and the acquire-release of blocks_done order what any block has written and read before that store; the
// host's acquire of the word pairs with it. What peers wait for orders itself (format/connection.h), and so does a
// fault's report: results in this device's memory are left, items, which have been read, and the counters.
// before: the counters as the launch found them; mesh_flag: of its last mesh operation, if it had one. on_host: some
// results may lie in memory of the host.
template <class Coop>
GC_DEV void finish_plan(const Coop& coop, uint32_t n_blocks, const proto::Plan& plan,
                        const proto::LaunchCounters& before, uint32_t mesh_flag, bool on_host) {
  const bool tells = plan.done_word != nullptr;
  if (coop.rank() != 0 || (!tells && mesh_flag == before.mesh_flag)) return;
  proto::DeviceComm& comm = *plan.comm;
  if (n_blocks > 1) {
    if (proto::fetch_add_acq_rel(&comm.blocks_done, uint32_t{1}) != n_blocks - 1) return;
    proto::store_relaxed(&comm.blocks_done, uint32_t{0});  // for the next launch: nobody waits for it
  }
  const bool in_graph = plan.in_graph != 0;
  const uint64_t done = in_graph ? before.in_graphs + 1 : before.done + (tells ? 1 : 0);
  if (in_graph) {
    comm.counters.in_graphs = static_cast<uint32_t>(done);
  } else {
    comm.counters.done = done;
  }
  comm.counters.mesh_flag = mesh_flag;
  if (!tells) return;
  if (plan.tells_seldom != 0 && !in_graph) {
    const uint64_t now = proto::now_ns();
    if (now - before.told_ns < proto::kTellNs || proto::kMutant == 21) return;
    comm.counters.told_ns = now;
  }
  if (on_host) return proto::store_release(plan.done_word, done);
  proto::store_release_own(plan.done_word, done);
}
template <class Coop>
GC_DEV void finish_plan(const Coop& coop, uint32_t n_blocks, const proto::Plan& plan,
                        const proto::LaunchCounters& before, uint32_t mesh_flag) {
  finish_plan(coop, n_blocks, plan, before, mesh_flag, plan.results_on_host != 0);
}

// The first block of a launch of a graph tells the host that it has begun: nobody else knows. Nothing hangs on when the
// host sees it.
template <class Block>
GC_DEV void begin_plan(const Block& block, uint32_t index, const proto::Plan& plan,
                       const proto::LaunchCounters& before) {
  if (plan.in_graph == 0 || index != 0 || block.rank() != 0) return;
  proto::store_relaxed(&reinterpret_cast<proto::GraphWords*>(plan.done_word)->begun, uint64_t{before.in_graphs + 1});
}

// finish_plan() for a launch that works on this device alone, and looks at the counters here only.
template <class Block>
GC_DEV void finish_local_plan(const Block& block, uint32_t n_blocks, const proto::Plan& plan) {
  if (plan.done_word == nullptr) return;
  block.sync();
  if (block.rank() != 0) return;  // the last block may be writing the counters already
  const proto::LaunchCounters& counters = plan.comm->counters;
  finish_plan(block, n_blocks, plan, counters, counters.mesh_flag);
}

// Memory that the threads of a block share: the channel's part of DeviceComm, the counters as the launch found them,
// and items of a batch, as many as there is room for. Device memory and launch arguments are far away, and the work
// FIFO lies across the bus. So the block brings all that it needs of these at once, each thread loading a pack.
inline constexpr uint32_t kWindow = 16;
struct Stage {
  proto::ChannelComm comm;
  proto::LaunchCounters counters;
  proto::WorkItem window[kWindow];
  PeerBuffers open;
};
static_assert(sizeof(Stage) <= proto::kSharedBytes && kWindow >= proto::kPairsPerBatch);

// Copies the first items of those of `from` whose bits are set into the window, as many as it holds; and, before its
// first use, what the block needs of the communicator (null: it is there). The host may be adding connections to that,
// which this launch does not use.
template <class Block>
GC_DEV Items bring(const Block& block, const proto::DeviceComm* comm, uint32_t channel, const proto::WorkItem* from,
                   uint64_t bits, Stage& stage) {
  constexpr uint32_t kPackBytes = sizeof(proto::Pack), kItemPacks = sizeof(proto::WorkItem) / kPackBytes;
  constexpr uint32_t kCommPacks = offsetof(Stage, window) / kPackBytes;
  constexpr uint32_t kChannelPacks = offsetof(Stage, counters) / kPackBytes;
  const uint32_t bits_set = proto::count_bits(bits), n = bits_set < kWindow ? bits_set : kWindow;
  const uint32_t skipped = comm == nullptr ? kCommPacks : 0, size = static_cast<uint32_t>(block.size());
  GC_NO_UNROLL
  for (uint32_t p = skipped + static_cast<uint32_t>(block.rank()); p < kCommPacks + n * kItemPacks; p += size) {
    const void* source;
    uint32_t at = p;
    if (p >= kCommPacks) {
      source = from + nth_bit(bits, (p - kCommPacks) / kItemPacks);
      at = (p - kCommPacks) % kItemPacks;
    } else if (p >= kChannelPacks) {
      source = &comm->counters;
      at = p - kChannelPacks;
    } else {
      source = comm->channel + channel;
    }
    proto::store(reinterpret_cast<uint8_t*>(&stage) + p * kPackBytes,
                 proto::load_beside_writes(static_cast<const uint8_t*>(source) + at * kPackBytes));
  }
  block.sync();
  return {stage.window, n};
}

// body(items), for what is left of a batch whose first items are here; several times where the window holds less.
// REQUIRES: body ends with a barrier.
template <class Block, class Body>
GC_DEV void each_window(const Block& block, Items here, const proto::WorkItem* from, uint64_t bits, Stage& stage,
                        const Body& body) {
  for (;;) {
    body(here);
    GC_NO_UNROLL
    for (uint32_t i = 0; i < here.n; ++i) bits &= bits - 1;
    if (bits == 0) return;
    here = bring(block, nullptr, 0, from, bits, stage);
  }
}
GC_DEV const proto::WorkItem* items_of(const proto::Plan& plan, const proto::Batch& batch) {
  return (plan.items == nullptr ? plan.own_items() : plan.items) + batch.base;
}

// The block's items one after another. all: those of the plan.
template <class Way, class Block>
GC_DEV void run_collectives(const Block& block, uint32_t channel, const proto::Batch& batch, const Items& items,
                            const proto::WorkItem* all, Stage& stage) {
  items.each([&](const proto::WorkItem& item) {
    const uint32_t addresses = item.collective.addresses;
    Way::run(block, batch, Work{stage.comm, item.collective, channel, batch.op},
             Opened{addresses != 0 ? &all[addresses].addresses : nullptr, stage.open});
    block.sync();  // the next item may cut the block otherwise
  });
}

// Keeps what the block's operations have changed of the communicator, for the next launch. A link that is not there may
// be made while this runs: where the block has seen a part of it, the host still stores the zeros that are here.
GC_DEV void keep_steps(const proto::Connector& end, proto::Connector& home) {
  if (end.receive == nullptr) return;
  proto::store_beside_writes(&home.step, end.step);
  proto::store_beside_writes(&home.seen, end.seen);
}

// A kernel that does its items in one of the ways (dispatch.h). shared: kSharedBytes that the block's threads share.
template <class Way, class Block>
GC_DEV void run_plan(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan, void* shared) {
  Stage& stage = *static_cast<Stage*>(shared);
  const uint32_t channel = nth_bit(plan.channel_mask, index);
  proto::ChannelComm& home = plan.comm->channel[channel];
  for (uint32_t b = index, first = 1;; first = 0) {
    const proto::Batch batch = plan.batch(b);
    const proto::WorkItem* const from = items_of(plan, batch);
    const Items here = bring(block, first != 0 ? plan.comm : nullptr, channel, from, batch.items, stage);
    if (first != 0) begin_plan(block, index, plan, stage.counters);
    each_window(block, here, from, batch.items, stage, [&](const Items& items) {
      if constexpr (Way::kMessages) {
        if (batch.function == proto::Function::send_recv) {
          send_recv(block, stage.comm, channel, items);
          return block.sync();
        }
      }
      run_collectives<Way>(block, channel, batch, items, from - batch.base, stage);
    });
    b = batch.next;
    if (b == 0) break;
  }
  if (block.rank() == 0) {
    keep_steps(stage.comm.ring_send, home.ring_send);
    keep_steps(stage.comm.ring_recv, home.ring_recv);
    home.openings = stage.comm.openings;
  }
  finish_plan(block, n_blocks, plan, stage.counters, stage.counters.mesh_flag);
}

// Returns whether the words hold the item of launch `number`; if so, it is the window's first item then.
template <class Block>
GC_DEV bool look_at_doorbell(const Block& block, const uint64_t* words, uint64_t number, Stage& stage) {
  auto* const item = reinterpret_cast<uint8_t*>(&stage.window[0]);
  bool all = true;
  for (uint32_t w = static_cast<uint32_t>(block.rank()); w < proto::kDoorbellWords;
       w += static_cast<uint32_t>(block.size())) {
    const uint64_t word = proto::kMutant == 13  // sees what was written before it began only
                              ? proto::load_relaxed(&words[w])
                              : proto::load_acquire(&words[w]);
    all &= proto::is_posted(word, number);
    proto::store(item + w * sizeof(uint32_t), static_cast<uint32_t>(word));
  }
  return !block.any(!all);
}

// The first block waits for the host; false once `ns` are over.
template <class Block>
GC_DEV bool await_host(const Block& block, const proto::Doorbell& doorbell, uint64_t number, uint32_t ns,
                       Stage& stage) {
  constexpr uint32_t kTurnsPerClock = 4;
  const uint64_t begin = proto::now_ns();
  for (uint32_t turn = 1; !look_at_doorbell(block, doorbell.word, number, stage); ++turn) {
    if (turn % kTurnsPerClock == 0 && block.any(proto::now_ns() - begin > ns)) return false;
    proto::pause();
  }
  return true;
}
// Where the first block tells the others what it has found, which they wait for as `number`.
GC_DEV uint64_t* relay_words(proto::DeviceComm& comm, uint64_t number) { return comm.relay[number % 2]; }
// It tells the others, which wait for nobody else. They are on this device, so it need not wait for its stores to
// others.
template <class Block>
GC_DEV void relay(const Block& block, bool posted, uint64_t number, const Stage& stage, proto::DeviceComm& comm) {
  uint64_t* const words = relay_words(comm, number);
  for (uint32_t w = static_cast<uint32_t>(block.rank()); w < proto::kDoorbellWords;
       w += static_cast<uint32_t>(block.size())) {
    const auto* const item = reinterpret_cast<const uint8_t*>(&stage.window[0]);
    const uint32_t data = posted ? proto::load<uint32_t>(item + w * sizeof(uint32_t)) : proto::leave_word(w);
    proto::store_release_own(&words[w], proto::doorbell_word(data, number));
  }
}

// After its plan: runs what the host posts, one after another, until the first block leaves, as there is no more or
// the fault latch has ended an operation. See format/doorbell.h.
// before: the counters as they are now.
template <class Red, class Block>
GC_DEV void stay(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan,
                 proto::LaunchCounters before, Stage& stage) {
  proto::Doorbell& doorbell = *stage.comm.doorbell;
  const uint32_t channel = nth_bit(plan.channel_mask, index);
  for (bool ok = true;; ++before.done) {
    const uint64_t number = before.done + 1;
    if (index == 0) {
      const bool posted = ok && await_host(block, doorbell, number, plan.resident_ns, stage);
      if (n_blocks > 1) relay(block, posted, number, stage, *plan.comm);
      if (!posted) break;
    } else {
      while (!look_at_doorbell(block, relay_words(*plan.comm, number), number, stage)) proto::pause();
    }
    const proto::CollectiveItem& item = stage.window[0].collective;
    if (item.function == proto::kLeave) break;
    const uint32_t flag = proto::next_mesh_flag(before.mesh_flag);
    ok = one_shot<Red>(block, stage.comm, channel, item, Turn{flag, false, {}});
    ok = !block.any(!ok);
    finish_plan(block, n_blocks, plan, before, flag);
    before.mesh_flag = flag;
  }
  if (index == 0 && block.rank() == 0) proto::store_release(&doorbell.left, before.done);
}

// The kernel of one-shots that reduce by Red, or move. Channels without a share take part, too, and the block meets
// between two items: see format/mesh.h. What a thread sends first is on its way while the block brings what it needs
// else.
template <class Red, class Block>
GC_DEV void run_one_shots(const Block& block, uint32_t index, uint32_t n_blocks, const proto::Plan& plan,
                          void* shared) {
  Stage& stage = *static_cast<Stage*>(shared);
  const uint32_t channel = nth_bit(plan.channel_mask, index), thread = static_cast<uint32_t>(block.rank());
  const proto::Batch& batch = plan.batch(0);
  const proto::WorkItem* const from = items_of(plan, batch);
  const uint32_t at = batch.base + proto::lowest_bit(batch.items);
  proto::CollectiveItem item{};
  if (plan.items == nullptr) {
    item = plan.own_items()[at].collective;  // by its own name: launch arguments are constants
  } else {
    item = plan.items[at].collective;
  }
  const proto::Pack early = OneShot<Red>::read_first(item, channel, thread);
  const Items here = bring(block, plan.comm, channel, from, batch.items, stage);
  begin_plan(block, index, plan, stage.counters);
  Turn turn{stage.counters.mesh_flag, true, early};
  bool ok = true;
  each_window(block, here, from, batch.items, stage, [&](const Items& items) {
    items.each([&](const proto::WorkItem& item) {
      if (proto::kMutant != 5 && !turn.is_first && block.any(!ok)) return;
      turn.flag = proto::next_mesh_flag(turn.flag);
      ok = one_shot<Red>(block, stage.comm, channel, item.collective, turn);
      turn.is_first = false;
    });
    block.sync();
  });
  finish_plan(block, n_blocks, plan, stage.counters, turn.flag);
  if (plan.resident_ns != 0)
    stay<Red>(block, index, n_blocks, plan, {stage.counters.done + 1, turn.flag, stage.counters.in_graphs, 0, 0},
              stage);
}

}  // namespace gpucoll::coll::device
