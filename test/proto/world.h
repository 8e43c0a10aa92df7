// Ranks of one process with connections along rings and trees, between all pairs and a mesh where a test asks for them,
// laid out as the core does it for real devices.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <vector>

#include "proto/format/line_mesh.h"
#include "proto/format/plan.h"
#include "proto/format/zero_copy.h"

namespace gpucoll::test {

// A connection whose Simple slots are of this size.
inline proto::ConnectionShape shape_of(uint32_t slot_bytes) {
  return proto::connection_shape(uint64_t{slot_bytes} * proto::kSteps);
}

// One connection: the receiver's block and the sender's, and both ends.
class Link {
 public:
  explicit Link(const proto::ConnectionShape& shape, uint64_t first_step = 0)
      : receive_(proto::ReceiveBlock::bytes(shape) / sizeof(proto::StepCounter)), send_(1) {
    sender = receiver = proto::Connector{bytes(receive_), bytes(send_), first_step, first_step};
    *tail() = *head() = first_step;
  }
  uint64_t* tail() { return &receive_[0].value; }
  uint64_t* head() { return &send_[0].value; }
  // Before an operation: the receiver has drained as many steps, and the sender knows of no more.
  void start_head(uint64_t steps) { *head() = sender.seen = steps; }
  proto::Note* note(uint64_t step) {
    uint8_t* const notes = sender.receive + proto::ReceiveBlock::kNotesOffset;
    return &reinterpret_cast<proto::StepNotes*>(notes)->note[step % proto::kSteps];
  }
  uint8_t* simple_slots() const { return sender.receive + proto::ReceiveBlock::kSlotsOffset; }

  proto::Connector sender, receiver;

 private:
  static uint8_t* bytes(std::vector<proto::StepCounter>& block) { return reinterpret_cast<uint8_t*>(block.data()); }
  std::vector<proto::StepCounter> receive_, send_;
};

// Zeros, and a page after them that nobody may touch. A test needs little of a mesh: this costs what is touched, where
// calloc clears what it has kept.
class ZeroPages {
 public:
  explicit ZeroPages(size_t bytes)
      : bytes_((bytes + kPage - 1) / kPage * kPage),
        data_(mmap(nullptr, bytes_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(data() + bytes_, kPage, PROT_NONE);
  }
  ~ZeroPages() { munmap(data_, bytes_ + kPage); }
  ZeroPages(const ZeroPages&) = delete;
  ZeroPages& operator=(const ZeroPages&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  static constexpr size_t kPage = 4096;
  size_t bytes_;
  void* data_;
};

// In odd channels the ring runs the other way round and starts elsewhere, so that places and ranks differ.
inline int rank_at(int channel, int place, int n_ranks) {
  return channel % 2 == 0 ? place % n_ranks : (2 * n_ranks - place % n_ranks + channel) % n_ranks;
}

class World {
 public:
  World(int n_ranks, int n_channels, uint32_t slot_bytes, uint64_t first_step = 0)
      : n_(n_ranks), n_channels_(n_channels), first_step_(first_step), ranks_(static_cast<size_t>(n_ranks)) {
    for (int r = 0; r < n_; ++r) set_up(r, slot_bytes);
    for (int c = 0; c < n_channels; ++c) {
      for (int p = 0; p < n_; ++p) add_ring(c, p);
      for (int p = 0; p < n_; ++p) connect(proto::kCollectiveLinks, c, rank_at(c, p, n_), rank_at(c, p + 1, n_));
      for (int r = 1; r < n_; ++r) connect(proto::kCollectiveLinks, c, r - 1, r);  // for scans
      for (int p = 1; p < n_; ++p) add_branch(c, p);
    }
  }
  // Connections for send and receive between all pairs. REQUIRES: n_channels is a power of two.
  void add_pairs(int n_channels, uint32_t slot_bytes) {
    for (Rank& rank : ranks_) {
      for (proto::ChannelComm& comm : rank.comm->channel) comm.n_pair_channels = static_cast<uint16_t>(n_channels);
      rank.add_connectors(proto::kPairLinks, n_channels, slot_bytes);
    }
    for (int c = 0; c < n_channels; ++c) {
      for (int i = 0; i < n_ * n_; ++i) connect(proto::kPairLinks, c, i / n_, i % n_);
    }
  }
  void add_mesh() {
    for (int r = 0; r < n_; ++r) mesh_.push_back(mesh_memory_.emplace_back(proto::mesh_bytes(n_)).data());
    for (Rank& rank : ranks_) {
      for (proto::ChannelComm& comm : rank.comm->channel) std::copy(mesh_.begin(), mesh_.end(), comm.mesh);
    }
  }
  // Each rank has its own buffer, and images of the others', in which the test's host finds what ranks store.
  void add_network_mesh() {
    for (int i = 0; i < n_ * n_; ++i) mesh_.push_back(mesh_memory_.emplace_back(proto::network_mesh_bytes(n_)).data());
    for (int r = 0; r < n_; ++r) {
      proto::ChannelComm& comm = ranks_[static_cast<size_t>(r)].comm->channel[0];
      comm.network_mesh = 1;
      for (int peer = 0; peer < n_; ++peer) comm.mesh[peer] = mesh_of(r, peer);
    }
  }
  // Returns a rank's buffer of a network mesh, where both are the same; else its image of the peer's.
  uint8_t* mesh_of(int rank, int peer) const { return mesh_[static_cast<size_t>(rank * n_ + peer)]; }
  // step: how many have been taken.
  void add_line_mesh(uint64_t step = 0) {
    std::vector<uint8_t*> lines;
    for (int r = 0; r < n_; ++r) lines.push_back(mesh_memory_.emplace_back(proto::line_mesh_bytes(n_)).data());
    for (Rank& rank : ranks_) {
      for (proto::ChannelComm& comm : rank.comm->channel) {
        line_ends_.push_back(std::make_unique<proto::LineMeshEnds>());
        comm.line_mesh = line_ends_.back().get();
        comm.line_mesh->step = step;
        std::copy(lines.begin(), lines.end(), comm.line_mesh->lines);
      }
    }
  }
  proto::DeviceComm& comm(int rank) const { return *ranks_[static_cast<size_t>(rank)].comm; }
  const uint32_t& blocks_done(int rank) const { return comm(rank).blocks_done; }
  // Both ends of the link between two ranks, as the host would read them between two kernels.
  proto::Connector& sender(proto::LinkKind kind, int channel, int from, int to) const {
    proto::ChannelComm& comm = this->comm(from).channel[channel];
    return kind == proto::kCollectiveLinks && comm.ring_next == to ? comm.ring_send : comm.send[kind][to];
  }
  proto::Connector& receiver(proto::LinkKind kind, int channel, int to, int from) const {
    proto::ChannelComm& comm = this->comm(to).channel[channel];
    return kind == proto::kCollectiveLinks && comm.ring_prev == from ? comm.ring_recv : comm.recv[kind][from];
  }
  proto::FaultLatch& latch() { return latch_; }

 private:
  struct Rank {
    std::unique_ptr<proto::DeviceComm> comm = std::make_unique<proto::DeviceComm>();
    std::vector<proto::Connector> send[proto::kLinkKinds], recv[proto::kLinkKinds];
    std::vector<int32_t> ring_ranks;

    void add_connectors(proto::LinkKind kind, int n_channels, uint32_t slot_bytes) {
      const auto n = static_cast<size_t>(comm->channel[0].n_ranks), channels = static_cast<size_t>(n_channels);
      send[kind].resize(channels * n);
      recv[kind].resize(channels * n);
      for (proto::ChannelComm& channel : comm->channel) channel.shape[kind] = shape_of(slot_bytes);
      for (size_t c = 0; c < channels; ++c) {
        comm->channel[c].send[kind] = send[kind].data() + c * n;
        comm->channel[c].recv[kind] = recv[kind].data() + c * n;
      }
    }
  };

  void set_up(int r, uint32_t slot_bytes) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.ring_ranks.resize(static_cast<size_t>(n_channels_ * n_));
    for (proto::ChannelComm& comm : rank.comm->channel) {
      comm.rank = r;
      comm.n_ranks = n_;
      comm.n_channels = static_cast<uint32_t>(n_channels_);
      comm.latch = &latch_;
      comm.tree = {-1, {-1, -1}};
      comm.ring_next = comm.ring_prev = -1;
    }
    rank.add_connectors(proto::kCollectiveLinks, n_channels_, slot_bytes);
  }

  void add_ring(int channel, int place) {
    const int own = rank_at(channel, place, n_);
    Rank& rank = ranks_[static_cast<size_t>(own)];
    proto::ChannelComm& comm = rank.comm->channel[channel];
    comm.ring_index = place;
    comm.ring_ranks = &rank.ring_ranks[static_cast<size_t>(channel * n_)];
    for (int hops = 0; hops < n_; ++hops) {
      const int there = rank_at(channel, place + hops, n_);
      rank.ring_ranks[static_cast<size_t>(channel * n_ + hops)] = there;
      if (hops < proto::kNearRanks) comm.near_ranks[hops] = there;
    }
    if (n_ == 1) return;
    comm.ring_next = rank_at(channel, place + 1, n_);
    comm.ring_prev = rank_at(channel, place + n_ - 1, n_);
  }

  // The tree of a channel: the ring's places as a heap, so that the root is its place 0.
  void add_branch(int channel, int place) {
    const int child = rank_at(channel, place, n_), parent = rank_at(channel, (place - 1) / 2, n_);
    comm(child).channel[channel].tree.parent = parent;
    comm(parent).channel[channel].tree.child[(place - 1) % 2] = child;
    connect(proto::kCollectiveLinks, channel, child, parent);
    connect(proto::kCollectiveLinks, channel, parent, child);
  }

  // Once, also where ring and tree have an edge in common. No rank is connected to itself.
  void connect(proto::LinkKind kind, int channel, int from, int to) {
    proto::Connector& end = sender(kind, channel, from, to);
    if (from == to || end.receive != nullptr) return;
    links_.push_back(std::make_unique<Link>(comm(from).channel[channel].shape[kind], first_step_));
    end = links_.back()->sender;
    receiver(kind, channel, to, from) = links_.back()->receiver;
  }

  int n_, n_channels_;
  uint64_t first_step_;
  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<Link>> links_;
  std::list<ZeroPages> mesh_memory_;
  std::vector<uint8_t*> mesh_;
  std::vector<std::unique_ptr<proto::LineMeshEnds>> line_ends_;
  proto::FaultLatch latch_{};
};

}  // namespace gpucoll::test
