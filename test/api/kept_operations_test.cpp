// Operations that come again alone, which the communicator keeps: each of them is still checked for what may have
// changed since.
#include <barrier>
#include <functional>
#include <string>

#include "kept.h"

namespace {

using namespace gpucoll_test;

gpucollResult_t add_up(const DeviceBuffer& in, const DeviceBuffer& out, gpucollComm_t comm, const Stream& stream,
                       gpucollRedOp_t op = gpucollSum) {
  return gpucollAllReduce(in.at(), out.at(), kCount, gpucollInt32, op, comm, stream.handle);
}

// Buffers of one rank with an allreduce that is kept.
struct Kept {
  Kept(gpucollComm_t comm, int rank, gpucollRedOp_t op = gpucollSum) {
    in.put(Ints(kCount, rank + 1));
    for (int i = 0; i < kTimes; ++i) {
      EXPECT_EQ(gpucollSuccess, add_up(in, out, comm, stream, op));
    }
    EXPECT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream.handle));
  }
  void expect(int32_t wanted) {
    EXPECT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream.handle));
    EXPECT_EQ(out.get<int32_t>(kCount), Ints(kCount, wanted));
  }
  Stream stream;
  DeviceBuffer in{kBytes}, out{kBytes};
};

TEST(KeptOperations, BuffersThatWereFreedAreRefused) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    void* freed = nullptr;
    GC_OK(gpucollMalloc(&freed, kBytes));
    const auto call = [&](const void* in, void* out) {
      return gpucollAllReduce(in, out, kCount, gpucollInt32, gpucollSum, comm, kept.stream.handle);
    };
    for (int i = 0; i < kTimes; ++i) {
      GC_OK(call(freed, kept.out.at()));
      GC_OK(call(kept.in.at(), freed));
    }
    GC_OK(gpucollStreamSynchronize(kept.stream.handle));
    GC_OK(gpucollFree(freed));
    EXPECT_EQ(call(freed, kept.out.at()), gpucollInvalidArgument);
    EXPECT_EQ(call(kept.in.at(), freed), gpucollInvalidArgument);
    GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
    kept.expect(3);
  });
}

// Memory that begins at the same place, or is found nowhere any more, has too little room.
TEST(KeptOperations, ShorterMemoryAtTheSamePlaceIsRefused) {
  constexpr size_t kLarge = 1 << 20;
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    void *large = nullptr, *small = nullptr;
    GC_OK(gpucollMalloc(&large, kLarge));
    const auto call = [&] { return gpucollBroadcast(large, large, kLarge, gpucollInt8, 0, comm, kept.stream.handle); };
    for (int i = 0; i < kTimes; ++i) GC_OK(call());
    GC_OK(gpucollStreamSynchronize(kept.stream.handle));
    GC_OK(gpucollFree(large));
    GC_OK(gpucollMalloc(&small, kLarge / 4));
    EXPECT_EQ(call(), gpucollInvalidArgument);
    GC_OK(gpucollFree(small));
  });
}

TEST(KeptOperations, AnOpThatWasDestroyedIsRefused) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    const auto make = [&](int32_t scalar) {
      gpucollRedOp_t op;
      EXPECT_EQ(gpucollSuccess,
                gpucollRedOpCreatePreMulSum(&op, &scalar, gpucollInt32, gpucollScalarHostImmediate, comm));
      return op;
    };
    const gpucollRedOp_t doubled = make(2);
    Kept kept(comm, rank, doubled);
    kept.expect(6);
    GC_OK(gpucollRedOpDestroy(doubled, comm));
    EXPECT_EQ(add_up(kept.in, kept.out, comm, kept.stream, doubled), gpucollInvalidArgument);
    EXPECT_EQ(gpucollRedOpDestroy(doubled, comm), gpucollInvalidArgument);
    const gpucollRedOp_t tripled = make(3);
    for (int i = 0; i < kTimes; ++i) GC_OK(add_up(kept.in, kept.out, comm, kept.stream, tripled));
    kept.expect(9);
    GC_OK(gpucollRedOpDestroy(tripled, comm));
  });
}

// A group that fails launches nothing, and one that does not launches at its end.
TEST(KeptOperations, InAGroupTheyBelongToTheGroup) {
  std::barrier<> all(kRanks);
  on_ranks(kRanks, [&](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    kept.out.put(Ints(kCount, -1));
    GC_OK(gpucollGroupStart());
    GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
    EXPECT_EQ(gpucollBroadcast(nullptr, nullptr, 1, gpucollInt32, 0, comm, kept.stream.handle), gpucollInvalidArgument);
    EXPECT_EQ(gpucollGroupEnd(), gpucollInvalidArgument);
    all.arrive_and_wait();
    kept.expect(-1);
    for (int i = 0; i < kTimes; ++i) {
      GC_OK(gpucollGroupStart());
      GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
      GC_OK(gpucollGroupEnd());
      GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
    }
    kept.expect(3);
  });
}

TEST(KeptOperations, InACaptureTheyBelongToTheGraph) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    kept.out.put(Ints(kCount, -1));
    gpucollGraph_t graph;
    GC_OK(gpucollStreamBeginCapture(kept.stream.handle));
    GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
    GC_OK(gpucollStreamEndCapture(kept.stream.handle, &graph));
    kept.expect(-1);
    for (int i = 0; i < 3; ++i) {
      kept.in.put(Ints(kCount, 10 * i + rank));
      GC_OK(gpucollGraphLaunch(graph, kept.stream.handle));
      kept.expect(20 * i + 1);
      kept.in.put(Ints(kCount, 10 * i + rank + 1));
      GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
      kept.expect(20 * i + 3);
    }
    GC_OK(gpucollGraphDestroy(graph));
  });
}

// The end of the communicator waits for launches, but not for one that is in a graph that nobody launches.
TEST(KeptOperations, ACaptureThatIsNeverLaunchedIsNoLaunch) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    gpucollGraph_t graph;
    GC_OK(gpucollStreamBeginCapture(kept.stream.handle));
    GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
    GC_OK(gpucollStreamEndCapture(kept.stream.handle, &graph));
    GC_OK(gpucollGraphDestroy(graph));
    GC_OK(gpucollCommFinalize(comm));
  });
}

// One rank captures what the other one calls. That the former closes first is no fault: a graph made its calls.
TEST(KeptOperations, OneRankMayCaptureThem) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    gpucollGraph_t graph = nullptr;
    if (rank == 0) {
      GC_OK(gpucollStreamBeginCapture(kept.stream.handle));
      GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
      GC_OK(gpucollStreamEndCapture(kept.stream.handle, &graph));
    }
    for (int i = 0; i < kTimes; ++i) {
      kept.in.put(Ints(kCount, 10 * i + rank));
      GC_OK(rank == 0 ? gpucollGraphLaunch(graph, kept.stream.handle) : add_up(kept.in, kept.out, comm, kept.stream));
      kept.expect(20 * i + 1);
    }
    if (rank == 0) {
      GC_OK(gpucollGraphDestroy(graph));
      return;
    }
    usleep(500'000);  // the watchdog looks meanwhile
    gpucollResult_t error = gpucollSuccess;
    GC_OK(gpucollCommGetAsyncError(comm, &error));
    EXPECT_EQ(error, gpucollSuccess) << gpucollGetLastError(comm);
  });
}

// Rank 1 has kept what it calls; it takes part in as many calls, but one is another.
TEST(KeptOperations, RanksThatCallDifferentlyAreTold) {
  on_ranks_that_destroy(kRanks, [](gpucollComm_t comm, int rank) {
    Kept sum(comm, rank), max(comm, rank, gpucollMax);
    GC_OK(rank == 1 ? add_up(max.in, max.out, comm, max.stream, gpucollMax)
                    : add_up(sum.in, sum.out, comm, sum.stream));
    EXPECT_EQ(await_error(comm), gpucollInvalidUsage);
    EXPECT_TRUE(std::strstr(gpucollGetLastError(comm), "allreduce of 5 int32 by max")) << gpucollGetLastError(comm);
    GC_OK(gpucollCommAbort(comm));
  });
}

// Where one rank keeps its calls and another one does not, both have made as many.
TEST(KeptOperations, RanksNeedNotKeepTheSame) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    std::vector<std::unique_ptr<DeviceBuffer>> more;
    for (int i = 0; i < 3 * kTimes; ++i) {
      more.push_back(std::make_unique<DeviceBuffer>(kBytes));
      const DeviceBuffer& out = rank == 0 ? kept.out : *more.back();
      GC_OK(add_up(kept.in, out, comm, kept.stream));
      GC_OK(gpucollBroadcast(kept.in.at(), out.at(), 1, gpucollInt32, i % kRanks, comm, kept.stream.handle));
    }
    GC_OK(gpucollStreamSynchronize(kept.stream.handle));
    gpucollResult_t error = gpucollInternalError;
    GC_OK(gpucollCommGetAsyncError(comm, &error));
    EXPECT_EQ(error, gpucollSuccess) << gpucollGetLastError(comm);
  });
}

TEST(KeptOperations, CommunicatorsThatHaveEndedTakeNone) {
  const auto refuses = [](const std::function<gpucollResult_t(gpucollComm_t)>& end) {
    on_ranks_that_destroy(kRanks, [&](gpucollComm_t comm, int rank) {
      Kept kept(comm, rank);
      GC_OK(end(comm));
      kept.out.put(Ints(kCount, -1));
      EXPECT_EQ(add_up(kept.in, kept.out, comm, kept.stream), gpucollInvalidUsage);
      kept.expect(-1);
      GC_OK(gpucollCommDestroy(comm));
      EXPECT_EQ(add_up(kept.in, kept.out, comm, kept.stream), gpucollInvalidArgument);
    });
  };
  refuses(gpucollCommFinalize);
  refuses(gpucollCommRevoke);
}

// A rank that sees the fault of another one does not launch any more.
TEST(KeptOperations, AFaultIsTold) {
  std::barrier<> all(kRanks);
  on_ranks_that_destroy(kRanks, [&](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    all.arrive_and_wait();
    if (rank == 0) {
      EXPECT_NE(await_error(comm), gpucollSuccess);
      EXPECT_NE(add_up(kept.in, kept.out, comm, kept.stream), gpucollSuccess);
    }
    GC_OK(gpucollCommAbort(comm));
  });
}

// The handle of one that was destroyed is used again for one that has kept nothing.
TEST(KeptOperations, ANewCommunicatorHasNone) {
  Stream stream;
  DeviceBuffer in(kBytes), out(kBytes);
  for (int round = 0; round < 3; ++round) {
    in.put(Ints(kCount, round));
    on_ranks(1, [&](gpucollComm_t comm, int) {
      for (int i = 0; i < kTimes; ++i) GC_OK(add_up(in, out, comm, stream));
      GC_OK(gpucollStreamSynchronize(stream.handle));
    });
    EXPECT_EQ(out.get<int32_t>(kCount), Ints(kCount, round));
  }
}

// Shares have their own, though they have one cache of plans.
TEST(KeptOperations, SharesOfOneCommunicatorInTurn) {
  on_sharing_ranks([](gpucollComm_t comm, gpucollComm_t share, int rank) {
    Kept kept(comm, rank);
    for (int i = 0; i < 2 * kTimes; ++i) {
      kept.in.put(Ints(kCount, i + rank));
      GC_OK(add_up(kept.in, kept.out, i % 3 ? share : comm, kept.stream));
      kept.expect(2 * i + 1);
    }
    GC_OK(add_up(kept.in, kept.out, comm, kept.stream));
    kept.expect(4 * kTimes - 1);
  });
}

// With two buffers and in one, in turn: each of them moves the data that are there when it is called.
TEST(KeptOperations, Exchanges) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer in(kRanks * kBytes), out(kRanks * kBytes), both(kRanks * kBytes);
    const int root = 1;
    const auto run = [&](int round, DeviceBuffer& from, DeviceBuffer& to,
                         gpucollResult_t (*call)(const void*, void*, size_t, gpucollDataType_t, int, gpucollComm_t,
                                                 gpucollStream_t)) {
      Ints data;
      for (int block = 0; block < kRanks; ++block) data.insert(data.end(), kCount, 100 * round + 10 * rank + block);
      to.put(Ints(kRanks * kCount, -1));
      from.put(data);
      EXPECT_EQ(gpucollSuccess, call(from.at(), to.at(), kCount, gpucollInt32, root, comm, stream.handle));
      EXPECT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream.handle));
      return to.get<int32_t>(kRanks * kCount);
    };
    const auto all_to_all = [](const void* from, void* to, size_t count, gpucollDataType_t type, int, gpucollComm_t c,
                               gpucollStream_t s) { return gpucollAlltoAll(from, to, count, type, c, s); };
    for (int round = 0; round < 2 * kTimes; ++round) {
      const auto block = [&](int source, int number) { return 100 * round + 10 * source + number; };
      for (DeviceBuffer* to : {&out, &both}) {
        const Ints got = run(round, to == &out ? in : both, *to, all_to_all);
        EXPECT_EQ(got.front(), block(0, rank));
        EXPECT_EQ(got.back(), block(1, rank));
      }
      const Ints gathered = run(round, in, out, gpucollGather);
      EXPECT_EQ(gathered.front(), rank == root ? block(0, 0) : -1);
      EXPECT_EQ(gathered.back(), rank == root ? block(1, 0) : -1);
      const Ints scattered = run(round, in, out, gpucollScatter);
      EXPECT_EQ(scattered.front(), block(root, rank));
      EXPECT_EQ(scattered.back(), -1);
    }
  });
}

TEST(KeptOperations, BuffersOfExchangesThatWereFreedAreRefused) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer out(kRanks * kBytes);
    void* freed = nullptr;
    GC_OK(gpucollMalloc(&freed, kRanks * kBytes));
    const auto exchange = [&] { return gpucollAlltoAll(freed, out.at(), kCount, gpucollInt32, comm, stream.handle); };
    const auto scatter = [&] { return gpucollScatter(freed, out.at(), kCount, gpucollInt32, 0, comm, stream.handle); };
    for (int i = 0; i < kTimes; ++i) {
      GC_OK(exchange());
      GC_OK(scatter());
    }
    GC_OK(gpucollStreamSynchronize(stream.handle));
    GC_OK(gpucollFree(freed));
    EXPECT_EQ(exchange(), gpucollInvalidArgument);
    if (rank == 0) {
      EXPECT_EQ(scatter(), gpucollInvalidArgument);
    }
  });
}

// The library asks nothing of a buffer that a rank does not use.
TEST(KeptOperations, BuffersOfTheRootAlone) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Kept kept(comm, rank);
    const auto nowhere = reinterpret_cast<char*>(uintptr_t{8});
    char* const at_root = rank == 1 ? kept.out.at() : nowhere;
    for (int i = 0; i < 2 * kTimes; ++i) {
      kept.in.put(Ints(kCount, i + rank));
      GC_OK(gpucollReduce(kept.in.at(), at_root, kCount, gpucollInt32, gpucollSum, 1, comm, kept.stream.handle));
      kept.expect(rank == 1 ? 2 * i + 1 : 3);
    }
  });
}

}  // namespace
