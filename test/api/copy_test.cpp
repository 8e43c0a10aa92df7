// Large sends and receives, which copy engines move: between kernels, streams, groups and communicators, with memory
// that comes and goes, and with peers that do not play along. CTest sets copy_engine_bytes small.
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "copies.h"

using namespace gpucoll_test;

TEST(Copy, MixesWithKernelsInAGroup) {
  for (int n : {2, 3, 4})
    on_ranks(n, [n](gpucollComm_t comm, int rank) {
      Stream stream;
      for (int round = 0; round < 5; ++round) exchange(comm, rank, n, round, stream.handle);
    });
}

TEST(Copy, FollowsTheOrderOfTheStream) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    constexpr int rounds = 30;
    constexpr size_t count = kLarge / 4;
    Stream stream;
    DeviceBuffer a(kLarge + 1), b(kLarge + 1);
    const int peer = 1 - rank;
    // Each round sends the sum of what came before: a copy that starts too early or ends too late shows.
    std::vector<int32_t> ones(count, rank + 1);
    a.put(ones);
    for (int round = 0; round < rounds; ++round) {
      GC_OK(gpucollAllReduce(a.at(), a.at(), count, gpucollInt32, round % 2 ? gpucollMin : gpucollMax, comm,
                             stream.handle));
      if (rank == round % 2) {
        GC_OK(send(a, 0, count * 4, peer, comm, stream.handle));
        GC_OK(recv(b, 0, count * 4, peer, comm, stream.handle));
      } else {
        GC_OK(recv(b, 0, count * 4, peer, comm, stream.handle));
        GC_OK(send(a, 0, count * 4, peer, comm, stream.handle));
      }
      GC_OK(gpucollAllReduce(b.at(), a.at(), count, gpucollInt32, gpucollSum, comm, stream.handle));
    }
    GC_OK(gpucollStreamSynchronize(stream.handle));
    const auto result = a.get<uint32_t>(count);
    for (size_t i : {size_t{0}, count / 2, count - 1}) ASSERT_EQ(result[i], 4u << (rounds - 1)) << i;
  });
}

// Rank 2 comes late: what rank 0 sends on is not there before, and what rank 1 receives into is still to be sent.
TEST(Copy, WaitsForWhatComesBeforeInTheStream) {
  on_ranks(3, [](gpucollComm_t comm, int rank) {
    constexpr size_t part = 45000, parts = 8;  // by kernels, and more than a connection holds
    constexpr size_t bytes = part * parts;
    Stream stream;
    DeviceBuffer buffer(bytes), in(bytes);
    for (int round = 0; round < 4; ++round) {
      const bool late_receiver = round % 2;  // else only the sender is
      if (rank > 0) buffer.put(message(rank, 0, round, bytes));
      if (rank == 2) usleep(50000);
      for (size_t i = 0; i < parts; ++i) {
        if (rank == 0) {
          GC_OK(recv(buffer, i * part, part, 2, comm, stream.handle));
        }
        if (rank == 1 && late_receiver) {
          GC_OK(send(buffer, i * part, part, 2, comm, stream.handle));
        }
        if (rank == 2) {
          GC_OK(send(buffer, i * part, part, 0, comm, stream.handle));
        }
      }
      if (rank == 2 && late_receiver) {
        GC_OK(gpucollStreamSynchronize(stream.handle));
        usleep(50000);
        for (size_t i = 0; i < parts; ++i) GC_OK(recv(in, i * part, part, 1, comm, stream.handle));
      }
      if (rank == 0) {
        GC_OK(send(buffer, 0, bytes, 1, comm, stream.handle));
      }
      if (rank == 1) {
        GC_OK(recv(buffer, 0, bytes, 0, comm, stream.handle));
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
      ASSERT_EQ(buffer.get<uint8_t>(bytes), message(2, 0, round, bytes));
      ASSERT_TRUE(rank != 2 || !late_receiver || in.get<uint8_t>(bytes) == message(1, 0, round, bytes));
    }
  });
}

TEST(Copy, HasManyMessagesUnderWay) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    constexpr int messages = 50;  // more than a ring of descriptors
    Stream stream;
    DeviceBuffer buffer(messages * kLarge);
    for (int grouped : {1, 0}) {
      for (int i = 0; i < messages; ++i)
        buffer.put(message(rank, 1, i + grouped, kLarge), static_cast<size_t>(i) * kLarge);
      if (grouped) {
        GC_OK(gpucollGroupStart());
      }
      for (int i = 0; i < messages; ++i) {
        const size_t place = static_cast<size_t>(i) * kLarge;
        GC_OK(rank == 0 ? send(buffer, place, kLarge, 1, comm, stream.handle)
                        : recv(buffer, place, kLarge, 0, comm, stream.handle));
      }
      if (grouped) {
        GC_OK(gpucollGroupEnd());
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
      for (int i = 0; i < messages; ++i)
        ASSERT_EQ(buffer.get<uint8_t>(kLarge, static_cast<size_t>(i) * kLarge), message(0, 1, i + grouped, kLarge))
            << i;
    }
  });
}

// Allgather, and broadcast to one rank, go as messages when they are large. Between kernels, next to messages of the
// program's own, in place and not.
TEST(Copy, CarriesLargeCollectives) {
  for (int n : {2, 3, 4})
    on_ranks(n, [n](gpucollComm_t comm, int rank) {
      Stream stream;
      const auto ranks = static_cast<size_t>(n), me = static_cast<size_t>(rank);
      DeviceBuffer mine(kLarge), all(ranks * kLarge), again(ranks * kLarge), one(kLarge), out(kLarge), in(kLarge);
      for (int round = 0; round < 6; ++round) {
        const int root = round % n, next = (rank + 1) % n, previous = (rank + n - 1) % n;
        mine.put(message(rank, 0, round, kLarge));
        again.put(message(rank, 1, round, kLarge), me * kLarge);
        out.put(message(rank, next, round, kLarge));
        one.put(message(rank, 2, round, kLarge));
        GC_OK(gpucollAllReduce(mine.at(), mine.at(), kLarge, gpucollUint8, gpucollMax, comm, stream.handle));
        GC_OK(gpucollGroupStart());
        GC_OK(send(out, 0, kLarge, next, comm, stream.handle));
        GC_OK(gpucollAllGather(mine.at(), all.at(), kLarge, gpucollUint8, comm, stream.handle));
        GC_OK(recv(in, 0, kLarge, previous, comm, stream.handle));
        GC_OK(gpucollGroupEnd());
        GC_OK(gpucollAllGather(again.at(me * kLarge), again.at(), kLarge, gpucollUint8, comm, stream.handle));
        GC_OK(gpucollBroadcast(one.at(), one.at(), kLarge, gpucollUint8, root, comm, stream.handle));
        GC_OK(gpucollBroadcast(one.at(), mine.at(), kLarge, gpucollUint8, root, comm, stream.handle));
        GC_OK(gpucollStreamSynchronize(stream.handle));
        ASSERT_EQ(in.get<uint8_t>(kLarge), message(previous, rank, round, kLarge));
        ASSERT_EQ(one.get<uint8_t>(kLarge), message(root, 2, round, kLarge));
        ASSERT_EQ(mine.get<uint8_t>(kLarge), message(root, 2, round, kLarge));
        std::vector<uint8_t> most(kLarge);
        for (int r = 0; r < n; ++r) {
          const std::vector<uint8_t> theirs = message(r, 0, round, kLarge);
          for (size_t i = 0; i < kLarge; ++i) most[i] = std::max(most[i], theirs[i]);
        }
        for (int r = 0; r < n; ++r) {
          ASSERT_EQ(all.get<uint8_t>(kLarge, static_cast<size_t>(r) * kLarge), most) << r;
          ASSERT_EQ(again.get<uint8_t>(kLarge, static_cast<size_t>(r) * kLarge), message(r, 1, round, kLarge)) << r;
        }
      }
    });
}

TEST(Copy, OrdersStreamsAroundAGroup) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    Stream streams[3];
    DeviceBuffer out(kLarge), in(kLarge), sum(kLarge);
    const int peer = 1 - rank;
    for (int round = 0; round < 10; ++round) {
      out.put(message(rank, peer, round, kLarge));
      GC_OK(gpucollGroupStart());
      GC_OK(send(out, 0, kLarge, peer, comm, streams[0].handle));
      GC_OK(recv(in, 0, kLarge, peer, comm, streams[1].handle));
      GC_OK(gpucollGroupEnd());
      // Another stream, behind the receive's only: what came in goes back.
      GC_OK(gpucollStreamWaitStream(streams[2].handle, streams[1].handle));
      GC_OK(gpucollGroupStart());
      GC_OK(send(in, 0, kLarge, peer, comm, streams[2].handle));
      GC_OK(recv(sum, 0, kLarge, peer, comm, streams[2].handle));
      GC_OK(gpucollGroupEnd());
      GC_OK(gpucollStreamSynchronize(streams[2].handle));
      ASSERT_EQ(sum.get<uint8_t>(kLarge), message(rank, peer, round, kLarge));
      GC_OK(gpucollStreamSynchronize(streams[0].handle));
    }
  });
}

TEST(Copy, SharesStreamsWithOtherCommunicators) {
  on_ranks(3, [](gpucollComm_t comm, int rank) {
    gpucollComm_t reversed = nullptr;
    GC_OK(gpucollCommSplit(comm, 0, -rank, &reversed));
    const int mirror = 2 - rank;
    Stream stream;
    DeviceBuffer out(kLarge), in(kLarge), back(kLarge);
    for (int round = 0; round < 10; ++round) {
      out.put(message(rank, 0, round, kLarge));
      GC_OK(gpucollGroupStart());
      GC_OK(send(out, 0, kLarge, (rank + 1) % 3, comm, stream.handle));
      GC_OK(recv(back, 0, kLarge, (mirror + 1) % 3, reversed, stream.handle));
      GC_OK(recv(in, 0, kLarge, (rank + 2) % 3, comm, stream.handle));
      GC_OK(send(out, 0, kLarge, (mirror + 2) % 3, reversed, stream.handle));
      GC_OK(gpucollGroupEnd());
      GC_OK(gpucollStreamSynchronize(stream.handle));
      ASSERT_EQ(in.get<uint8_t>(kLarge), message((rank + 2) % 3, 0, round, kLarge));
      // Rank (mirror + 1) % 3 there is rank 2 - that here.
      ASSERT_EQ(back.get<uint8_t>(kLarge), message(2 - (mirror + 1) % 3, 0, round, kLarge));
    }
    GC_OK(gpucollCommDestroy(reversed));
  });
}

TEST(Copy, SeesMemoryThatWasAllocatedAnew) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    for (int round = 0; round < 300; ++round) {
      const size_t bytes = kLarge + static_cast<size_t>(round % 3) * 5000;
      DeviceBuffer buffer(bytes + 100);
      if (rank == 0) {
        buffer.put(message(0, 1, round, bytes), 7);
        GC_OK(send(buffer, 7, bytes, 1, comm, stream.handle));
        GC_OK(gpucollStreamSynchronize(stream.handle));
      } else {
        GC_OK(recv(buffer, static_cast<size_t>(round % 50), bytes, 0, comm, stream.handle));
        GC_OK(gpucollStreamSynchronize(stream.handle));
        ASSERT_EQ(buffer.get<uint8_t>(bytes, static_cast<size_t>(round % 50)), message(0, 1, round, bytes)) << round;
      }
    }
  });
}

TEST(Copy, IsDrivenByOneThreadForAllRanks) {
  constexpr int n = 3;
  if (!enough_devices(n)) return;
  gpucollComm_t comms[n];
  init_all(comms);
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<DeviceBuffer>> out, in;
  for (int r = 0; r < n; ++r) {
    choose_device(r);
    streams.push_back(std::make_unique<Stream>());
    out.push_back(std::make_unique<DeviceBuffer>(kLarge));
    in.push_back(std::make_unique<DeviceBuffer>(kLarge));
    out.back()->put(message(r, 0, 0, kLarge));
  }
  for (int round = 0; round < 5; ++round) {
    GC_OK(gpucollGroupStart());
    for (int r = 0; r < n; ++r) {
      GC_OK(send(*out[static_cast<size_t>(r)], 0, kLarge, (r + 1) % n, comms[r],
                 streams[static_cast<size_t>(r)]->handle));
      GC_OK(recv(*in[static_cast<size_t>(r)], 0, kLarge, (r + n - 1) % n, comms[r],
                 streams[static_cast<size_t>(r)]->handle));
    }
    GC_OK(gpucollGroupEnd());
  }
  for (int r = 0; r < n; ++r) {
    GC_OK(gpucollStreamSynchronize(streams[static_cast<size_t>(r)]->handle));
    EXPECT_EQ(in[static_cast<size_t>(r)]->get<uint8_t>(kLarge), message((r + n - 1) % n, 0, 0, kLarge));
  }
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommDestroy(comm));
}

// Where nothing is pending, nothing runs; where something is, but does not come, little.
TEST(Copy, LeavesTheProcessorAlone) {
  const auto cpu_seconds = [] {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  double idle = 0;
  std::atomic<bool> measured{false};
  on_ranks(2, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer buffer(kLarge);
    GC_OK(rank == 0 ? send(buffer, 0, kLarge, 1, comm, stream.handle)
                    : recv(buffer, 0, kLarge, 0, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    for (int tries = 0; rank == 0 && tries < 5 && (tries == 0 || idle > 0.1);
         ++tries) {  // the other may just have come
      usleep(50000);
      const double before = cpu_seconds();
      usleep(500000);
      idle = cpu_seconds() - before;
    }
    if (rank == 0) measured = true;
    while (!measured) usleep(20000);
  });
  EXPECT_LT(idle, 0.1);
}

TEST(Copy, LeavesGraphsToKernels) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer out(kLarge), in(kLarge);
    const int peer = 1 - rank;
    GC_OK(gpucollStreamBeginCapture(stream.handle));
    GC_OK(gpucollGroupStart());
    GC_OK(send(out, 0, kLarge, peer, comm, stream.handle));
    GC_OK(recv(in, 0, kLarge, peer, comm, stream.handle));
    GC_OK(gpucollGroupEnd());
    gpucollGraph_t graph = nullptr;
    GC_OK(gpucollStreamEndCapture(stream.handle, &graph));
    for (int round = 0; round < 10; ++round) {
      out.put(message(rank, peer, round, kLarge));
      GC_OK(gpucollMemset(in.at(), 0, kLarge));
      if (round % 3 == 2) {
        GC_OK(gpucollGroupStart());
        GC_OK(send(out, 0, kLarge, peer, comm, stream.handle));
        GC_OK(recv(in, 0, kLarge, peer, comm, stream.handle));
        GC_OK(gpucollGroupEnd());
      } else {
        GC_OK(gpucollGraphLaunch(graph, stream.handle));
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
      ASSERT_EQ(in.get<uint8_t>(kLarge), message(peer, rank, round, kLarge)) << round;
    }
    GC_OK(gpucollGraphDestroy(graph));
  });
}

// The one thing in which the two sides cannot agree: each learns of it, from whichever has waited long enough first.
TEST(CopyFault, OneSideInAGraphEndsInTime) {
  on_ranks_that_destroy(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer buffer(kLarge);
    gpucollGraph_t graph = nullptr;
    if (rank == 0) {
      GC_OK(gpucollStreamBeginCapture(stream.handle));
      GC_OK(send(buffer, 0, kLarge, 1, comm, stream.handle));
      GC_OK(gpucollStreamEndCapture(stream.handle, &graph));
      GC_OK(gpucollGraphLaunch(graph, stream.handle));
    } else {
      GC_OK(recv(buffer, 0, kLarge, 0, comm, stream.handle));
    }
    const gpucollResult_t error = await_error(comm);
    EXPECT_TRUE(error == gpucollRemoteError || error == gpucollTimeout) << error;
    const std::string said = gpucollGetLastError(comm);
    EXPECT_TRUE(said.find("capture") != std::string::npos || said.find("graphs") != std::string::npos) << said;
    GC_OK(gpucollStreamSynchronize(stream.handle));
    if (graph) {
      GC_OK(gpucollGraphDestroy(graph));
    }
    EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
  });
}

TEST(CopyFault, SizesThatDifferAreAnErrorOfBoth) {
  if (!enough_devices(2)) GTEST_SKIP();
  struct Case {
    std::vector<size_t> sent, expected;
    size_t bad;
  };
  for (const Case& c : {Case{{kLarge}, {kLarge + 1}, 0}, Case{{kLarge, 10, kLarge}, {kLarge, 10, 2 * kLarge}, 2},
                        Case{{10, kLarge}, {kLarge, 10}, 0}, Case{{kLarge, 10}, {10, kLarge}, 0},
                        Case{{kLarge, kLarge, 5}, {kLarge, 5, kLarge}, 1}}) {
    gpucollResult_t errors[2] = {gpucollUnsupported, gpucollUnsupported};
    on_ranks_that_destroy(2, [&](gpucollComm_t comm, int rank) {
      Stream stream;
      DeviceBuffer buffer(8 * kLarge);
      for (size_t bytes : rank == 0 ? c.sent : c.expected)
        if ((rank == 0 ? send(buffer, 0, bytes, 1, comm, stream.handle)
                       : recv(buffer, 0, bytes, 0, comm, stream.handle)) != gpucollSuccess)
          break;  // the other side was faster
      errors[rank] = await_error(comm);
      const std::string said = gpucollGetLastError(comm);
      for (size_t bytes : {c.sent[c.bad], c.expected[c.bad]})
        EXPECT_NE(said.find(std::to_string(bytes)), std::string::npos) << said;
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
    });
    expect_sizes_differ(errors);
  }
}

TEST(CopyFault, AbortReleasesMessagesThatAreWaitedFor) {
  expect_abort_releases(2 * kLarge, [](auto& from, auto& to, gpucollComm_t comm, int rank, gpucollStream_t stream) {
    return rank == 0 ? send(from, 0, kLarge, 1, comm, stream) : recv(to, 0, kLarge, 0, comm, stream);
  });
}

void abort_exchanges(Unused unused) {
  constexpr size_t bytes = 40 * kLarge;
  free_after_abort(2, 12, bytes, 6, unused,
                   [](auto& from, auto& to, gpucollComm_t comm, int rank, gpucollStream_t stream) {
                     if (auto started = gpucollGroupStart(); started != gpucollSuccess) return started;
                     if (send(from, 0, bytes, 1 - rank, comm, stream) == gpucollSuccess)
                       recv(to, 0, bytes, 1 - rank, comm, stream);
                     return gpucollGroupEnd();
                   });
}

TEST(CopyFault, BuffersMayBeFreedRightAfterAnAbort) { abort_exchanges(Unused::once_streams_are_done); }

TEST(CopyFault, BuffersMayBeFreedOnceTheCommunicatorIsGone) { abort_exchanges(Unused::once_comm_is_gone); }

TEST(CopyFault, DestroyWaitsForMessages) {
  on_ranks_that_destroy(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer buffer(10 * kLarge);
    if (rank == 0) buffer.put(message(0, 1, 3, 10 * kLarge));
    if (rank == 1) usleep(200000);
    GC_OK(rank == 0 ? send(buffer, 0, 10 * kLarge, 1, comm, stream.handle)
                    : recv(buffer, 0, 10 * kLarge, 0, comm, stream.handle));
    GC_OK(gpucollCommDestroy(comm));
    ASSERT_EQ(buffer.get<uint8_t>(10 * kLarge), message(0, 1, 3, 10 * kLarge));
    GC_OK(gpucollStreamSynchronize(stream.handle));
  });
}
