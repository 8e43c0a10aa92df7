// Operations that do not end, and those whose stream has such a one first.
#include "ranks.h"

using namespace gpucoll_test;

namespace {

constexpr size_t kCount = 100;
gpucollResult_t all_reduce(gpucollComm_t comm, const DeviceBuffer& memory, const Stream& stream) {
  return gpucollAllReduce(memory.at(), memory.at(), kCount, gpucollInt32, gpucollSum, comm, stream.handle);
}

// Communicators of two ranks that are threads, each of which has connected.
std::vector<gpucollComm_t> connected(int n, const std::vector<gpucollUniqueId>& ids, int rank,
                                     const DeviceBuffer& memory, const Stream& stream) {
  std::vector<gpucollComm_t> comms(static_cast<size_t>(n));
  for (size_t i = 0; i < comms.size(); ++i) {
    EXPECT_EQ(gpucollSuccess, gpucollCommInitRank(&comms[i], 2, ids[i], rank));
    EXPECT_EQ(gpucollSuccess, all_reduce(comms[i], memory, stream));
  }
  EXPECT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream.handle));
  return comms;
}

// Runs body(comms, rank, memory, stream) on two ranks with n communicators.
using Body = std::function<void(const std::vector<gpucollComm_t>&, int, DeviceBuffer&, Stream&)>;
void on_two_ranks(int n, const Body& body) {
  if (!enough_devices(2)) return;
  std::vector<gpucollUniqueId> ids(static_cast<size_t>(n));
  for (gpucollUniqueId& id : ids) GC_OK(gpucollGetUniqueId(&id));
  on_threads(2, [&](int rank) {
    choose_device(rank);
    DeviceBuffer memory(kCount * sizeof(int32_t));
    Stream stream;
    body(connected(n, ids, rank, memory, stream), rank, memory, stream);
  });
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Both ranks wait for the other one's message: all have launched, and nobody is missing. REQUIRES: the parameter
// timeout is 3.
TEST(StuckStream, WhatAllRanksHaveLaunchedTimesOut) {
  on_two_ranks(1, [](const std::vector<gpucollComm_t>& comms, int rank, DeviceBuffer& memory, Stream& stream) {
    DeviceBuffer out(kCount * sizeof(int32_t));
    gpucollComm_t comm = comms.front();
    for (const bool hangs : {false, true}) {  // the first time they connect
      GC_OK(gpucollGroupStart());
      if (!hangs) GC_OK(gpucollSend(memory.at(), kCount, gpucollInt32, 1 - rank, comm, stream.handle));
      GC_OK(gpucollRecv(out.at(), kCount, gpucollInt32, 1 - rank, comm, stream.handle));
      GC_OK(gpucollGroupEnd());
    }
    EXPECT_NE(gpucollSuccess, await_error(comm, 15));
    GC_OK(gpucollCommAbort(comm));
    GC_OK(gpucollStreamSynchronize(stream.handle));
  });
}

// Streams that go on for longer than `timeout`, and are at rest for longer then: kernels tell of their end seldom.
// REQUIRES: the parameter timeout is 3.
TEST(StuckStream, NobodyTimesOutWhereStreamsGoOn) {
  static constexpr double kSeconds = 4.5;
  constexpr int kCalls = 200;
  on_two_ranks(1, [](const std::vector<gpucollComm_t>& comms, int rank, DeviceBuffer& memory, Stream& stream) {
    Stream other;
    memory.put(std::vector<int32_t>(kCount, rank == 0 ? 1 : 0));
    // One stream has calls while the host waits for those of the other one.
    const auto two_turns = [&] {
      for (const bool first : {true, false}) {
        for (int i = 0; i < kCalls; ++i)
          GC_OK(gpucollBroadcast(memory.at(), memory.at(), kCount, gpucollInt32, 0, comms.front(),
                                 (first ? stream : other).handle));
        GC_OK(gpucollStreamSynchronize((first ? other : stream).handle));
      }
    };
    const auto begin = std::chrono::steady_clock::now();
    two_turns();
    DeviceBuffer turns(sizeof(int32_t));
    turns.put(std::vector<int32_t>{static_cast<int32_t>(kSeconds / seconds_since(begin)) + 1});
    GC_OK(gpucollBroadcast(turns.at(), turns.at(), 1, gpucollInt32, 0, comms.front(), other.handle));
    GC_OK(gpucollStreamSynchronize(other.handle));
    for (int turn = turns.get<int32_t>(1)[0]; turn > 0; --turn) two_turns();
    GC_OK(gpucollStreamSynchronize(other.handle));
    gpucollResult_t result = gpucollSuccess;
    EXPECT_EQ(gpucollSuccess, gpucollCommGetAsyncError(comms.front(), &result));
    EXPECT_EQ(gpucollSuccess, result) << gpucollGetLastError(comms.front());
    std::this_thread::sleep_for(std::chrono::duration<double>(kSeconds));
    EXPECT_EQ(gpucollSuccess, gpucollCommGetAsyncError(comms.front(), &result));
    EXPECT_EQ(gpucollSuccess, result) << gpucollGetLastError(comms.front());
    EXPECT_EQ(std::vector<int32_t>(kCount, 1), memory.get<int32_t>(kCount));
    GC_OK(gpucollCommDestroy(comms.front()));
  });
}

// The kernel of the first communicator waits for a rank that does not come; those of the others are behind it, and do
// not begin before the first one is aborted, as the last. What they use stays until then.
TEST(StuckStream, AbortsDoNotWaitForWhatHasNotBegun) {
  constexpr int kComms = 4;
  constexpr double kGraceS = 10;  // for kernels that leave after an abort
  on_two_ranks(kComms, [](const std::vector<gpucollComm_t>& comms, int rank, DeviceBuffer& memory, Stream& stream) {
    if (rank == 0) {
      for (gpucollComm_t comm : comms) GC_OK(all_reduce(comm, memory, stream));
      for (int i = kComms - 1; i >= 0; --i) {
        const auto begin = std::chrono::steady_clock::now();
        GC_OK(gpucollCommAbort(comms[static_cast<size_t>(i)]));
        EXPECT_LT(seconds_since(begin), kGraceS - 1);
        gpucollComm_t alone = nullptr;  // makes that be freed which may be
        const int device = 0;
        GC_OK(gpucollCommInitAll(&alone, 1, &device));
        GC_OK(gpucollCommDestroy(alone));
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
    } else {
      for (gpucollComm_t comm : comms) {
        EXPECT_NE(gpucollSuccess, await_error(comm));
        GC_OK(gpucollCommAbort(comm));
      }
    }
  });
}

}  // namespace
