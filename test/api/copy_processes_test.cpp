// Large messages between ranks that are processes: over memory that is really opened, and with a peer that dies.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "copies.h"
#include "process_ranks.h"

using namespace gpucoll_test;

TEST(CopyProcesses, ExchangeEverySize) {
  for (int status : on_processes(3, [](gpucollComm_t comm, int rank) {
         Stream stream;
         for (int round = 0; round < 8; ++round) exchange(comm, rank, 3, round, stream.handle);
         EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(comm));
       }))
    EXPECT_EQ(status, 0);
}

TEST(CopyProcesses, SeeMemoryThatWasAllocatedAnew) {
  for (int status : on_processes(2, [](gpucollComm_t comm, int rank) {
         Stream stream;
         for (int round = 0; round < 500; ++round) {
           const size_t bytes = kLarge + static_cast<size_t>(round % 3) * 5000;
           // On a GPU small allocations share a block of memory, others have one of their own.
           DeviceBuffer buffer(round % 2 == 0 ? bytes : bytes + (size_t{2} << 20));
           if (rank == 0) buffer.put(message(0, 1, round, bytes));
           GC_OK(rank == 0 ? send(buffer, 0, bytes, 1, comm, stream.handle)
                           : recv(buffer, 0, bytes, 0, comm, stream.handle));
           GC_OK(gpucollStreamSynchronize(stream.handle));
           ASSERT_EQ(buffer.get<uint8_t>(bytes), message(0, 1, round, bytes)) << round;
         }
         EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(comm));
       }))
    EXPECT_EQ(status, 0);
}

TEST(CopyProcesses, LearnOfTheDeathOfTheirPeer) {
  for (int dies : {0, 1}) {
    const auto statuses = on_processes(2, [dies](gpucollComm_t comm, int rank) {
      Stream stream;
      DeviceBuffer buffer(kLarge);
      for (int i = 0; i < 2; ++i) {
        GC_OK(rank == 0 ? send(buffer, 0, kLarge, 1, comm, stream.handle)
                        : recv(buffer, 0, kLarge, 0, comm, stream.handle));
        GC_OK(gpucollStreamSynchronize(stream.handle));
      }
      if (rank == dies) _exit(0);
      GC_OK(rank == 0 ? send(buffer, 0, kLarge, 1, comm, stream.handle)
                      : recv(buffer, 0, kLarge, 0, comm, stream.handle));
      EXPECT_EQ(await_error(comm), gpucollRemoteError);
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
    });
    for (int status : statuses) EXPECT_EQ(status, 0);
  }
}

// Frees memory while messages of every kind that copy engines could carry are under way, one after another. With the
// parameter emu_exclusive that waits for the streams, as on GPUs, and nobody can start a copy meanwhile.
TEST(CopyProcesses, LetMemoryBeFreedWhileTheyAreUnderWay) {
  // Of a message: more than copy_engine_bytes is for MPI by itself.
  const char* const device = std::getenv("GPUCOLL_DEVICE");
  static const size_t kBytes = (size_t{device && std::string(device) == "cuda" ? 40u : 1u} << 20) + 4004;
  for (int status : on_processes(2, [](gpucollComm_t comm, int rank) {
         Stream stream;
         const int peer = 1 - rank;
         for (int round = 0; round < 10; ++round) {
           DeviceBuffer mine(kBytes), all(2 * kBytes), theirs(kBytes);
           std::optional<DeviceBuffer> other(100);
           mine.put(message(rank, peer, round, kBytes));
           GC_OK(gpucollAllGather(mine.at(), all.at(), kBytes, gpucollUint8, comm, stream.handle));
           GC_OK(gpucollGroupStart());
           GC_OK(send(mine, 0, kBytes, peer, comm, stream.handle));
           GC_OK(recv(theirs, 0, kBytes, peer, comm, stream.handle));
           GC_OK(gpucollGroupEnd());
           other.reset();
           GC_OK(gpucollStreamSynchronize(stream.handle));
           std::vector<uint8_t> both = message(0, 1, round, kBytes);
           const std::vector<uint8_t> second = message(1, 0, round, kBytes);
           EXPECT_TRUE(theirs.get<uint8_t>(kBytes) == (rank == 0 ? second : both)) << round;
           both.insert(both.end(), second.begin(), second.end());
           EXPECT_TRUE(all.get<uint8_t>(2 * kBytes) == both) << round;
         }
         EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(comm));
       }))
    EXPECT_EQ(status, 0);
}

// On two communicators, where a free keeps the host from starting copies: all streams and calls end nevertheless.
TEST(CopyProcesses, EndWhereAFreeKeepsThemOut) {
  if (!std::getenv("GPUCOLL_EMU_EXCLUSIVE")) GTEST_SKIP() << "frees do not wait";
  constexpr int kRounds = 50;
  for (int status : on_processes(2, [](gpucollComm_t comm, int rank) {
         gpucollComm_t comms[] = {comm, nullptr};
         GC_OK(gpucollCommSplit(comm, 0, rank, &comms[1]));
         Stream streams[2];
         DeviceBuffer mine(kLarge), theirs(2 * kLarge);
         const auto has_failed = [](gpucollComm_t c) {
           gpucollResult_t error = gpucollSuccess;
           EXPECT_EQ(gpucollSuccess, gpucollCommGetAsyncError(c, &error));
           return error != gpucollSuccess;
         };
         for (int round = 0; round < kRounds && !has_failed(comms[0]) && !has_failed(comms[1]); ++round) {
           std::optional<DeviceBuffer> other(100);
           for (size_t i = 0; i < 2; ++i) {
             gpucollGroupStart();
             send(mine, 0, kLarge, 1 - rank, comms[i], streams[i].handle);
             recv(theirs, i * kLarge, kLarge, 1 - rank, comms[i], streams[i].handle);
             gpucollGroupEnd();
           }
           other.reset();
           for (const Stream& stream : streams) GC_OK(gpucollStreamSynchronize(stream.handle));
         }
         EXPECT_TRUE(has_failed(comms[0]) || has_failed(comms[1]));
         for (gpucollComm_t each : comms) gpucollCommDestroy(each);
       }))
    EXPECT_EQ(status, 0);
}

// Many calls at once, of which one rank makes its own late; then one dies while the others are in the middle.
TEST(CopyProcesses, ReduceWhateverTheOthersDo) {
  constexpr int kRanks = 3, kCalls = 20;
  constexpr size_t kCount = 30011;
  for (int dies = 0; dies < kRanks; ++dies) {
    const auto statuses = on_processes(kRanks, [dies](gpucollComm_t comm, int rank) {
      Stream stream;
      DeviceBuffer in(kCount * sizeof(int)), out(kCalls * kCount * sizeof(int));
      std::vector<int> values(kCount);
      for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int>(i) * (rank + 1);
      in.put(values);
      const auto reduce = [&](int call) {
        return gpucollAllReduce(in.at(), out.at(static_cast<size_t>(call) * kCount * sizeof(int)), kCount, gpucollInt32,
                                gpucollSum, comm, stream.handle);
      };
      for (int call = 0; call < kCalls; ++call) {
        if (rank == dies && call % 7 == 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        GC_OK(reduce(call));
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
      for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int>(i) * (kRanks * (kRanks + 1) / 2);
      for (size_t call = 0; call < kCalls; ++call)
        ASSERT_EQ(out.get<int>(kCount, call * kCount * sizeof(int)), values) << call;
      if (rank == dies) _exit(0);
      reduce(0);  // where the death is known already, it tells
      EXPECT_EQ(await_error(comm), gpucollRemoteError);
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
    });
    EXPECT_EQ(statuses, std::vector<int>(kRanks, 0));
  }
}
