// Wrong arguments and failing ranks: an error with a sentence, never a crash or a hang.
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "ranks.h"

using namespace gpucoll_test;

namespace {

void expect_refused(gpucollResult_t expected, gpucollResult_t got, const char* part) {
  EXPECT_EQ(expected, got);
  std::string sentence = gpucollGetLastError(nullptr);
  EXPECT_NE(sentence.find(part), std::string::npos) << "'" << sentence << "' does not say '" << part << "'";
}

}  // namespace

TEST(BadInput, AllReduceSaysWhichArgument) {
  on_ranks(1, [](gpucollComm_t comm, int) {
    DeviceBuffer b(1024);
    int host[4] = {};
    auto call = [&](const void* in, void* out, size_t n, int type, int op) {
      return gpucollAllReduce(in, out, n, static_cast<gpucollDataType_t>(type), static_cast<gpucollRedOp_t>(op), comm,
                              nullptr);
    };
    expect_refused(gpucollInvalidArgument, call(host, b.at(), 4, gpucollInt32, gpucollSum), "sendbuff");
    expect_refused(gpucollInvalidArgument, call(b.at(), host, 4, gpucollInt32, gpucollSum), "recvbuff");
    expect_refused(gpucollInvalidArgument, call(nullptr, b.at(), 4, gpucollInt32, gpucollSum), "NULL");
    void* freed = nullptr;
    GC_OK(gpucollMalloc(&freed, 1024));
    GC_OK(gpucollFree(freed));
    expect_refused(gpucollInvalidArgument, call(freed, b.at(), 4, gpucollInt32, gpucollSum), "sendbuff");
    expect_refused(gpucollInvalidArgument, call(b.at(), b.at(), 4, 99, gpucollSum), "gpucollDataType_t");
    expect_refused(gpucollInvalidArgument, call(b.at(), b.at(), 4, -1, gpucollSum), "gpucollDataType_t");
    expect_refused(gpucollInvalidArgument, call(b.at(), b.at(), 4, gpucollInt32, 55), "gpucollRedOp_t");
    expect_refused(gpucollInvalidArgument, call(b.at(), b.at(), 4, gpucollFloat32, gpucollBand), "band");
    expect_refused(gpucollInvalidArgument, call(b.at(), b.at(), 257, gpucollInt32, gpucollSum), "allocation");
    expect_refused(gpucollInvalidArgument, call(b.at(), b.at(8), 16, gpucollInt32, gpucollSum), "overlap");
    expect_refused(gpucollInvalidArgument, call(b.at(1), b.at(1), 4, gpucollInt32, gpucollSum), "aligned");
    expect_refused(gpucollInvalidArgument, call(b.at(), b.at(), SIZE_MAX / 2, gpucollInt32, gpucollSum), "count");
    GC_OK(call(b.at(), b.at(), 256, gpucollInt32, gpucollSum));
    GC_OK(gpucollStreamSynchronize(nullptr));
  });
}

TEST(BadInput, HandlesAreChecked) {
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  gpucollComm_t comm = nullptr;
  expect_refused(gpucollInvalidArgument, gpucollCommInitRank(&comm, 2, id, 2), "rank 2 of 2");
  expect_refused(gpucollInvalidArgument, gpucollCommInitRank(&comm, 0, id, 0), "rank 0 of 0");
  expect_refused(gpucollInvalidArgument, gpucollCommInitRank(nullptr, 1, id, 0), "NULL");
  expect_refused(gpucollInvalidArgument, gpucollGetUniqueId(nullptr), "NULL");
  expect_refused(gpucollInvalidUsage, gpucollGroupEnd(), "GroupStart");
  int count = 0;
  expect_refused(gpucollInvalidArgument, gpucollCommCount(nullptr, &count), "communicator");
  GC_OK(gpucollCommInitRank(&comm, 1, id, 0));
  gpucollComm_t destroyed = comm;
  GC_OK(gpucollCommDestroy(comm));
  expect_refused(gpucollInvalidArgument, gpucollCommCount(destroyed, &count), "destroyed");
  expect_refused(gpucollInvalidArgument, gpucollCommDestroy(destroyed), "destroyed before");
  gpucollUniqueId garbage = {};
  expect_refused(gpucollInvalidArgument, gpucollCommInitRank(&comm, 1, garbage, 0), "unique id");
  GC_OK(gpucollCommDestroy(nullptr));
}

// Run by api.bad_parameter alone, with GPUCOLL_CHANNELS=abc, which looks for the line that tells it.
TEST(BadParameter, DISABLED_IsTold) {
  gpucollComm_t comm = nullptr;
  expect_refused(gpucollInvalidArgument, gpucollCommInitAll(&comm, 1, nullptr), "GPUCOLL_CHANNELS");
}

// Run by api.old_parameter alone, with GPUCOLL_KEPT_LAUNCHES=16.
TEST(OldParameter, DISABLED_IsTold) {
  gpucollComm_t comm = nullptr;
  expect_refused(gpucollInvalidArgument, gpucollCommInitAll(&comm, 1, nullptr), "plan_cache");
}

TEST(BadInput, MemoryFunctions) {
  int host = 0;
  expect_refused(gpucollInvalidArgument, gpucollFree(&host), "");
  expect_refused(gpucollInvalidArgument, gpucollMalloc(nullptr, 5), "NULL");
  void* p = &host;
  GC_OK(gpucollMalloc(&p, 0));
  EXPECT_EQ(p, nullptr);
  GC_OK(gpucollFree(nullptr));
  EXPECT_NE(gpucollSuccess, gpucollMalloc(&p, size_t{1} << 60));
  DeviceBuffer b(100);
  std::vector<char> big(100000);
  EXPECT_NE(gpucollSuccess, gpucollMemcpy(b.at(), big.data(), big.size()));
}

// In a build with some kernels only as well, where what is left out has a meaning all the same.
TEST(BadInput, SaysWhyThereIsNoKernel) {
  on_ranks(1, [](gpucollComm_t comm, int) {
    Stream stream;
    DeviceBuffer b(16 * 16);
    const auto call = [&](gpucollDataType_t type, gpucollRedOp_t op) {
      return gpucollAllReduce(b.at(), b.at(), 1, type, op, comm, stream.handle);
    };
    for (int type = 0; type <= gpucollComplex128; ++type) {
      const auto result = call(static_cast<gpucollDataType_t>(type), gpucollSum);
      if (result != gpucollSuccess) expect_refused(gpucollUnsupported, result, "left out of this build");
    }
    expect_refused(gpucollInvalidArgument, call(gpucollFloat64, gpucollBand), "no meaning");
    expect_refused(gpucollInvalidArgument, call(gpucollFloat32, gpucollBand), "no meaning");
    expect_refused(gpucollInvalidArgument, call(gpucollComplex64, gpucollMax), "no meaning");
    expect_refused(gpucollInvalidArgument, call(gpucollFloatInt, gpucollSum), "no meaning");
    GC_OK(gpucollStreamSynchronize(stream.handle));
  });
}

TEST(BadInput, AGroupWithAFailureStartsNothing) {
  on_ranks(2, [](gpucollComm_t comm, int) {
    Stream stream;
    DeviceBuffer b(64);
    b.put(std::vector<int32_t>(16, 1));
    GC_OK(gpucollGroupStart());
    GC_OK(gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, stream.handle));
    EXPECT_EQ(gpucollInvalidArgument,
              gpucollAllReduce(b.at(), b.at(), 17, gpucollInt32, gpucollSum, comm, stream.handle));
    EXPECT_EQ(gpucollInvalidArgument, gpucollGroupEnd());
    // The communicator is as good as before.
    GC_OK(gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    EXPECT_EQ(b.get<int32_t>(16), std::vector<int32_t>(16, 2));
  });
}

TEST(Faults, AnAbortReachesTheOthers) {
  auto start = std::chrono::steady_clock::now();
  on_ranks_that_destroy(3, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer b(64);
    GC_OK(gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, stream.handle));  // connects
    GC_OK(gpucollStreamSynchronize(stream.handle));
    if (rank == 1) {
      GC_OK(gpucollCommAbort(comm));
      return;
    }
    const gpucollResult_t called =  // this rank may have heard by then
        gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, stream.handle);
    EXPECT_TRUE(called == gpucollSuccess || called == gpucollRemoteError) << called;
    GC_OK(gpucollStreamSynchronize(stream.handle));  // ends, without a result
    gpucollResult_t error = gpucollSuccess;
    GC_OK(gpucollCommGetAsyncError(comm, &error));
    EXPECT_EQ(error, gpucollRemoteError);
    EXPECT_NE(std::string(gpucollGetLastError(comm)).find("rank"), std::string::npos);
    EXPECT_EQ(gpucollRemoteError, gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, stream.handle));
    EXPECT_EQ(gpucollRemoteError, gpucollCommDestroy(comm));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

// One of them waits in gpucollGroupEnd for the first's peer, which never comes; others look on.
TEST(Faults, AnAbortEndsTheCallsOfOtherThreads) {
  if (!enough_devices(2)) return;
  for (int round = 0; round < 20; ++round) {
    gpucollComm_t first[2], second[2];
    GC_OK(gpucollCommInitAll(first, 2, nullptr));
    GC_OK(gpucollCommInitAll(second, 2, nullptr));
    GC_OK(gpucollSetDevice(0));
    DeviceBuffer b(64);
    Stream stream;
    std::atomic<bool> begun{false}, ended{false};
    std::thread waiting([&] {
      gpucollSetDevice(0);
      gpucollGroupStart();
      for (gpucollComm_t comm : {first[0], second[0]})
        gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, stream.handle);
      begun = true;
      EXPECT_NE(gpucollSuccess, gpucollGroupEnd());
    });
    std::thread looking([&] {
      gpucollResult_t error = gpucollSuccess;
      while (!ended) gpucollCommGetAsyncError(first[0], &error);
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(round % 7 * 300));
    for (gpucollComm_t comm : {first[0], second[0]}) GC_OK(gpucollCommAbort(comm));
    waiting.join();
    ended = true;
    looking.join();
    for (gpucollComm_t comm : {first[1], second[1]}) GC_OK(gpucollCommAbort(comm));
  }
}

// The first collective call of a communicator, which connects, finds out at once.
TEST(Faults, CallsThatDoNotFitTogetherAreTold) {
  const auto expect_told = [](const std::function<gpucollResult_t(gpucollComm_t, int, char*, gpucollStream_t)>& call) {
    on_ranks_that_destroy(2, [&](gpucollComm_t comm, int rank) {
      Stream stream;
      DeviceBuffer b(1 << 20);
      // The other one may have told first.
      const gpucollResult_t told = call(comm, rank, b.at(), stream.handle);
      EXPECT_TRUE(told == gpucollInvalidUsage || told == gpucollRemoteError) << told;
      EXPECT_NE(std::string(gpucollGetLastError(comm)).find("same collective calls"), std::string::npos)
          << gpucollGetLastError(comm);
      EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
    });
  };
  const auto start = std::chrono::steady_clock::now();
  expect_told([](gpucollComm_t comm, int rank, char* b, gpucollStream_t stream) {
    return rank == 0 ? gpucollAllReduce(b, b, 2, gpucollInt32, gpucollSum, comm, stream)
                     : gpucollBcast(b, 200000, gpucollInt32, 0, comm, stream);
  });
  expect_told([](gpucollComm_t comm, int rank, char* b, gpucollStream_t stream) {
    gpucollComm_t part = nullptr;
    return rank == 0 ? gpucollAllReduce(b, b, 2, gpucollInt32, gpucollSum, comm, stream)
                     : gpucollCommSplit(comm, 0, 0, &part);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

// Kernels that work on each other's buffers compare, before one reads beyond the other's.
TEST(Faults, LargeReductionsThatDifferAreTold) {
  struct Call {
    size_t count;
    gpucollDataType_t type;
    int root;  // -1: an allreduce
  };
  const auto expect_told = [](const Call& first, const Call& second, const std::string& part) {
    on_ranks_that_destroy(2, [&](gpucollComm_t comm, int rank) {
      Stream stream;
      DeviceBuffer in(1 << 20), out(1 << 20);
      const Call& c = rank == 0 ? first : second;
      const gpucollResult_t begun =
          c.root < 0 ? gpucollAllReduce(in.at(), out.at(), c.count, c.type, gpucollSum, comm, stream.handle)
                     : gpucollReduce(in.at(), out.at(), c.count, c.type, gpucollSum, c.root, comm, stream.handle);
      // While it connects, a rank may hear of the other's call already.
      EXPECT_TRUE(begun == gpucollSuccess || begun == gpucollInvalidUsage || begun == gpucollRemoteError) << begun;
      GC_OK(gpucollStreamSynchronize(stream.handle));
      gpucollResult_t error = gpucollSuccess;
      GC_OK(gpucollCommGetAsyncError(comm, &error));
      EXPECT_TRUE(error == gpucollInvalidUsage || error == gpucollRemoteError) << error;
      const std::string told = gpucollGetLastError(comm);
      EXPECT_NE(told.find(part), std::string::npos) << told;
      EXPECT_NE(told.find("same collective calls"), std::string::npos) << told;
      EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
    });
  };
  expect_told({50000, gpucollInt32, -1}, {50004, gpucollInt32, -1}, "50004");
  expect_told({50000, gpucollInt32, -1}, {50000, gpucollComplex64, -1}, "an allreduce of 50000 complex64");
  expect_told({50000, gpucollInt32, -1}, {50000, gpucollInt32, 0}, "a reduce of 50000 int32 by sum with root 0");
  expect_told({50000, gpucollInt32, 1}, {50000, gpucollInt32, 0}, "with root 1");
}

// Small calls do not carry their count: who wants more waits, but the ranks compare.
TEST(Faults, SmallCallsThatDifferAreTold) {
  on_ranks_that_destroy(2, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer b(256);
    GC_OK(gpucollAllReduce(b.at(), b.at(), 50, gpucollInt32, gpucollSum, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    GC_OK(gpucollAllReduce(b.at(), b.at(), rank == 0 ? 60 : 50, gpucollInt32, gpucollSum, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    const gpucollResult_t error = await_error(comm);
    EXPECT_TRUE(error == gpucollInvalidUsage || error == gpucollRemoteError) << error;
    const std::string told = gpucollGetLastError(comm);
    EXPECT_NE(told.find("an allreduce of 60 int32 by sum"), std::string::npos) << told;
    EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
  });
}

// Started with GPUCOLL_TIMEOUT=6.
TEST(Faults, ATimeoutNamesWhoIsMissing) {
  on_ranks_that_destroy(3, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer b(64);
    GC_OK(gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    if (rank != 2) {
      GC_OK(gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
    }
    const gpucollResult_t error = await_error(comm);
    EXPECT_TRUE(error == gpucollTimeout || error == gpucollRemoteError) << error;
    EXPECT_NE(std::string(gpucollGetLastError(comm)).find("rank 2"), std::string::npos) << gpucollGetLastError(comm);
    EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
  });
}
