// Ranks of one process with connections between ring neighbours, and a mesh where a test asks for it, laid out as the
// core does it for real devices.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "proto/format/plan.h"

namespace gpucoll::test {

// One connection: the receiver's block and the sender's, and both ends.
class Link {
 public:
  explicit Link(size_t slot_bytes, uint64_t first_step = 0)
      : receive_(proto::ReceiveBlock::bytes(slot_bytes) / sizeof(proto::StepCounter)), send_(1) {
    tail()[0] = head()[0] = first_step;
    uint8_t* const slots = reinterpret_cast<uint8_t*>(receive_.data()) + proto::ReceiveBlock::kSlotsOffset;
    sender = receiver = proto::Connector{slots, tail(), head(), first_step};
  }
  uint64_t* tail() { return &receive_[0].value; }
  uint64_t* head() { return &send_[0].value; }

  proto::Connector sender, receiver;

 private:
  std::vector<proto::StepCounter> receive_, send_;
};

// In odd channels the ring runs the other way round and starts elsewhere, so that places and ranks differ.
inline int rank_at(int channel, int place, int n_ranks) {
  return channel % 2 == 0 ? place % n_ranks : (2 * n_ranks - place % n_ranks + channel) % n_ranks;
}

class World {
 public:
  World(int n_ranks, int n_channels, uint32_t slot_bytes, uint64_t first_step = 0)
      : n_(n_ranks), ranks_(static_cast<size_t>(n_ranks)) {
    for (int r = 0; r < n_; ++r) set_up(r, n_channels, slot_bytes);
    for (int c = 0; c < n_channels; ++c) {
      for (int p = 0; p < n_; ++p) connect(c, rank_at(c, p, n_), rank_at(c, p + 1, n_), p, slot_bytes, first_step);
    }
  }
  // calloc, since a system gives out zeros without touching memory, and a test needs little of it.
  void add_mesh() {
    for (int r = 0; r < n_; ++r) {
      mesh_memory_.emplace_back(std::calloc(proto::mesh_bytes(n_), 1), &std::free);
      mesh_.push_back(static_cast<uint8_t*>(mesh_memory_.back().get()));
    }
    for (Rank& rank : ranks_) rank.comm.mesh = mesh_.data();
  }
  const proto::DeviceComm& comm(int rank) const { return ranks_[static_cast<size_t>(rank)].comm; }
  const uint32_t& blocks_done(int rank) const { return *comm(rank).blocks_done; }
  // As the host would read them between two kernels.
  const proto::Connector& sender(int channel, int rank) const {
    return comm(rank).send[channel * n_ + comm(rank).ring_next[channel]];
  }
  proto::FaultLatch& latch() { return latch_; }

 private:
  struct Rank {
    proto::DeviceComm comm{};
    std::vector<proto::Connector> send, recv;
    uint32_t blocks_done = 0;
  };

  void set_up(int r, int n_channels, uint32_t slot_bytes) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const size_t connectors = static_cast<size_t>(n_channels * n_);
    rank.send.resize(connectors);
    rank.recv.resize(connectors);
    rank.comm.rank = r;
    rank.comm.n_ranks = n_;
    rank.comm.slot_bytes = slot_bytes;
    rank.comm.n_channels = static_cast<uint32_t>(n_channels);
    rank.comm.latch = &latch_;
    rank.comm.send = rank.send.data();
    rank.comm.recv = rank.recv.data();
    rank.comm.blocks_done = &rank.blocks_done;
  }

  void connect(int channel, int from, int to, int place, uint32_t slot_bytes, uint64_t first_step) {
    Rank& sender = ranks_[static_cast<size_t>(from)];
    Rank& receiver = ranks_[static_cast<size_t>(to)];
    links_.push_back(std::make_unique<Link>(slot_bytes, first_step));
    sender.send[static_cast<size_t>(channel * n_ + to)] = links_.back()->sender;
    receiver.recv[static_cast<size_t>(channel * n_ + from)] = links_.back()->receiver;
    sender.comm.ring_next[channel] = to;
    sender.comm.ring_index[channel] = place;
    receiver.comm.ring_prev[channel] = from;
  }

  int n_;
  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> mesh_memory_;
  std::vector<uint8_t*> mesh_;
  proto::FaultLatch latch_{0};
};

}  // namespace gpucoll::test
