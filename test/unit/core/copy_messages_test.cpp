// In which order a rank's copies start: in turn, in one stream, and none waits for a receiver that does not come.
#include "core/copy_engine/copy_messages.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "../../patience.h"
#include "../forwarding_device.h"
#include "../in_flight.h"
#include "core/peer/memory_port.h"
#include "wireup_ranks.h"

using namespace gpucoll;
using namespace gpucoll::core;
using namespace gpucoll_test;

namespace {

constexpr int kRanks = 5;
constexpr size_t kBytes = 10007;

// Notes to whom copies go, by the blocks of the buffer that they come from.
class Recorder final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Status copy_async(void* dst, const void* src, size_t bytes, Stream stream) override {
    std::lock_guard lock(mutex_);
    order_.push_back(static_cast<int>((static_cast<const uint8_t*>(src) - blocks_) / static_cast<ptrdiff_t>(kBytes)));
    streams_.insert(stream);
    return ForwardingDevice::copy_async(dst, src, bytes, stream);
  }
  void close_memory(void* address) noexcept override {
    ++closed_;
    ForwardingDevice::close_memory(address);
  }
  int closed() const { return closed_; }
  Status write_value(Stream stream, uint64_t* word, uint64_t value) override {
    return only_ && stream != only_ ? Status() : ForwardingDevice::write_value(stream, word, value);
  }
  // Copies tell nobody that they have ended: only this stream still stores.
  void store_only_in(Stream stream) { only_ = stream; }
  void begin(const uint8_t* blocks) {
    std::lock_guard lock(mutex_);
    blocks_ = blocks;
    order_.clear();
  }
  std::vector<int> order() {
    std::lock_guard lock(mutex_);
    return order_;
  }
  size_t n_streams() {
    std::lock_guard lock(mutex_);
    return streams_.size();
  }

 private:
  std::mutex mutex_;
  const uint8_t* blocks_ = nullptr;
  std::vector<int> order_;
  std::set<Stream> streams_;
  std::atomic<int> closed_{0};
  std::atomic<Stream> only_{nullptr};
};

// Holds the proxy of the process until it lets go, so that it sees all at once that has come meanwhile.
class HeldProxy final : public ProxyWork {
 public:
  HeldProxy() {
    Proxy::instance().add(this);
    Proxy::instance().wake();
    while (!here_.load(std::memory_order_acquire)) sched_yield();
  }
  ~HeldProxy() override {
    let_go();
    Proxy::instance().remove(this);
  }
  void let_go() { held_.store(false, std::memory_order_release); }
  Progress progress() noexcept override {
    here_.store(true, std::memory_order_release);
    while (held_.load(std::memory_order_acquire)) sched_yield();
    return Progress::none_pending;
  }
  void tidy() noexcept override {}

 private:
  std::atomic<bool> here_{false}, held_{true};
};

// What a rank has for the test: links to all, a block for each rank, and its copy path.
class Party {
 public:
  // state: of the device, which somebody watches.
  explicit Party(MeetingRank& self, const DeviceState* state = nullptr)
      : self_(self),
        recorder_(self.device),
        mailbox_(make_page_mailbox(self.peers)),
        memory_(self.device),
        links_(*mailbox_, self.peers, memory_, self.device, options(), causes_),
        exports_(self.device, self.peers.copy_page(self.rank).live),
        pages_(self.device, self.peers) {
    PeerWait wait(self.fault, self.peers, nullptr);
    std::vector<LinkWish> wishes;
    for (int peer = 0; peer < kRanks; ++peer)
      for (net::Side side : {net::Side::send, net::Side::receive})
        if (peer != self.rank) wishes.push_back({{proto::kPairLinks, peer, side}, 1});
    EXPECT_TRUE(links_.make(wishes, wait).ok());
    path_.emplace(CopyContext{recorder_, self.fault, self.peers, links_, exports_, {1, 1, 1, 1}, 4096, state}, pages_);
    stream_ = *self.device.create_stream();
    for (void** user : {&out_, &in_}) *user = *self.device.user_allocate(kRanks * kBytes);
  }
  ~Party() {
    path_.reset();
    EXPECT_TRUE(self_.device.destroy_stream(stream_).ok());
    for (void* user : {out_, in_}) EXPECT_TRUE(self_.device.user_release(user).ok());
  }

  void meet() {
    char mine = 0;
    std::vector<char> all(kRanks);
    self_.bootstrap.allgather(&mine, all.data(), 1).ignore();
  }
  // What is put may be used when it returns; finish() waits for the end.
  void put(const TaskQueue& queue) {
    TaskQueue rest;
    ASSERT_TRUE(path_->begin(queue, &rest).ok());
    ASSERT_TRUE(rest.sends.empty() && rest.recvs.empty());
    ASSERT_TRUE(path_->put_ready(stream_, 0).ok());
    ASSERT_EQ(path_->groups_begun(), path_->groups() + 1);  // what looks for calls that do not go on sees it
    ASSERT_TRUE(self_.device.synchronize(stream_).ok());
    ASSERT_TRUE(path_->put_end(stream_).ok());
    ASSERT_EQ(path_->groups_begun(), path_->groups());
  }
  void finish() { ASSERT_TRUE(self_.device.synchronize(stream_).ok()); }
  // What the others have open of `in` is gone.
  void allocate_anew() {
    ASSERT_TRUE(self_.device.user_release(in_).ok());
    in_ = *self_.device.user_allocate(kRanks * kBytes);
    exports_.tidy();
  }
  // Looks for what is gone, as the watchdog does; how much has been closed some time later.
  int closed_after(std::chrono::milliseconds time) {
    for (auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
      path_->look_for_freed();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return recorder_.closed();
  }

  void fill(int round) {
    std::vector<uint8_t> data(kRanks * kBytes);
    for (size_t i = 0; i < data.size(); ++i) data[i] = value(self_.rank, round, i);
    ASSERT_TRUE(self_.device.copy(out_, data.data(), data.size()).ok());
  }
  void check(int from, int round) {
    std::vector<uint8_t> data(kBytes);
    ASSERT_TRUE(self_.device.copy(data.data(), static_cast<uint8_t*>(in_) + place(from), kBytes).ok());
    for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(data[i], value(from, round, place(self_.rank) + i)) << i;
  }

  // To a peer, or from one, its own block.
  uint8_t* to(int peer) const { return out() + place(peer); }
  uint8_t* from(int peer) const { return in() + place(peer); }
  void receive(int peer, int messages = 1) {
    TaskQueue queue;
    for (int i = 0; i < messages; ++i) queue.add_recv(peer, {from(peer), kBytes, stream_});
    put(queue);
  }

  uint8_t* out() const { return static_cast<uint8_t*>(self_.device.kernel_address(out_)); }
  uint8_t* in() const { return static_cast<uint8_t*>(self_.device.kernel_address(in_)); }
  Recorder& recorder() { return recorder_; }
  gpu::Stream stream() const { return stream_; }
  CopyMessages& path() { return *path_; }

 private:
  static size_t place(int peer) { return static_cast<size_t>(peer) * kBytes; }
  static uint8_t value(int rank, int round, size_t i) {
    return static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(rank * 50 + round * 3));
  }
  static LinksOptions options() {
    LinksOptions options = {};
    for (int kind : {proto::kCollectiveLinks, proto::kPairLinks}) options.slots[kind] = proto::connection_shape(4096);
    return options;
  }

  MeetingRank& self_;
  Recorder recorder_;
  std::unique_ptr<Mailbox> mailbox_;
  DeviceMemoryPort memory_;
  CauseLog causes_{"a communicator"};
  Links links_;
  Exports exports_;
  PeerPages pages_;
  std::optional<CopyMessages> path_;
  gpu::Stream stream_ = nullptr;
  void *out_ = nullptr, *in_ = nullptr;
};

std::vector<int> by_distance(int rank) {
  std::vector<int> peers;
  for (int i = 1; i < kRanks; ++i) peers.push_back((rank + i) % kRanks);
  return peers;
}
std::vector<int> twice(std::vector<int> list) {
  const std::vector<int> once = list;
  list.insert(list.end(), once.begin(), once.end());
  return list;
}

// Each rank sends in its round, and all others receive.
void on_each_sender(const std::function<void(Party&, int rank, int sender)>& body) {
  on_meeting_ranks(kRanks, [&](MeetingRank& self) {
    Party party(self);
    for (int sender = 0; sender < kRanks; ++sender) {
      party.fill(sender);
      party.meet();
      body(party, self.rank, sender);
      party.finish();
      if (self.rank != sender) party.check(sender, sender);
      party.meet();
    }
    EXPECT_LE(party.recorder().n_streams(), 1u);
  });
}

// The others have asked for so many messages when the sender's turn comes.
void on_each_sender_to_all(int messages, const std::function<void(Party&, int rank)>& body) {
  on_each_sender([&](Party& party, int rank, int sender) {
    if (rank != sender) party.receive(sender, messages);
    party.meet();
    if (rank == sender) body(party, rank);
  });
}

// All is there when the proxy looks.
void send_at_once(Party& party, const TaskQueue& queue) {
  party.recorder().begin(party.out());
  HeldProxy proxy;
  party.put(queue);
  proxy.let_go();
  party.finish();
}

}  // namespace

TEST(CopyMessages, StartsCopiesInTheOrderOfDistance) {
  on_each_sender_to_all(1, [](Party& party, int rank) {
    TaskQueue queue;
    for (int peer = 0; peer < kRanks; ++peer)
      if (peer != rank) queue.add_send(peer, {party.to(peer), kBytes, party.stream()});
    send_at_once(party, queue);
    EXPECT_EQ(party.recorder().order(), by_distance(rank));
  });
}

TEST(CopyMessages, StartsTheFirstToEachBeforeTheSecond) {
  on_each_sender_to_all(2, [](Party& party, int rank) {
    TaskQueue queue;
    for (int peer = 0; peer < kRanks; ++peer)
      for (int i = 0; i < 2; ++i)
        if (peer != rank) queue.add_send(peer, {party.to(peer), kBytes, party.stream()});
    send_at_once(party, queue);
    EXPECT_EQ(party.recorder().order(), twice(by_distance(rank)));
  });
}

TEST(CopyMessages, DoesNotWaitForAReceiverThatIsLate) {
  on_each_sender([](Party& party, int rank, int sender) {
    const int late = (sender + 1) % kRanks;
    if (rank != sender) {
      if (rank != late) party.receive(sender);
      party.meet();
      if (rank != late) party.finish();
      party.meet();
      if (rank == late) party.receive(sender);
      return;
    }
    party.meet();
    TaskQueue queue;
    for (int peer : by_distance(rank)) queue.add_send(peer, {party.to(peer), kBytes, party.stream()});
    party.recorder().begin(party.out());
    party.put(queue);
    party.meet();
    party.finish();
    std::vector<int> order = party.recorder().order();
    EXPECT_EQ(order.back(), late);
    order.pop_back();
    std::sort(order.begin(), order.end());  // which of them are ready at a look is left to chance
    std::vector<int> others = by_distance(rank);
    others.erase(others.begin());
    std::sort(others.begin(), others.end());
    EXPECT_EQ(order, others);
  });
}

// The driver may wait for it until the device rests.
TEST(CopyMessages, ClosesWhatIsGoneBesideNothingThatFlies) {
  on_meeting_ranks(kRanks, [&](MeetingRank& self) {
    Party party(self);
    TaskQueue queue;
    if (self.rank == 0) queue.add_send(1, {party.to(1), kBytes, party.stream()});
    if (self.rank == 1) party.receive(0);
    if (self.rank == 0) party.put(queue);
    party.finish();
    party.meet();
    if (self.rank == 1) party.allocate_anew();
    party.meet();
    if (self.rank == 0) {
      FakeInFlight work;
      work.busy = true;
      EXPECT_EQ(party.closed_after(std::chrono::milliseconds(50)), 0);
      work.graph = true;
      work.busy = false;
      EXPECT_EQ(party.closed_after(std::chrono::milliseconds(50)), 0);
      work.graph = false;
      for (int i = 0; i < 100 && party.recorder().closed() == 0; ++i) party.closed_after(std::chrono::milliseconds(50));
      EXPECT_EQ(party.recorder().closed(), 1);
    }
    party.meet();
  });
}

TEST(CopyMessages, FliesFromItsBeginningOn) {
  on_meeting_ranks(kRanks, [&](MeetingRank& self) {
    Party party(self);
    TaskQueue queue, rest;
    if (self.rank == 0) queue.add_send(1, {party.to(1), kBytes, party.stream()});
    if (self.rank == 1) queue.add_recv(0, {party.from(0), kBytes, party.stream()});
    EXPECT_FALSE(party.path().in_flight());
    if (self.rank < 2) {
      ASSERT_TRUE(party.path().begin(queue, &rest).ok());
      ASSERT_TRUE(party.path().put_ready(party.stream(), 0).ok());
      EXPECT_TRUE(party.path().in_flight());
      ASSERT_TRUE(party.path().put_end(party.stream()).ok());
    }
    party.finish();
    EXPECT_FALSE(party.path().in_flight());
    party.meet();
  });
}

// Fails when the test says so.
class FailingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Status health() override { return fails ? Status::error(Code::device, "it has failed") : Status(); }
  std::atomic<bool> fails{false};
};

// Rank 0 waits for rank 1, whose host can start no copy. All ranks of this test have one proxy, so that rank 0 would
// tell of itself while that is held: it is let go before rank 0 looks.
TEST(CopyMessages, TellsOfAPeerThatIsKeptOut) {
  on_meeting_ranks(kRanks, [](MeetingRank& self) {
    Party party(self);
    party.fill(0);
    const auto contains = [&](const char* words) {
      return party.path().waiting_for().find(words) != std::string::npos;
    };
    if (self.rank == 0) party.receive(1);
    party.meet();
    if (self.rank == 1) {
      party.path().tell_if_kept_out();
      EXPECT_EQ(self.peers.copy_page(1).kept_out, 0u);
    }
    party.meet();
    if (self.rank == 0) {
      EXPECT_TRUE(contains("from rank 1")) << party.path().waiting_for();
      EXPECT_TRUE(contains("must make its call outside of captures")) << party.path().waiting_for();
    }
    party.meet();
    if (self.rank == 1) {
      HeldProxy held;
      const auto end = std::chrono::steady_clock::now() + gpucoll_test::patience(std::chrono::seconds(10));
      while (self.peers.copy_page(1).kept_out == 0 && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        party.path().tell_if_kept_out();
      }
      EXPECT_EQ(self.peers.copy_page(1).kept_out, 1u);
    }
    party.meet();
    if (self.rank == 0) {
      EXPECT_TRUE(contains("from rank 1")) << party.path().waiting_for();
      EXPECT_TRUE(contains("which cannot start a copy: another thread of its process is in a function of CUDA"))
          << party.path().waiting_for();
    }
    party.meet();
    if (self.rank == 1) {
      TaskQueue queue;
      queue.add_send(0, {party.to(0), kBytes, party.stream()});
      party.put(queue);
    }
    party.finish();
    if (self.rank == 0) party.check(1, 0);
    party.meet();
  });
}

// The words of its copies never come: who waits for them must be let go, and the proxy rest.
TEST(CopyMessages, EndsWithADeviceThatHasFailed) {
  static FailingDevice failing(**gpu::emu_platform().open(0));  // outlives the thread that asks it
  const auto state = DeviceWatch::instance().watch(failing);
  on_meeting_ranks(kRanks, [&](MeetingRank& self) {
    Party party(self, state.get());
    TaskQueue queue, rest;
    party.recorder().store_only_in(party.stream());
    if (self.rank == 0) queue.add_send(1, {party.to(1), kBytes, party.stream()});
    if (self.rank == 1) queue.add_recv(0, {party.from(0), kBytes, party.stream()});
    ASSERT_TRUE(party.path().begin(queue, &rest).ok());
    ASSERT_TRUE(party.path().put_ready(party.stream(), 0).ok());
    ASSERT_TRUE(party.path().put_end(party.stream()).ok());
    while (self.rank == 0 && party.recorder().order().empty()) sched_yield();
    party.meet();
    self.fault.raise(Status::error(Code::device, "it has failed"));
    Proxy::instance().wake();
    failing.fails = true;
    const auto end = std::chrono::steady_clock::now() + gpucoll_test::patience(std::chrono::seconds(10));
    const auto ended = [&] { return party.path().passed() >= party.path().groups(); };
    while (!ended() && std::chrono::steady_clock::now() < end) sched_yield();
    EXPECT_TRUE(ended());
    std::fflush(stdout);
    if (!ended()) std::_Exit(1);  // its stream waits for ever
    party.finish();
    party.meet();
  });
}
