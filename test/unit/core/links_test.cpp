// Links between ranks: made in any order, over the transport that both sides can use; trees; tables for kernels.
#include "core/connect/links.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "../../patience.h"
#include "base/observe/counters.h"
#include "base/params.h"
#include "core/connect/device_tables.h"
#include "core/connect/end_wait.h"
#include "core/connect/link_breaks.h"
#include "core/connect/link_progress.h"
#include "core/connect/rings.h"
#include "core/connect/trees.h"
#include "core/peer/memory_port.h"
#include "wireup_ranks.h"

using namespace gpucoll;
using namespace gpucoll::core;
using namespace gpucoll_test;

namespace {

constexpr int kLanesOf[] = {3, 2};  // by kind

LinksOptions options_for_test() {
  LinksOptions options = {};
  for (int kind : {proto::kCollectiveLinks, proto::kPairLinks}) options.slots[kind] = proto::connection_shape(4096);
  return options;
}

std::vector<LinkWish> wishes_for(const std::vector<LinkName>& names, int less = 0) {
  std::vector<LinkWish> wishes;
  for (const LinkName& name : names) wishes.push_back({name, kLanesOf[name.kind] - less});
  return wishes;
}

std::vector<LinkName> links_to_all(int rank, int n) {
  std::vector<LinkName> names;
  for (int peer = 0; peer < n; ++peer)
    for (proto::LinkKind kind : {proto::kCollectiveLinks, proto::kPairLinks})
      for (net::Side side : {net::Side::send, net::Side::receive})
        if (peer != rank) names.push_back({kind, peer, side});
  return names;
}

uint64_t mark(int kind, int from, int to, int lane) {
  return 1 + static_cast<uint64_t>(((kind * 16 + from) * 16 + to) * 16 + lane);
}

uint64_t* word(uint8_t* block) { return reinterpret_cast<uint64_t*>(block); }

// The receiver's block and the sender's are those of one connection, for each lane.
void write_marks(int rank, const Links& links, const std::vector<LinkName>& names) {
  for (const LinkName& name : names)
    for (int lane = 0; lane < kLanesOf[name.kind]; ++lane) {
      const proto::Connector c = links.connector(name, lane);
      EXPECT_EQ(c.step, 0u);
      const bool send = name.side == net::Side::send;
      const uint64_t value = send ? mark(name.kind, rank, name.peer, lane) : mark(name.kind, name.peer, rank, lane);
      *word(send ? c.receive : c.send) = value;
    }
}
void read_marks(int rank, const Links& links, const std::vector<LinkName>& names) {
  for (const LinkName& name : names)
    for (int lane = 0; lane < kLanesOf[name.kind]; ++lane) {
      const proto::Connector c = links.connector(name, lane);
      const bool send = name.side == net::Side::send;
      const uint64_t value = send ? mark(name.kind, rank, name.peer, lane) : mark(name.kind, name.peer, rank, lane);
      EXPECT_EQ(*word(send ? c.send : c.receive), value);
    }
}

void all_wait(MeetingRank& self) {
  char mine = 0;
  std::vector<char> all(static_cast<size_t>(self.peers.size()));
  self.bootstrap.allgather(&mine, all.data(), 1).ignore();
}

// A device whose memory others cannot open, or that cannot open theirs.
class LameMemoryPort final : public net::MemoryPort {
 public:
  explicit LameMemoryPort(net::MemoryPort& port) : port_(port) {}
  Result<void*> allocate(size_t bytes, net::LinkBlob* handle) override { return port_.allocate(bytes, handle); }
  void release(void* address) noexcept override {
    ++released;
    port_.release(address);
  }
  Result<void*> open(const net::LinkBlob&) override { return Status::error(Code::device, "lame on purpose"); }
  void close(void* address) noexcept override { port_.close(address); }
  Result<void*> map_host(void* host, size_t bytes) override { return port_.map_host(host, bytes); }
  void unmap_host(void* host, void* address, size_t bytes) noexcept override { port_.unmap_host(host, address, bytes); }
  int released = 0;

 private:
  net::MemoryPort& port_;
};

// A transport whose ends connect without an error, whether they reach each other or not.
class TriedTransport final : public net::Transport {
 public:
  explicit TriedTransport(bool reaches) : reaches_(reaches) {}
  const char* name() const override { return "tried"; }
  Result<std::unique_ptr<net::LinkEnd>> make_end(net::Side, const net::LinkShape&, net::MemoryPort&) override {
    return std::unique_ptr<net::LinkEnd>(new End(reaches_));
  }

 private:
  class End final : public net::LinkEnd {
   public:
    explicit End(bool reaches) : reaches_(reaches) {}
    const net::LinkBlob& blob() const override { return blob_; }
    Status connect(const net::LinkBlob&) override { return {}; }
    bool needs_trial() const override { return true; }
    Status begin_trial() override {
      begun_ = true;
      return {};
    }
    Result<bool> established() override {
      if (!begun_ || reaches_) return true;
      return Status::error(Code::remote, "nobody answers");
    }
    proto::Connector connector(int) const override { return {}; }

   private:
    const bool reaches_;
    bool begun_ = false;
    net::LinkBlob blob_ = {};
  };
  const bool reaches_;
};

// Connects two ranks by a transport that reaches the other from rank 0, and from rank 1 if asked, else over shm.
void connect_tried(bool both_reach, const char* expected) {
  const uint64_t before = counter_value(static_cast<size_t>(Counter::slow_no_link));
  on_meeting_ranks(2, [&](MeetingRank& self) {
    TriedTransport tried(self.rank == 0 || both_reach);
    auto mailbox = make_page_mailbox(self.peers);
    DeviceMemoryPort memory(self.device);
    PeerWait wait(self.fault, self.peers, nullptr);
    const net::Side side = self.rank == 0 ? net::Side::send : net::Side::receive;
    CauseLog causes("a communicator");
    Wireup wireup({proto::kCollectiveLinks, 1 - self.rank, side}, {1, proto::connection_shape(4096)},
                  {{&tried, nullptr}, {&net::shm_transport(), nullptr}}, *mailbox, memory, causes);
    ASSERT_TRUE(wireup.begin());
    for (bool ended = false; !ended;) {
      auto advanced = wireup.advance();
      ASSERT_TRUE(advanced);
      ended = *advanced;
      ASSERT_TRUE(wait.check(1 - self.rank, "its end"));
    }
    EXPECT_TRUE(wireup.failure());
    const Link link = wireup.take_link();
    EXPECT_STREQ(link.transport, expected);
    all_wait(self);
  });
  EXPECT_EQ(counter_value(static_cast<size_t>(Counter::slow_no_link)) - before, both_reach ? 0u : 2u);
}

}  // namespace

TEST(Wireup, ATrialThatFailsOnOneSideLeadsBothToTheNextTransport) { connect_tried(false, "shm"); }
TEST(Wireup, ATrialThatBothPassMakesTheLink) { connect_tried(true, "tried"); }

TEST(Links, MeetInAnyOrder) {
  constexpr int n = 5;
  on_meeting_ranks(n, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    DeviceMemoryPort memory(self.device);
    CauseLog causes("a communicator");
    Links links(*mailbox, self.peers, memory, self.device, options_for_test(), causes);
    PeerWait wait(self.fault, self.peers, nullptr);
    auto names = links_to_all(self.rank, n);
    std::shuffle(names.begin(), names.end(), std::mt19937(static_cast<unsigned>(self.rank)));
    for (int less : {1, 0}) {  // at last they grow by a lane
      Status made = links.make(wishes_for(names, less), wait);
      ASSERT_TRUE(made.ok()) << made.what();
      for (const LinkName& name : names) EXPECT_EQ(links.lanes(name), kLanesOf[name.kind] - less);
    }
    EXPECT_TRUE(links.all_p2p());
    for (const LinkName& name : names) EXPECT_TRUE(links.reaches(name.peer));
    EXPECT_FALSE(links.reaches(self.rank));
    write_marks(self.rank, links, names);
    all_wait(self);
    read_marks(self.rank, links, names);
    all_wait(self);
  });
}

TEST(Links, OneAfterAnotherWithoutTheOthers) {
  constexpr int n = 4;
  on_meeting_ranks(n, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    DeviceMemoryPort memory(self.device);
    CauseLog causes("a communicator");
    Links links(*mailbox, self.peers, memory, self.device, options_for_test(), causes);
    PeerWait wait(self.fault, self.peers, nullptr);
    // A chain: rank 0 to 1, then 1 to 2, and so on; nobody else takes part.
    if (self.rank > 0) {
      EXPECT_TRUE(links.make({{{proto::kPairLinks, self.rank - 1, net::Side::receive}, 1}}, wait).ok());
    }
    if (self.rank + 1 < n) {
      EXPECT_TRUE(links.make({{{proto::kPairLinks, self.rank + 1, net::Side::send}, 1}}, wait).ok());
    }
    EXPECT_FALSE(links.reaches((self.rank + 2) % n));
    all_wait(self);
  });
}

TEST(Links, BothSidesGoOverToSharedMemory) {
  constexpr int n = 3;
  on_meeting_ranks(n, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    DeviceMemoryPort memory(self.device);
    LameMemoryPort lame(memory);
    net::MemoryPort* port = &memory;
    if (self.rank == 1) port = &lame;
    CauseLog causes("a communicator");
    Links links(*mailbox, self.peers, *port, self.device, options_for_test(), causes);
    PeerWait wait(self.fault, self.peers, nullptr);
    const auto names = links_to_all(self.rank, n);
    Status made = links.make(wishes_for(names), wait);
    ASSERT_TRUE(made.ok()) << made.what();
    EXPECT_FALSE(links.all_p2p());
    write_marks(self.rank, links, names);
    all_wait(self);
    read_marks(self.rank, links, names);
    all_wait(self);
  });
}

TEST(Links, AForcedTransportFailsOnBothSidesWithTheReason) {
  on_meeting_ranks(2, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    DeviceMemoryPort memory(self.device);
    LameMemoryPort lame(memory);
    net::MemoryPort* port = &memory;
    if (self.rank == 1) port = &lame;
    LinksOptions options = options_for_test();
    options.transport = kTransportP2p;
    CauseLog causes("a communicator");
    Links links(*mailbox, self.peers, *port, self.device, options, causes);
    PeerWait wait(self.fault, self.peers, nullptr);
    const LinkName name = {proto::kPairLinks, 1 - self.rank, self.rank == 0 ? net::Side::send : net::Side::receive};
    Status made = links.make(wishes_for({name}), wait);
    EXPECT_EQ(made.code(), Code::device);
    EXPECT_NE(std::string(made.what()).find("lame on purpose"), std::string::npos) << made.what();
    EXPECT_NE(std::string(made.what()).find("rank 1"), std::string::npos) << made.what();
    EXPECT_EQ(links.lanes(name), 0);
  });
}

// The peer may have come as far as to store into it.
TEST(Links, KeepsTheMemoryOfAMeetingThatWasBrokenOff) {
  on_meeting_ranks(2, [](MeetingRank& self) {
    if (self.rank == 1) return;
    auto mailbox = make_page_mailbox(self.peers);
    DeviceMemoryPort memory(self.device);
    LameMemoryPort port(memory);
    {
      CauseLog causes("a communicator");
      Links links(*mailbox, self.peers, port, self.device, options_for_test(), causes);
      PeerWait wait(self.fault, self.peers, nullptr);
      self.fault.raise(Status::error(Code::internal, "broken on purpose"));
      EXPECT_EQ(links.make(wishes_for({{proto::kPairLinks, 1, net::Side::receive}}), wait).code(), Code::internal);
      EXPECT_EQ(port.released, 0);
    }
    EXPECT_EQ(port.released, 1);
  });
}

// Steps that are under way for ever keep the ends from being told.
TEST(Links, WaitForNoEndAfterAFault) {
  on_meeting_ranks(2, [](MeetingRank& self) {
    auto mailbox = make_page_mailbox(self.peers);
    DeviceMemoryPort memory(self.device);
    LinksOptions options = options_for_test();
    options.transport = kTransportTcp;
    options.activity = [] { return KernelActivity::launched; };
    CauseLog causes("a communicator");
    Links links(*mailbox, self.peers, memory, self.device, options, causes);
    PeerWait wait(self.fault, self.peers, nullptr);
    const LinkName name = {proto::kPairLinks, 1 - self.rank, self.rank == 0 ? net::Side::send : net::Side::receive};
    ASSERT_TRUE(links.make(wishes_for({name}), wait));
    EXPECT_TRUE(links.are_ends_taken());
    links.finish();
    EXPECT_FALSE(links.are_ends_taken());
    all_wait(self);  // nobody waits for a peer that is gone
    self.fault.raise(Status::error(Code::internal, "broken on purpose"));
    EXPECT_TRUE(links.are_ends_taken());
  });
}

TEST(Trees, OfOneNodeReachEveryRankOnceWithLeavesThatDiffer) {
  for (int n = 1; n <= 70; ++n) {
    const Nodes nodes = Nodes::one(n);
    int log2 = 0;
    while ((1 << log2) < n) ++log2;
    std::vector<int> inner(static_cast<size_t>(n));
    for (int channel = 0; channel < 2; ++channel) {
      int roots = 0;
      for (int r = 0; r < n; ++r) {
        const auto place = tree_place(nodes, r, channel);
        EXPECT_EQ(place.parent == place.child[0] && n > 2, false);
        if (place.parent < 0) ++roots;
        if (place.child[0] >= 0) ++inner[static_cast<size_t>(r)];
        if (place.child[0] < 0) {
          EXPECT_LT(place.child[1], 0);
        }
        for (int child : place.child)
          if (child >= 0) {
            EXPECT_EQ(tree_place(nodes, child, channel).parent, r) << n << " ranks, channel " << channel;
          }
        int depth = 0;
        for (int up = r; tree_place(nodes, up, channel).parent >= 0; up = tree_place(nodes, up, channel).parent)
          ASSERT_LE(++depth, log2 + 1) << n << " ranks";
        EXPECT_EQ(tree_place(nodes, r, channel + 2).parent, place.parent);
      }
      EXPECT_EQ(roots, 1);
    }
    for (int times : inner) EXPECT_LE(times, n > 2 ? 1 : 2) << n << " ranks";
  }
}

// Which ranks share a node, by letters; ranks round robin, uneven nodes, nodes of one rank.
const std::vector<std::string> kPlacements = {"abababab", "aaaabbbb", "abbb",        "aab",
                                              "abc",      "abca",     "abcabcab",    "aaab",
                                              "ba",       "abcdefgh", "aabbccddeea", "abcdabcdabcdaaaabbbb"};
Nodes nodes_of(const std::string& letters) { return Nodes(std::vector<int>(letters.begin(), letters.end())); }

TEST(Rings, OfOneNodeAreInTheOrderOfRanks) {
  for (int channel = 0; channel < 3; ++channel)
    EXPECT_EQ(ring_ranks(Nodes::one(5), channel), (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(Rings, EnterEachNodeOnceAndEachChannelByAnotherRank) {
  for (const std::string& letters : kPlacements) {
    const Nodes nodes = nodes_of(letters);
    const int n = nodes.n_ranks();
    std::vector<std::set<int>> entered(static_cast<size_t>(nodes.size())), left(entered);
    size_t largest = 0;
    for (int node = 0; node < nodes.size(); ++node) largest = std::max(largest, nodes.ranks(node).size());
    for (int channel = 0; channel < static_cast<int>(largest); ++channel) {
      const std::vector<int> order = ring_ranks(nodes, channel);
      ASSERT_EQ(std::set<int>(order.begin(), order.end()).size(), static_cast<size_t>(n)) << letters;
      int crossings = 0;
      for (int i = 0; i < n; ++i) {
        const int rank = order[static_cast<size_t>(i)];
        const RingPlace place = ring_place(nodes, rank, channel);
        EXPECT_EQ(place.index, i) << letters;
        EXPECT_EQ(place.next, order[static_cast<size_t>((i + 1) % n)]) << letters;
        EXPECT_EQ(ring_place(nodes, place.next, channel).prev, rank) << letters;
        if (nodes.node_of(place.next) == nodes.node_of(rank)) continue;
        ++crossings;
        left[static_cast<size_t>(nodes.node_of(rank))].insert(rank);
        entered[static_cast<size_t>(nodes.node_of(place.next))].insert(place.next);
      }
      EXPECT_EQ(crossings, nodes.size()) << letters << ", channel " << channel;
    }
    for (int node = 0; node < nodes.size(); ++node) {
      EXPECT_EQ(entered[static_cast<size_t>(node)].size(), nodes.ranks(node).size()) << letters << ", node " << node;
      EXPECT_EQ(left[static_cast<size_t>(node)].size(), nodes.ranks(node).size()) << letters << ", node " << node;
    }
  }
}

TEST(Rings, JoinRanksOfEqualPlaces) {
  const Nodes nodes = nodes_of("abababab");
  for (int channel = 0; channel < 8; ++channel)
    for (int rank = 0; rank < 8; ++rank) {
      const int next = ring_place(nodes, rank, channel).next;
      if (nodes.node_of(next) != nodes.node_of(rank)) {
        EXPECT_EQ(next / 2, rank / 2) << "channel " << channel;
      }
    }
}

TEST(Trees, ReachEveryRankOnceAndEachNodeByOneLink) {
  for (const std::string& letters : kPlacements) {
    const Nodes nodes = nodes_of(letters);
    const int n = nodes.n_ranks();
    std::set<std::pair<int, int>> links;
    for (int channel = 0; channel < 8; ++channel) {
      int roots = 0, upwards = 0;
      for (int r = 0; r < n; ++r) {
        const auto place = tree_place(nodes, r, channel);
        if (place.parent < 0) ++roots;
        if (place.child[0] < 0) {
          EXPECT_LT(place.child[1], 0);
        }
        for (const int child : place.child) {
          if (child < 0) continue;
          EXPECT_EQ(tree_place(nodes, child, channel).parent, r) << letters << ", channel " << channel;
        }
        if (place.parent >= 0) {
          const auto above = tree_place(nodes, place.parent, channel);
          EXPECT_TRUE(above.child[0] == r || above.child[1] == r) << letters << ", channel " << channel;
          if (nodes.node_of(place.parent) != nodes.node_of(r)) {
            ++upwards;
            links.emplace(r, place.parent);
          }
        }
        int depth = 0;
        for (int up = r; (up = tree_place(nodes, up, channel).parent) >= 0;) ASSERT_LT(++depth, n) << letters;
      }
      EXPECT_EQ(roots, 1) << letters;
      EXPECT_EQ(upwards, nodes.size() - 1) << letters << ", channel " << channel;
    }
    if (letters == "abababab") {
      EXPECT_EQ(links.size(), 4u) << "all channels use the same ranks";
    }
  }
}

TEST(DeviceTables, AddConnectorsWithoutTouchingOthers) {
  auto opened = gpu::emu_platform().open(0);
  ASSERT_TRUE(opened.ok());
  gpu::Device& device = **opened;
  DeviceTablesOptions options = {2, Nodes::one(5), {}, {}, nullptr, nullptr};
  options.channels[proto::kCollectiveLinks] = 3;
  options.channels[proto::kPairLinks] = 4;
  options.slots[proto::kPairLinks] = {128, 256, 384};
  auto tables = DeviceTables::create(device, options);
  ASSERT_TRUE(tables.ok());
  proto::DeviceComm& all = *(*tables)->comm();  // host and kernels share addresses here
  const proto::ChannelComm& comm = all.channel[2];
  EXPECT_EQ(comm.rank, 2);
  EXPECT_EQ(comm.n_channels, 3u);
  EXPECT_EQ(comm.n_pair_channels, 4u);
  EXPECT_EQ(comm.shape[proto::kPairLinks].ll, 256u);
  EXPECT_EQ(comm.mesh[1], nullptr);
  EXPECT_EQ(comm.ring_ranks[4], 1);
  EXPECT_EQ(comm.near_ranks[4], 1);
  auto make = [](int kind, net::Side side, int channel, int peer) {
    auto* address = reinterpret_cast<uint8_t*>(mark(kind, static_cast<int>(side), peer, channel));
    return PlacedConnector{static_cast<proto::LinkKind>(kind), side, channel, peer, {address, address, 0, 0}};
  };
  auto at = [&](const PlacedConnector& p) -> proto::Connector& {
    proto::ChannelComm& channel = all.channel[p.channel];
    if (p.kind == proto::kCollectiveLinks && p.side == net::Side::send && p.peer == 3) return channel.ring_send;
    if (p.kind == proto::kCollectiveLinks && p.side == net::Side::receive && p.peer == 1) return channel.ring_recv;
    return (p.side == net::Side::send ? channel.send : channel.recv)[p.kind][p.peer];
  };
  std::vector<PlacedConnector> first, second;
  for (int kind = 0; kind < proto::kLinkKinds; ++kind)
    for (net::Side side : {net::Side::receive, net::Side::send})
      for (int channel = 0; channel < options.channels[kind]; ++channel)
        for (int peer : {4, 0, 1, 3}) (peer % 2 ? first : second).push_back(make(kind, side, channel, peer));
  ASSERT_TRUE((*tables)->add(first).ok());
  for (const auto& p : first) at(p).step = 77;
  for (const auto& p : second) EXPECT_EQ(at(p).receive, nullptr);
  ASSERT_TRUE((*tables)->add(second).ok());
  for (const auto& p : first) {
    EXPECT_EQ(at(p).step, 77u);
    EXPECT_EQ(at(p).receive, p.connector.receive);
  }
  for (const auto& p : second) EXPECT_EQ(at(p).send, p.connector.send);
  void* buffers[5] = {nullptr, &options, nullptr, nullptr, &device};
  ASSERT_TRUE((*tables)->set_mesh(buffers).ok());
  EXPECT_EQ(comm.mesh[1], reinterpret_cast<uint8_t*>(&options));
  EXPECT_EQ(comm.mesh[4], reinterpret_cast<uint8_t*>(&device));
}

// An end that counts how often the proxy looks at it.
class CountingEnd final : public net::LinkEnd {
 public:
  const net::LinkBlob& blob() const override { return blob_; }
  Status connect(const net::LinkBlob&) override { return {}; }
  proto::Connector connector(int) const override { return {}; }
  Result<net::StepProgress> progress() override {
    looks.fetch_add(1);
    if (broken) return Status::error(Code::remote, "the other side has closed it");
    return answer.load();
  }
  bool tells_end() const override { return tells; }
  void finish(uint64_t messages) override {
    finishes.fetch_add(1);
    told = messages;
  }
  std::optional<net::PeerEnd> peer_end() const override {
    const int n = peer_messages;
    return n < 0 ? std::optional<net::PeerEnd>() : net::PeerEnd{static_cast<uint64_t>(n), all_taken};
  }
  size_t unacknowledged() const override { return left; }
  bool tells = true;
  std::atomic<size_t> left{0};
  std::atomic<int> looks{0}, finishes{0}, peer_messages{-1};
  std::atomic<uint64_t> told{0};
  std::atomic<bool> broken{false}, all_taken{true};
  std::atomic<net::StepProgress> answer{net::StepProgress::none};

 private:
  net::LinkBlob blob_ = {};
};

// Kernels may have ended before the proxy looks: it must look once for each launch, though none runs.
TEST(LinkProgress, LooksAgainAfterEachLaunch) {
  CountingEnd end;
  LinkProgress progress([] { return KernelActivity::none; }, nullptr);
  progress.add(1, end, {});
  for (int launch = 0; launch < 100; ++launch) {
    const int before = end.looks;
    progress.wake();
    const auto deadline = std::chrono::steady_clock::now() + patience(std::chrono::seconds(30));
    while (end.looks == before && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_GT(end.looks, before) << launch;
  }
}

namespace {

bool comes(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience(std::chrono::seconds(30));
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  return condition();
}

// Waits until the proxy has looked once more from beginning to end.
void look_again(LinkProgress& progress, const CountingEnd& end) {
  for (int i = 0; i < 2; ++i) {
    const int looks = end.looks;
    progress.wake();
    ASSERT_TRUE(comes([&] { return end.looks > looks; }));
  }
}

TaskQueue messages_of(int sends, int recvs) {
  TaskQueue queue;
  for (int i = 0; i < sends; ++i) queue.add_send(1, {nullptr, 8, nullptr});
  for (int i = 0; i < recvs; ++i) queue.add_recv(1, {nullptr, 8, nullptr});
  return queue;
}

constexpr auto kClosing = [](int) { return true; };
constexpr auto kStaying = [](int) { return false; };

}  // namespace

// The other ends are told once, and only when nothing of this rank's kernels is left to move.
TEST(LinkProgress, TellsThatNothingFollowsOnceKernelsRest) {
  CountingEnd sends, collectives;
  std::atomic<KernelActivity> activity{KernelActivity::launched};
  MessageCounts counts(2);
  counts.count(messages_of(3, 2), false);
  LinkProgress progress([&] { return activity.load(); }, &counts);
  progress.add(1, collectives, {});
  progress.add(1, sends, net::Side::send);
  progress.finish();
  look_again(progress, sends);
  EXPECT_EQ(sends.finishes, 0);
  EXPECT_NE(progress.unacknowledged(), 0u);
  activity = KernelActivity::none;
  collectives.left = 5;
  progress.wake();
  EXPECT_TRUE(comes([&] { return progress.unacknowledged() == 5; }));
  collectives.left = 0;
  EXPECT_EQ(progress.unacknowledged(), 0u);
  look_again(progress, sends);
  EXPECT_EQ(sends.finishes, 1);
  EXPECT_EQ(collectives.finishes, 1);
  EXPECT_EQ(sends.told, 3u);
}

// A peer that is stopped takes nothing: the others learn all the same that this rank has closed in order.
TEST(LinkProgress, APeerThatTakesNothingKeepsNoOtherOneFromItsEnd) {
  CountingEnd stuck, empty;
  stuck.answer = net::StepProgress::pending;
  LinkProgress progress([] { return KernelActivity::none; }, nullptr);
  progress.add(1, stuck, {});
  progress.add(2, empty, {});
  progress.finish();
  EXPECT_TRUE(comes([&] { return empty.finishes == 1; }));
  EXPECT_EQ(stuck.finishes, 0);
  stuck.left = 7;
  EXPECT_EQ(progress.unacknowledged(), 8u);  // so the closing rank sees whether any moves
  stuck.left = 0;
  EXPECT_EQ(progress.unacknowledged(), 1u);
  stuck.answer = net::StepProgress::none;
  EXPECT_TRUE(comes([&] {
    progress.expect_ends(kStaying);  // as the watchdog does
    return stuck.finishes == 1 && progress.unacknowledged() == 0;
  }));
  EXPECT_EQ(empty.finishes, 1);
}

namespace {

bool rests(LinkProgress& progress) {
  return comes([&] { return progress.progress() == ProxyWork::Progress::none_pending; });
}

}  // namespace

// The proxy goes to rest between the watchdog's looks, as the peer may be stopped for ever.
TEST(LinkProgress, LooksAtEachLookForAPeerThatTakesNothingOfARankThatCloses) {
  CountingEnd stuck;
  stuck.answer = net::StepProgress::pending;
  LinkProgress progress([] { return KernelActivity::none; }, nullptr);
  progress.add(1, stuck, {});
  progress.finish();
  ASSERT_TRUE(rests(progress));
  for (int look = 0; look < 3 && !HasFailure(); ++look) {
    const int looks = stuck.looks;
    progress.expect_ends(kStaying);
    EXPECT_TRUE(comes([&] { return stuck.looks > looks; })) << look;
    EXPECT_TRUE(rests(progress));
  }
  stuck.answer = net::StepProgress::none;
  progress.expect_ends(kStaying);
  EXPECT_TRUE(comes([&] { return stuck.finishes == 1; }));
}

// What a peer has sent before it closes must come to this process before that one ends, though no kernel runs here. A
// peer that is stopped never sends its mark: the proxy goes to rest between the watchdog's looks.
TEST(LinkProgress, LooksAtRestAtEachLookUntilAPeerThatIsClosingHasEnded) {
  CountingEnd end;
  LinkProgress progress([] { return KernelActivity::none; }, nullptr);
  progress.add(1, end, {});
  ASSERT_TRUE(rests(progress));
  int looks = end.looks;
  const auto has_looked = [&](const auto& is_closing) {
    progress.expect_ends(is_closing);
    EXPECT_TRUE(rests(progress));
    return end.looks > std::exchange(looks, end.looks);
  };
  EXPECT_FALSE(has_looked(kStaying));
  for (int look = 0; look < 3 && !HasFailure(); ++look) EXPECT_TRUE(has_looked(kClosing)) << look;
  end.peer_messages = 0;
  EXPECT_FALSE(has_looked(kClosing));
}

// A round that has begun before the last wake, and comes to the links behind a round that has begun after it, finds
// nothing to do.
TEST(LinkProgress, ARoundThatComesLateDoesNotLookAgain) {
  static thread_local bool is_late = false;
  std::atomic<bool> has_begun{false}, goes_on{false};
  CountingEnd end;
  LinkProgress progress(
      [&] {
        if (is_late) has_begun = true;
        while (is_late && !goes_on) std::this_thread::yield();
        return KernelActivity::none;
      },
      nullptr);
  progress.add(1, end, {});
  ASSERT_TRUE(rests(progress));
  std::thread late([&] {
    is_late = true;
    EXPECT_EQ(progress.progress(), ProxyWork::Progress::none_pending);
  });
  while (!has_begun) std::this_thread::yield();
  progress.wake();
  EXPECT_TRUE(rests(progress));
  const int looks = end.looks;
  goes_on = true;
  late.join();
  EXPECT_EQ(end.looks, looks);
}

// A peer that closes later has no word for this rank: its socket has ended.
TEST(LinkProgress, ARankThatHasFinishedNeedsNoEnd) {
  CountingEnd end;
  LinkProgress progress([] { return KernelActivity::none; }, nullptr);
  progress.add(1, end, {});
  progress.finish();
  ASSERT_TRUE(comes([&] { return end.finishes == 1; }));
  look_again(progress, end);
  ASSERT_TRUE(rests(progress));
  const int looks = end.looks;
  progress.expect_ends(kClosing);
  EXPECT_EQ(progress.progress(), ProxyWork::Progress::none_pending);
  EXPECT_EQ(end.looks, looks);
}

TEST(LinkProgress, ComparesMessagesWithThoseOfAPeerThatHasEnded) {
  CountingEnd end;
  MessageCounts counts(2);
  counts.count(messages_of(0, 2), false);
  LinkProgress progress([] { return KernelActivity::launched; }, &counts);
  progress.add(1, end, net::Side::receive);
  end.peer_messages = 2;
  look_again(progress, end);
  EXPECT_TRUE(progress.failure(kClosing, true).why);
  counts.count(messages_of(1, 0), false);
  counts.count(messages_of(0, 1), true);  // in a graph, which may never run
  look_again(progress, end);
  EXPECT_TRUE(progress.failure(kClosing, true).why);
  EXPECT_EQ(counts.told(1, net::Side::receive), proto::kUnknownMessages);
  counts.count(messages_of(0, 1), false);
  EXPECT_TRUE(comes([&] { return !progress.failure(kClosing, false).why; }));
  EXPECT_TRUE(progress.failure(kClosing, false).certain);
}

TEST(LinkProgress, DataThatThePeerHasNotTakenAreAFailure) {
  CountingEnd end;
  LinkProgress progress([] { return KernelActivity::launched; }, nullptr);
  progress.add(1, end, {});
  end.all_taken = false;
  end.peer_messages = 0;
  EXPECT_TRUE(comes([&] { return !progress.failure(kClosing, false).why; }));
}

// Only where the transport tells of orderly ends, a peer that is closing has certainly failed.
TEST(LinkProgress, AnEndThatIsNotToldIsAFailure) {
  for (const bool tells : {true, false}) {
    CountingEnd end;
    end.tells = tells;
    end.broken = true;
    LinkProgress progress([] { return KernelActivity::launched; }, nullptr);
    progress.add(1, end, {});
    ASSERT_TRUE(comes([&] { return !progress.failure(kStaying, false).why; }));
    EXPECT_TRUE(progress.failure(kStaying, true).certain);
    EXPECT_TRUE(progress.failure(kClosing, false).why);
    EXPECT_FALSE(progress.failure(kClosing, true).why);
    EXPECT_EQ(progress.failure(kClosing, true).certain, tells);
  }
}

// The page of the peer may say a little later why.
TEST(LinkBreaks, CountAtTheSecondLookThatFindsThemCertain) {
  LinkBreaks breaks;
  const auto now = RunningClock::now();
  EXPECT_FALSE(breaks.counts(true, 0, now));
  breaks.none();
  EXPECT_FALSE(breaks.counts(true, 0, now));
  EXPECT_FALSE(breaks.counts(false, 0, now));
  EXPECT_FALSE(breaks.counts(true, 0, now));
  EXPECT_TRUE(breaks.counts(true, 0, now));
}

TEST(LinkBreaks, ThatAreUncertainCountOnceLaunchesStandStill) {
  constexpr auto kLong = std::chrono::seconds(2);
  LinkBreaks breaks;
  auto now = RunningClock::now();
  EXPECT_FALSE(breaks.counts(false, 3, now));
  now += kLong - std::chrono::milliseconds(1);
  EXPECT_FALSE(breaks.counts(false, 3, now));
  EXPECT_FALSE(breaks.counts(false, 4, now));  // one has been made, or has ended
  now += kLong - std::chrono::milliseconds(1);
  for (int look = 0; look < 2; ++look) EXPECT_FALSE(breaks.counts(false, 4, now));
  breaks.none();
  EXPECT_FALSE(breaks.counts(false, 4, now));
  now += kLong;
  EXPECT_FALSE(breaks.counts(false, 4, now));
  EXPECT_TRUE(breaks.counts(false, 4, now));
}

TEST(EndWait, GoesOnWhileBytesMoveButNotForEver) {
  constexpr auto kMoment = std::chrono::seconds(1);
  auto now = RunningClock::now();
  EndWait wait(now);
  size_t left = 100;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(wait.goes_on(--left, false, now += kMoment)) << i;
  EXPECT_FALSE(wait.goes_on(--left, false, now += kMoment));
}

TEST(EndWait, EndsWhereNothingMovesOrIsLeftOrTheCommunicatorHasFailed) {
  const auto now = RunningClock::now();
  EXPECT_FALSE(EndWait(now).goes_on(0, false, now));
  EXPECT_FALSE(EndWait(now).goes_on(1, true, now));
  EndWait wait(now);
  EXPECT_TRUE(wait.goes_on(1, false, now));
  EXPECT_TRUE(wait.goes_on(1, false, now + std::chrono::seconds(2)));
  EXPECT_FALSE(wait.goes_on(1, false, now + std::chrono::milliseconds(2001)));
}
