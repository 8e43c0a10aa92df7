// Sockets between nodes: the frames of steps, the links over them, the channels, and what comes from strangers.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../resources.h"
#include "base/params.h"
#include "link_kernels.h"
#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/spare.h"
#include "net/step_lanes.h"
#include "net/tcp/endpoint.h"
#include "net/tcp/step_stream.h"
#include "net/transport.h"

using namespace gpucoll;
using namespace gpucoll::net;
using proto::kSteps;
using proto::ReceiveBlock;
using proto::StepFrame;
using proto::StepKind;
using namespace gpucoll_test;

namespace {

class RecordingSink final : public FrameSink {
 public:
  Result<uint8_t*> begin(const StepFrame& frame) override {
    if (frame.lane != 0) return Status::error(Code::remote, "no such lane");
    data.emplace_back(frame.kind == StepKind::kData ? proto::slice_bytes(frame.record) : 0);
    return data.back().data();
  }
  Status end(const StepFrame&) override {
    ++ended;
    return {};
  }
  std::vector<std::vector<uint8_t>> data;
  size_t ended = 0;
};

StepFrame frame_of(size_t bytes) {
  StepFrame frame = {};
  frame.magic = proto::kStepMagic;
  frame.kind = StepKind::kData;
  frame.record = proto::slice_record(bytes, 1);
  return frame;
}

class Collector final : public ChannelListener {
 public:
  bool on_message(const MessageReader::Message& message) noexcept override {
    if (message.kind == 99) return false;
    std::lock_guard lock(mutex);
    texts.emplace_back(reinterpret_cast<const char*>(message.payload), message.bytes);
    return true;
  }
  size_t count() {
    std::lock_guard lock(mutex);
    return texts.size();
  }
  std::mutex mutex;
  std::vector<std::string> texts;
};

// Leaves this process so many descriptors, until end() or its own end.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t left) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    taken_.emplace_back(dup(STDERR_FILENO));
    const int past_all = taken_[0].get() + open_descriptors();
    while (taken_.back().get() < past_all) taken_.emplace_back(dup(STDERR_FILENO));
    const rlimit few = {static_cast<rlim_t>(taken_.back().get()) + 1 + left, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { end(); }
  void end() const { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_ = {};
  std::vector<UniqueFd> taken_;  // up to a number behind all that are open
};

// Two channels of this process with each other.
struct ChannelPair {
  Collector heard_here, heard_there;
  std::shared_ptr<Channel> here = std::make_shared<Channel>(&heard_here),
                           there = std::make_shared<Channel>(&heard_there);
  Token token;

  ChannelPair() {
    auto random = random_token();
    EXPECT_TRUE(random);
    token = *random;
  }
  ~ChannelPair() {
    here->retire();
    there->retire();
  }
  void connect() {
    auto address = Endpoint::instance().address();
    ASSERT_TRUE(address);
    Endpoint::instance().serve(there, token);
    auto dialed = dial_endpoint(*address, token, 0);
    ASSERT_TRUE(dialed);
    for (;;) {
      auto fd = dialed->finish();
      ASSERT_TRUE(fd);
      if (*fd) return Endpoint::instance().serve(here, *std::move(fd));
      std::this_thread::yield();
    }
  }
};

}  // namespace

TEST(StepFrames, ComeInAnyPieces) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint8_t> bytes;
    std::vector<std::vector<uint8_t>> expected;
    for (int i = 0; i < 5; ++i) {
      std::vector<uint8_t> data(random() % 3 ? random() % 100 : 0);
      for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
      const StepFrame frame = frame_of(data.size());
      const auto* const raw = reinterpret_cast<const uint8_t*>(&frame);
      bytes.insert(bytes.end(), raw, raw + sizeof frame);
      bytes.insert(bytes.end(), data.begin(), data.end());
      expected.push_back(std::move(data));
    }
    FrameReader reader;
    RecordingSink sink;
    for (size_t from = 0; from < bytes.size();) {
      const size_t now = std::min<size_t>(1 + random() % 60, bytes.size() - from);
      ASSERT_TRUE(reader.feed(bytes.data() + from, now, sink));
      from += now;
    }
    EXPECT_EQ(sink.data, expected);
    EXPECT_EQ(sink.ended, expected.size());
  }
}

TEST(StepFrames, NonsenseIsAnError) {
  for (int wrong = 0; wrong < 3; ++wrong) {
    StepFrame frame = frame_of(8);
    if (wrong == 0) frame.magic ^= 1;
    if (wrong == 1) frame.kind = static_cast<StepKind>(7);
    if (wrong == 2) frame.lane = 5;
    FrameReader reader;
    RecordingSink sink;
    EXPECT_EQ(reader.feed(reinterpret_cast<uint8_t*>(&frame), sizeof frame, sink).code(), Code::remote);
  }
}

TEST(StepFrames, NothingFollowsAnEnd) {
  StepFrame end = frame_of(0);
  end.kind = StepKind::kEnd;
  end.step = 5;
  const StepFrame more = frame_of(0);
  FrameReader reader;
  RecordingSink sink;
  EXPECT_FALSE(reader.end_mark());
  EXPECT_TRUE(reader.feed(reinterpret_cast<const uint8_t*>(&end), sizeof end, sink));
  EXPECT_EQ(reader.end_mark(), 5u);
  EXPECT_EQ(sink.ended, 0u);
  EXPECT_EQ(reader.feed(reinterpret_cast<const uint8_t*>(&more), sizeof more, sink).code(), Code::remote);
}

// A peer cannot make this side write elsewhere, or over what kernels have not drained.
TEST(StepLanes, ReceiveOnlyWhatHasRoom) {
  const proto::ConnectionShape shape = {128, 0, 0};
  std::vector<uint64_t> receive(ReceiveBlock::bytes(shape) / 8), send(proto::SendBlock::kBytes / 8);
  const auto lane = [&] {
    return ReceivingLane(reinterpret_cast<uint8_t*>(receive.data()), reinterpret_cast<uint8_t*>(send.data()), shape);
  };
  ReceivingLane fresh = lane();
  EXPECT_TRUE(fresh.place(frame_of(128)));
  EXPECT_EQ(fresh.place(frame_of(129)).status().code(), Code::remote);
  StepFrame elsewhere = frame_of(8);
  elsewhere.step = 1;
  EXPECT_EQ(fresh.place(elsewhere).status().code(), Code::remote);
  ReceivingLane full = lane();
  StepFrame frame = frame_of(8);
  for (uint64_t step = 0; step < kSteps; ++step) {
    frame.step = step;
    ASSERT_TRUE(full.place(frame));
    full.arrived(frame);
  }
  frame.step = kSteps;
  EXPECT_EQ(full.place(frame).status().code(), Code::remote);
  send[0] = 1;  // one step is drained
  EXPECT_TRUE(full.place(frame));
}

TEST(StepLanes, ASenderBelievesNoImpossibleHead) {
  const proto::ConnectionShape shape = {128, 0, 0};
  std::vector<uint64_t> receive(ReceiveBlock::bytes(shape) / 8), send(proto::SendBlock::kBytes / 8);
  SendingLane lane(reinterpret_cast<uint8_t*>(receive.data()), reinterpret_cast<uint8_t*>(send.data()), shape);
  EXPECT_EQ(lane.drained(1).code(), Code::remote);
  EXPECT_TRUE(lane.drained(0));
}

TEST(TcpLink, CarriesSlicesOfAnySizeOnAllLanes) { carry_slices(tcp_transport(), 5, 300); }

TEST(TcpLink, SaysThatThePeerIsGone) {
  HostMemoryPort memory;
  Pair pair = connect_pair(tcp_transport(), {1, proto::connection_shape(4096)}, memory);
  pair.receiver.reset();
  Status status;
  await([&] {
    auto moved = pair.sender->progress();
    if (!moved) status = std::move(moved).status();
    return !status;
  });
  EXPECT_EQ(status.code(), Code::remote);
}

// What ends a connection may be told by the network (EHOSTUNREACH and the like), here by the other host.
TEST(FrameWriter, AHostThatIsOutOfReachEndsTheConnection) {
  const UniqueFd closed(socket(AF_INET, SOCK_STREAM, 0)), dials(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(closed.get(), any, size), 0);
  ASSERT_EQ(getsockname(closed.get(), any, &size), 0);
  ASSERT_EQ(connect(dials.get(), any, size), -1);
  ASSERT_EQ(errno, EINPROGRESS);
  pollfd poll_for = {dials.get(), 0, 0};
  ASSERT_EQ(poll(&poll_for, 1, 30000), 1);
  FrameWriter writer;
  writer.put({}, nullptr);
  const Status status = writer.flush(dials.get()).status();
  EXPECT_EQ(status.code(), Code::remote);
  EXPECT_STREQ(status.what(), strerror(ECONNREFUSED));
}

// A host may refuse to send though the connection lives, here as a page of the data cannot be read.
TEST(TcpLink, AHostThatDoesNotSendIsAFailure) {
  HostMemoryPort memory;
  const LinkShape shape = {1, proto::connection_shape(4 << 20)};
  Pair pair = connect_pair(tcp_transport(), shape, memory);
  send_slices(pair.sender->connector(0), 0, {{1, shape.slots.simple}}, shape.slots.simple);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* middle = pair.sender->connector(0).receive + ReceiveBlock::kSlotsOffset;
  size_t room = shape.slots.simple;
  ASSERT_TRUE(std::align(page, page, middle, room));
  ASSERT_EQ(mprotect(middle, page, PROT_NONE), 0);
  Status status;
  for (int i = 0; i < 1000 && status; ++i) status = pair.sender->progress().status();
  ASSERT_EQ(mprotect(middle, page, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_NE(std::string(status.what()).find(strerror(EFAULT)), std::string::npos) << status.what();
}

namespace {

// Lets an end move until it has nothing left; returns how it goes.
Status rest(LinkEnd& end) {
  for (;;) {
    GC_TRY_AS(const StepProgress moved, end.progress());
    if (moved == StepProgress::none) return {};
  }
}

// Lets an end move until the other one has told that it ends, or it fails.
Status until_end(LinkEnd& end) {
  Status status;
  await([&] {
    status = rest(end);
    return !status || end.peer_end();
  });
  return status;
}

}  // namespace

// A link receives what came before the mark, however late, and the end behind it is no failure.
TEST(TcpLink, AnOrderlyEndIsNoFailure) {
  HostMemoryPort memory;
  const LinkShape shape = {3, proto::connection_shape(4096)};
  Pair pair = connect_pair(tcp_transport(), shape, memory);
  const std::vector<Slice> slices = {{1, 100}, {2, 1024}, {4, 1}};
  for (int lane = 0; lane < shape.lanes; ++lane)
    send_slices(pair.sender->connector(lane), lane, slices, shape.slots.simple);
  ASSERT_TRUE(rest(*pair.sender));
  pair.sender->finish(7);
  ASSERT_TRUE(rest(*pair.sender));
  EXPECT_FALSE(pair.receiver->peer_end());
  pair.sender.reset();
  const Status status = until_end(*pair.receiver);
  ASSERT_TRUE(status) << status.what();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(rest(*pair.receiver));
  EXPECT_EQ(pair.receiver->peer_end()->messages, 7u);
  for (int lane = 0; lane < shape.lanes; ++lane)
    EXPECT_EQ(receive_slices(pair.receiver->connector(lane), lane, slices, shape.slots.simple), 0u);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(rest(*pair.receiver));  // what its kernels have drained concerns nobody
}

TEST(TcpLink, AnEndWithoutAMarkIsAFailure) {
  HostMemoryPort memory;
  for (const Side side : {Side::send, Side::receive}) {
    Pair pair = connect_pair(tcp_transport(), {2, proto::connection_shape(4096)}, memory);
    send_slices(pair.sender->connector(0), 0, {{1, 100}}, 512);
    ASSERT_TRUE(rest(*pair.sender));
    (side == Side::send ? pair.sender : pair.receiver).reset();
    LinkEnd& other = side == Side::send ? *pair.receiver : *pair.sender;
    EXPECT_EQ(until_end(other).code(), Code::remote);
    EXPECT_FALSE(other.peer_end());
  }
}

// More than lies in the other side's socket.
TEST(TcpLink, SaysWhatIsNotAcknowledged) {
  HostMemoryPort memory;
  const LinkShape shape = {1, proto::connection_shape(32 << 20)};
  Pair pair = connect_pair(tcp_transport(), shape, memory);
  EXPECT_EQ(pair.sender->unacknowledged(), 0u);
  const std::vector<Slice> slices(kSteps, {1, shape.slots.simple});
  send_slices(pair.sender->connector(0), 0, slices, shape.slots.simple);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pair.sender->progress());
  ASSERT_NE(pair.sender->unacknowledged(), 0u);
  await([&] { return pair.receiver->progress() && pair.sender->progress() && pair.sender->unacknowledged() == 0; });
  ASSERT_TRUE(rest(*pair.receiver));
  EXPECT_EQ(receive_slices(pair.receiver->connector(0), 0, slices, shape.slots.simple), 0u);
}

TEST(TcpLink, SaysWhetherAllWasTaken) {
  HostMemoryPort memory;
  const LinkShape shape = {2, proto::connection_shape(4096)};
  for (const bool takes : {true, false}) {
    Pair pair = connect_pair(tcp_transport(), shape, memory);
    const std::vector<Slice> slices = {{1, 100}, {2, 600}};
    send_slices(pair.sender->connector(1), 1, slices, shape.slots.simple);
    ASSERT_TRUE(rest(*pair.sender));
    std::atomic<bool> over{false};
    std::thread mover([&] {
      while (!over) ASSERT_TRUE(rest(*pair.receiver));
    });
    if (takes) {
      EXPECT_EQ(receive_slices(pair.receiver->connector(1), 1, slices, shape.slots.simple), 0u);
    }
    over = true;
    mover.join();
    ASSERT_TRUE(rest(*pair.receiver));
    pair.receiver->finish(1);
    ASSERT_TRUE(rest(*pair.receiver));
    pair.receiver.reset();
    ASSERT_TRUE(until_end(*pair.sender));
    EXPECT_EQ(pair.sender->peer_end()->all_taken, takes);
  }
}

TEST(TcpLink, NobodyListens) {
  HostMemoryPort memory;
  const LinkShape shape = {1, proto::connection_shape(4096)};
  auto sender = tcp_transport().make_end(Side::send, shape, memory);
  auto receiver = tcp_transport().make_end(Side::receive, shape, memory);
  ASSERT_TRUE(sender && receiver);
  LinkBlob blob = (*receiver)->blob();
  proto::ListenAddress at;  // the blob's beginning
  std::memcpy(&at, blob.bytes, sizeof at);
  if (at.ipv4_port) at.ipv4_port ^= 0xff;
  if (at.ipv6_port) at.ipv6_port ^= 0xff;
  std::memcpy(blob.bytes, &at, sizeof at);
  Status status = (*sender)->connect(blob);
  if (status)
    await([&] {
      auto there = (*sender)->established();
      if (!there) status = std::move(there).status();
      return !status;
    });
  EXPECT_EQ(status.code(), Code::remote);
}

// A process that has no descriptor left for the connections that come to it, for a while or for good.
TEST(TcpLink, ManyOpenFiles) {
  for (const bool for_good : {false, true}) {
    HostMemoryPort memory;
    const LinkShape shape = {1, proto::connection_shape(4096)};
    auto sender = tcp_transport().make_end(Side::send, shape, memory);
    auto receiver = tcp_transport().make_end(Side::receive, shape, memory);
    ASSERT_TRUE(sender && receiver);
    ASSERT_TRUE((*receiver)->connect((*sender)->blob()));
    const FewDescriptors few(1);
    const Status dialed = (*sender)->connect((*receiver)->blob());
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(for_good ? 10'000 : 300);
    Result<bool> there = false;
    while (there && !*there && std::chrono::steady_clock::now() < end) there = (*receiver)->established();
    Result<bool> told = false;
    while (for_good && told && std::chrono::steady_clock::now() < end) told = (*sender)->established();
    few.end();
    ASSERT_TRUE(dialed) << dialed.what();
    if (for_good) {
      ASSERT_FALSE(there);
      EXPECT_NE(std::string(there.status().what()).find("Too many open files"), std::string::npos);
      ASSERT_FALSE(told);
      EXPECT_NE(std::string(told.status().what()).find("no file descriptor left"), std::string::npos);
    } else {
      ASSERT_TRUE(there) << there.status().what();
      EXPECT_FALSE(*there);
      await([&] { return *(*sender)->established() & *(*receiver)->established(); });
    }
  }
}

TEST(Channel, CarriesMessagesInOrderBothWays) {
  ChannelPair pair;
  pair.there->put(1, "early", 5);  // before there is a connection
  pair.connect();
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i) + std::string(static_cast<size_t>(i % 700), 'x');
    pair.here->put(1, text.data(), text.size());
  }
  await([&] { return pair.heard_there.count() == 1000 && pair.heard_here.count() == 1; });
  EXPECT_EQ(pair.heard_here.texts[0], "early");
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(pair.heard_there.texts[static_cast<size_t>(i)],
              std::to_string(i) + std::string(static_cast<size_t>(i % 700), 'x'));
}

// An endpoint that has refused somebody, having no descriptor left, keeps its last one for the next who knocks.
// Whatever else happens, nobody else finds it.
TEST(Channel, CarriesMessagesWhereNoDescriptorIsLeft) {
  ChannelPair pair;
  pair.connect();
  auto carry = [&, sent = size_t{0}]() mutable {
    pair.here->put(1, "text", ++sent % 5);
    await([&] { return pair.heard_there.count() == sent; });
  };
  auto token = random_token();
  auto address = Endpoint::instance().address();
  ASSERT_TRUE(token && address);
  Endpoint::instance().expect(*token);
  auto way = way_to(*address);
  ASSERT_TRUE(way);
  const FewDescriptors one(1);
  auto refused = connect_to(*way, deadline_after(30));
  ASSERT_TRUE(refused);
  proto::BootstrapHello hello = {};
  hello.magic = proto::kBootstrapMagic;
  hello.nonce = token->low;
  hello.host = token->high;
  ASSERT_EQ(send(refused->get(), &hello, sizeof hello, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof hello));
  uint8_t answer = 0;
  await([&] { return answer || recv(refused->get(), &answer, 1, MSG_DONTWAIT) == 1; });
  EXPECT_EQ(answer, proto::kNoDescriptor);
  carry();  // the endpoint has its last one again
  std::atomic<bool> ends = false;
  std::atomic<int> found = 0;
  std::thread seeker([&] {
    while (!ends)
      if (UniqueFd(dup(STDERR_FILENO))) ++found;
  });
  for (int i = 0; i < 1000 && found == 0; ++i) carry();
  ends = true;
  seeker.join();
  EXPECT_EQ(found, 0);
  Endpoint::instance().forget(*token);
}

TEST(Channel, WhatWasPutBeforeItIsRetiredStillComes) {
  ChannelPair pair;
  pair.connect();
  const std::string large(proto::kChannelMost, 'y');
  for (int i = 0; i < 200; ++i) pair.here->put(1, large.data(), large.size());
  pair.here->retire();
  await([&] { return pair.there->ended(); });
  EXPECT_EQ(pair.heard_there.count(), 200u);
}

TEST(Channel, TellsHowMuchWaits) {
  ChannelPair pair;
  EXPECT_EQ(pair.here->backlog(), 0u);
  pair.here->put(1, "12345678", 8);
  EXPECT_EQ(pair.here->backlog(), sizeof(proto::ChannelHeader) + 8);  // there is no connection yet
  pair.connect();
  await([&] { return pair.here->backlog() == 0 && pair.heard_there.count() == 1; });
}

TEST(Channel, EndsAtWhatItsListenerDoesNotKnow) {
  ChannelPair pair;
  pair.connect();
  pair.here->put(99, "", 0);
  await([&] { return pair.there->ended() && pair.here->ended(); });
}

TEST(Endpoint, ListensWhereTheParametersSay) {
  auto format = Endpoint::instance().address();
  ASSERT_TRUE(format);
  const Addresses at = from_format(*format);
  auto own = local_addresses();
  ASSERT_TRUE(own);
  EXPECT_TRUE(at.ipv4.is_same_ip(own->ipv4) && at.ipv6.is_same_ip(own->ipv6)) << to_string(at);
  if (params().socket_family != kSocketFamilyIpv6) return;
  EXPECT_FALSE(at.ipv4) << to_string(at);
  auto way = way_to(*format);
  ASSERT_TRUE(way);
  EXPECT_EQ(to_string(*way).rfind("[::1]:", 0), 0u) << to_string(*way);
}

// Whoever shows no token that is waited for is hung up on, and disturbs nobody.
TEST(Endpoint, HangsUpOnStrangers) {
  ChannelPair pair;
  auto address = Endpoint::instance().address();
  ASSERT_TRUE(address);
  for (const bool says_hello : {false, true}) {
    auto way = way_to(*address);
    ASSERT_TRUE(way);
    auto stranger = connect_to(*way, deadline_after(30));
    ASSERT_TRUE(stranger);
    proto::BootstrapHello hello = {};
    hello.magic = says_hello ? proto::kBootstrapMagic : 12345;
    hello.nonce = 7;
    ASSERT_EQ(send(stranger->get(), &hello, sizeof hello, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof hello));
    await([&] {
      char byte;
      const ssize_t n = recv(stranger->get(), &byte, 1, MSG_DONTWAIT);
      return n == 0 || (n < 0 && errno != EAGAIN);
    });
  }
  pair.connect();
  pair.here->put(1, "well", 4);
  await([&] { return pair.heard_there.count() == 1; });
}

// A connection that knocks before its token is known is made again.
TEST(Endpoint, AdmitsWhoKnocksTooEarly) {
  ChannelPair pair;
  auto address = Endpoint::instance().address();
  ASSERT_TRUE(address);
  auto dialed = dial_endpoint(*address, pair.token, 0);
  ASSERT_TRUE(dialed);
  for (int i = 0; i < 100; ++i) {
    auto fd = dialed->finish();
    ASSERT_TRUE(fd);
    ASSERT_FALSE(*fd);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Endpoint::instance().serve(pair.there, pair.token);
  UniqueFd fd;
  await([&] {
    auto finished = dialed->finish();
    if (finished && *finished) fd = *std::move(finished);
    return static_cast<bool>(fd);
  });
  Endpoint::instance().serve(pair.here, std::move(fd));
  pair.here->put(1, "well", 4);
  await([&] { return pair.heard_there.count() == 1; });
}

// Ranks that meet in this process meanwhile look for a descriptor, too.
TEST(Endpoint, TellsAllWhoKnockThatNoDescriptorIsLeft) {
  constexpr int kCallers = 50;
  constexpr timeval kPatience = {20, 0};
  auto format = Endpoint::instance().address();
  ASSERT_TRUE(format);
  const auto way = way_to(*format);
  ASSERT_TRUE(way);
  const Token token = *random_token();
  Endpoint::instance().expect(token);
  const SocketAddress at = socket_address_of(*way);
  std::vector<UniqueFd> callers;
  while (callers.size() < size_t{kCallers})
    callers.emplace_back(socket(at.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FewDescriptors few(0);
  const Spare of_ranks;
  std::atomic<bool> meet{true};
  std::thread ranks([&] {
    std::vector<Door::Guest> guests;
    while (meet)
      Door()
          .serve(
              PollSet(), [](const auto&) { return false; }, &guests)
          .ignore();
  });
  int let_in = 0, told = 0;  // by descriptors that this process still lets go of; and then
  for (const UniqueFd& caller : callers) {
    const proto::BootstrapHello hello = {proto::kBootstrapMagic, token.low, 0, 0, let_in, 0, token.high, getpid(), 0};
    setsockopt(caller.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    uint8_t answer = 0;
    const bool said = connect(caller.get(), at.get(), at.bytes) == 0 &&
                      send(caller.get(), &hello, sizeof hello, MSG_NOSIGNAL) == ssize_t{sizeof hello};
    if (!said || recv(caller.get(), &answer, 1, 0) != 1 || (told && answer != proto::kNoDescriptor)) break;
    ++(answer == proto::kNoDescriptor ? told : let_in);
  }
  meet = false;
  ranks.join();
  Endpoint::instance().forget(token);
  EXPECT_EQ(let_in + told, kCallers);
  EXPECT_GT(told, kCallers / 2);
}

TEST(MessageReader, BelievesNoLength) {
  MessageReader reader;
  MessageReader::Message message;
  const proto::ChannelHeader header = {proto::kChannelMagic, 1, proto::kChannelMost + 1, 0};
  reader.feed(reinterpret_cast<const uint8_t*>(&header), sizeof header);
  EXPECT_FALSE(reader.next(&message));
  EXPECT_TRUE(reader.broken());
}
