// Groups: one thread drives several ranks; more work than the work FIFO holds; failures; several streams; graphs.
#include <array>
#include <memory>

#include "ranks.h"

namespace {

using gpucoll_test::DeviceBuffer;
using gpucoll_test::enough_devices;
using gpucoll_test::Stream;

// All ranks of one communicator in this thread, each on a device and a stream of its own.
class Ranks {
 public:
  explicit Ranks(int n) : comms(static_cast<size_t>(n)) {
    EXPECT_EQ(gpucollSuccess, gpucollCommInitAll(comms.data(), n, nullptr)) << gpucollGetLastError(nullptr);
    for (int r = 0; r < n; ++r) {
      use(r);
      streams.push_back(std::make_unique<Stream>());
    }
  }
  ~Ranks() {
    for (gpucollComm_t comm : comms) EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(comm));
    for (int r = 0; r < size(); ++r) {
      use(r);
      streams[static_cast<size_t>(r)].reset();
    }
  }
  int size() const { return static_cast<int>(comms.size()); }
  static void use(int rank) { EXPECT_EQ(gpucollSuccess, gpucollSetDevice(rank)); }
  gpucollComm_t comm(int rank) const { return comms[static_cast<size_t>(rank)]; }
  gpucollStream_t stream(int rank) const { return streams[static_cast<size_t>(rank)]->handle; }
  void synchronize() const {
    for (int r = 0; r < size(); ++r) EXPECT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream(r)));
    for (gpucollComm_t comm : comms) {
      gpucollResult_t error;
      EXPECT_EQ(gpucollSuccess, gpucollCommGetAsyncError(comm, &error));
      EXPECT_EQ(gpucollSuccess, error) << gpucollGetLastError(comm);
    }
  }
  // A buffer on each rank's device.
  std::vector<std::unique_ptr<DeviceBuffer>> buffers(size_t bytes) const {
    std::vector<std::unique_ptr<DeviceBuffer>> all;
    for (int r = 0; r < size(); ++r) {
      use(r);
      all.push_back(std::make_unique<DeviceBuffer>(bytes));
    }
    return all;
  }

  std::vector<gpucollComm_t> comms;
  std::vector<std::unique_ptr<Stream>> streams;
};

int value(int from, int to, int i) { return from * 1000000 + to * 100000 + i; }

// More messages between each two ranks than the FIFO has room for: launches of all ranks must take turns.
TEST(Group, ManyMessagesOfManyRanksInOneThread) {
  constexpr int kRanks = 4, kMessages = 1500;
  if (!enough_devices(kRanks)) return;
  Ranks ranks(kRanks);
  constexpr size_t kBytes = kRanks * kMessages * sizeof(int);
  auto sent = ranks.buffers(kBytes), received = ranks.buffers(kBytes);
  for (int r = 0; r < kRanks; ++r) {
    std::vector<int> data;
    for (int peer = 0; peer < kRanks; ++peer)
      for (int i = 0; i < kMessages; ++i) data.push_back(value(r, peer, i));
    sent[static_cast<size_t>(r)]->put(data);
  }
  GC_OK(gpucollGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    for (int peer = 0; peer < kRanks; ++peer) {
      for (int i = 0; i < kMessages; ++i) {
        const size_t offset = static_cast<size_t>(peer * kMessages + i) * sizeof(int);
        GC_OK(gpucollSend(sent[static_cast<size_t>(r)]->at(offset), 1, gpucollInt32, peer, ranks.comm(r),
                          ranks.stream(r)));
        GC_OK(gpucollRecv(received[static_cast<size_t>(r)]->at(offset), 1, gpucollInt32, peer, ranks.comm(r),
                          ranks.stream(r)));
      }
    }
  }
  GC_OK(gpucollGroupEnd());
  ranks.synchronize();
  for (int r = 0; r < kRanks; ++r) {
    std::vector<int> wanted;
    for (int peer = 0; peer < kRanks; ++peer)
      for (int i = 0; i < kMessages; ++i) wanted.push_back(value(peer, r, i));
    EXPECT_EQ(received[static_cast<size_t>(r)]->get<int>(kRanks * kMessages), wanted) << "rank " << r;
  }
}

// Collectives and messages of two communicators with other orders of ranks, on two streams a rank.
TEST(Group, SeveralCommunicatorsAndStreams) {
  constexpr int kRanks = 3, kOperations = 200;
  if (!enough_devices(kRanks)) return;
  Ranks first(kRanks), second(kRanks);
  auto in = first.buffers(kOperations * sizeof(int)), out = first.buffers(kOperations * sizeof(int));
  auto in2 = first.buffers(kOperations * sizeof(int)), out2 = first.buffers(kOperations * sizeof(int));
  auto from = first.buffers(64), to = first.buffers(64);
  for (int r = 0; r < kRanks; ++r) {
    std::vector<int> data;
    for (int i = 0; i < kOperations; ++i) data.push_back(value(r, 0, i));
    in[static_cast<size_t>(r)]->put(data);
    in2[static_cast<size_t>(r)]->put(data);
    from[static_cast<size_t>(r)]->put(std::vector<int>{r + 50});
  }
  GC_OK(gpucollGroupStart());
  for (int i = 0; i < kOperations; ++i) {
    for (int r = kRanks - 1; r >= 0; --r) {
      const size_t at = static_cast<size_t>(i) * sizeof(int), rank = static_cast<size_t>(r);
      GC_OK(gpucollAllReduce(in[rank]->at(at), out[rank]->at(at), 1, gpucollInt32, gpucollSum, first.comm(r),
                             i % 2 ? first.stream(r) : second.stream(r)));
      GC_OK(gpucollBroadcast(in2[rank]->at(at), out2[rank]->at(at), 1, gpucollInt32, i % kRanks, second.comm(r),
                             second.stream(r)));
    }
  }
  for (int r = 0; r < kRanks; ++r) {
    const auto rank = static_cast<size_t>(r);
    GC_OK(gpucollSend(from[rank]->at(), 1, gpucollInt32, (r + 1) % kRanks, first.comm(r), first.stream(r)));
    GC_OK(gpucollRecv(to[rank]->at(), 1, gpucollInt32, (r + 2) % kRanks, first.comm(r), first.stream(r)));
  }
  GC_OK(gpucollGroupEnd());
  first.synchronize();
  second.synchronize();
  for (int r = 0; r < kRanks; ++r) {
    std::vector<int> sums, copies;
    for (int i = 0; i < kOperations; ++i) {
      sums.push_back(value(0, 0, i) + value(1, 0, i) + value(2, 0, i));
      copies.push_back(value(i % kRanks, 0, i));
    }
    EXPECT_EQ(out[static_cast<size_t>(r)]->get<int>(kOperations), sums) << "rank " << r;
    EXPECT_EQ(out2[static_cast<size_t>(r)]->get<int>(kOperations), copies) << "rank " << r;
    EXPECT_EQ(to[static_cast<size_t>(r)]->get<int>(1)[0], (r + 2) % kRanks + 50);
  }
}

// A sum of all ranks' numbers, as a sign that a communicator still works.
void expect_usable(const Ranks& ranks) {
  auto buffers = ranks.buffers(sizeof(int));
  int sum = 0;
  for (int r = 0; r < ranks.size(); ++r) {
    buffers[static_cast<size_t>(r)]->put(std::vector<int>{r + 1});
    sum += r + 1;
  }
  GC_OK(gpucollGroupStart());
  for (int r = 0; r < ranks.size(); ++r) {
    void* buffer = buffers[static_cast<size_t>(r)]->at();
    GC_OK(gpucollAllReduce(buffer, buffer, 1, gpucollInt32, gpucollSum, ranks.comm(r), ranks.stream(r)));
  }
  GC_OK(gpucollGroupEnd());
  ranks.synchronize();
  for (auto& buffer : buffers) EXPECT_EQ(buffer->get<int>(1)[0], sum);
}

TEST(Group, CommunicatorsThatShareStreamsMayBeCalledInAnyOrder) {
  constexpr int kRanks = 2, kRounds = 20;
  if (!enough_devices(kRanks)) return;
  Ranks one(kRanks), other(kRanks);
  auto sums = one.buffers(2 * sizeof(int));
  for (int round = 0; round < kRounds; ++round) {
    for (auto& sum : sums) sum->put(std::vector<int>{1, 10});
    GC_OK(gpucollGroupStart());
    for (int r = 0; r < kRanks; ++r) {
      for (int turn = 0; turn < 2; ++turn) {
        const bool first = (turn + r + round) % 2 == 0;
        void* sum = sums[static_cast<size_t>(r)]->at(first ? 0 : sizeof(int));
        GC_OK(gpucollAllReduce(sum, sum, 1, gpucollInt32, gpucollSum, (first ? one : other).comm(r), one.stream(r)));
      }
    }
    GC_OK(gpucollGroupEnd());
    one.synchronize();
    for (auto& sum : sums) EXPECT_EQ(sum->get<int>(2), (std::vector<int>{2, 20}));
  }
}

TEST(Group, AMessageToItselfNeedsBothSides) {
  constexpr int kRanks = 2;
  if (!enough_devices(kRanks)) return;
  Ranks ranks(kRanks);
  Ranks::use(0);
  DeviceBuffer buffer(64);
  buffer.put(std::vector<int>{1, 2, 3, 4});
  gpucollComm_t comm = ranks.comm(0);
  EXPECT_EQ(gpucollInvalidUsage, gpucollSend(buffer.at(), 1, gpucollInt32, 0, comm, ranks.stream(0)));
  EXPECT_EQ(gpucollInvalidUsage, gpucollRecv(buffer.at(), 1, gpucollInt32, 0, comm, ranks.stream(0)));
  GC_OK(gpucollGroupStart());
  GC_OK(gpucollSend(buffer.at(), 1, gpucollInt32, 0, comm, ranks.stream(0)));
  GC_OK(gpucollRecv(buffer.at(8), 2, gpucollInt32, 0, comm, ranks.stream(0)));
  EXPECT_EQ(gpucollInvalidUsage, gpucollGroupEnd());
  expect_usable(ranks);
  GC_OK(gpucollGroupStart());
  GC_OK(gpucollSend(buffer.at(), 2, gpucollInt32, 0, comm, ranks.stream(0)));
  GC_OK(gpucollRecv(buffer.at(8), 2, gpucollInt32, 0, comm, ranks.stream(0)));
  GC_OK(gpucollGroupEnd());
  ranks.synchronize();
  EXPECT_EQ(buffer.get<int>(4), (std::vector<int>{1, 2, 1, 2}));
}

TEST(Group, AFailedCallKeepsTheWholeGroupFromStarting) {
  constexpr int kRanks = 2;
  if (!enough_devices(kRanks)) return;
  Ranks ranks(kRanks);
  auto buffers = ranks.buffers(sizeof(int));
  for (int r = 0; r < kRanks; ++r) buffers[static_cast<size_t>(r)]->put(std::vector<int>{7});
  GC_OK(gpucollGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    void* buffer = buffers[static_cast<size_t>(r)]->at();
    GC_OK(gpucollAllReduce(buffer, buffer, 1, gpucollInt32, gpucollSum, ranks.comm(r), ranks.stream(r)));
  }
  EXPECT_EQ(gpucollInvalidArgument,
            gpucollSend(buffers[0]->at(), 1, gpucollInt32, kRanks, ranks.comm(0), ranks.stream(0)));
  EXPECT_EQ(gpucollInvalidArgument, gpucollGroupEnd());
  ranks.synchronize();
  for (auto& buffer : buffers) EXPECT_EQ(buffer->get<int>(1)[0], 7);
  expect_usable(ranks);
}

// All ranks' part of a group in one graph: a sum, and numbers handed round; replayed among calls outside of it.
TEST(Group, CapturedAndReplayed) {
  constexpr int kRanks = 2, kReplays = 25;
  if (!enough_devices(kRanks)) return;
  Ranks ranks(kRanks);
  auto sums = ranks.buffers(sizeof(int)), from = ranks.buffers(400 * sizeof(int)),
       to = ranks.buffers(400 * sizeof(int));
  gpucollGraph_t graph;
  GC_OK(gpucollStreamBeginCapture(ranks.stream(0)));
  GC_OK(gpucollStreamWaitStream(ranks.stream(1), ranks.stream(0)));
  GC_OK(gpucollGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    const auto rank = static_cast<size_t>(r);
    GC_OK(gpucollAllReduce(sums[rank]->at(), sums[rank]->at(), 1, gpucollInt32, gpucollSum, ranks.comm(r),
                           ranks.stream(r)));
    for (size_t i = 0; i < 400; ++i) {  // more than the arguments hold
      GC_OK(gpucollSend(from[rank]->at(i * 4), 1, gpucollInt32, 1 - r, ranks.comm(r), ranks.stream(r)));
      GC_OK(gpucollRecv(to[rank]->at(i * 4), 1, gpucollInt32, 1 - r, ranks.comm(r), ranks.stream(r)));
    }
  }
  GC_OK(gpucollGroupEnd());
  GC_OK(gpucollStreamWaitStream(ranks.stream(0), ranks.stream(1)));
  GC_OK(gpucollStreamEndCapture(ranks.stream(0), &graph));
  for (int round = 0; round < kReplays; ++round) {
    for (int r = 0; r < kRanks; ++r) {
      const auto rank = static_cast<size_t>(r);
      sums[rank]->put(std::vector<int>{round + r});
      std::vector<int> data(400);
      for (int i = 0; i < 400; ++i) data[static_cast<size_t>(i)] = value(r, round % 10, i);
      from[rank]->put(data);
    }
    GC_OK(gpucollGraphLaunch(graph, ranks.stream(round % 2)));
    GC_OK(gpucollStreamSynchronize(ranks.stream(round % 2)));
    if (round % 5 == 0) expect_usable(ranks);
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_EQ(sums[static_cast<size_t>(r)]->get<int>(1)[0], 2 * round + 1);
      std::vector<int> wanted(400);
      for (int i = 0; i < 400; ++i) wanted[static_cast<size_t>(i)] = value(1 - r, round % 10, i);
      ASSERT_EQ(to[static_cast<size_t>(r)]->get<int>(400), wanted) << "rank " << r << " in round " << round;
    }
  }
  GC_OK(gpucollGraphDestroy(graph));
  expect_usable(ranks);
}

}  // namespace
