// A program that allocates, calls and frees, again and again: nothing of what the library opens, exports and remembers
// of such memory piles up, at the rank itself or at the others.
#include <gtest/gtest.h>

#include <cstdlib>

#include "../resources.h"
#include "process_ranks.h"

using namespace gpucoll_test;

namespace {

constexpr int kRanks = 3;
// Bytes, by the parameters that the test runs with: messages by copy engine, reductions by copies, zero-copy, and
// direct stores.
constexpr size_t kMessage = 51 << 10, kReduction = 201 << 10, kZeroCopy = 24 << 10, kDirect = 30 << 10;

// The emulated device has memory of one place and one size open once, however often it is opened: no two are alike.
size_t more(size_t i) { return i % 5000 * 16; }

int rounds() {
  const char* text = std::getenv("GPUCOLL_TEST_ROUNDS");
  return text ? std::atoi(text) : 10000;
}

struct Rank {
  gpucollComm_t comm;
  int rank;
  Stream stream;

  void done(gpucollResult_t called) {
    GC_OK(called);
    GC_OK(gpucollStreamSynchronize(stream.handle));
  }
  // Each ends with its memory freed.
  void shift(size_t i) {
    DeviceBuffer out(kMessage + more(i)), in(kMessage + more(i + 1));
    GC_OK(gpucollGroupStart());
    GC_OK(gpucollSend(out.at(), kMessage, gpucollInt8, (rank + 1) % kRanks, comm, stream.handle));
    GC_OK(gpucollRecv(in.at(), kMessage, gpucollInt8, (rank + 2) % kRanks, comm, stream.handle));
    done(gpucollGroupEnd());
  }
  void all_gather(size_t i) {
    DeviceBuffer out(kMessage + more(i)), in(kRanks * kMessage + more(i));
    done(gpucollAllGather(out.at(), in.at(), kMessage, gpucollInt8, comm, stream.handle));
  }
  // Opened by the others when it comes again.
  void all_reduce(size_t i, size_t bytes, int times) {
    DeviceBuffer out(bytes + more(i)), in(bytes + more(i));
    for (int time = 0; time < times; ++time)
      done(gpucollAllReduce(out.at(), in.at(), bytes / 4, gpucollFloat32, gpucollSum, comm, stream.handle));
  }
  void broadcast_registered(size_t i) {
    DeviceBuffer buffer(kDirect + more(i));
    void* handle = nullptr;
    GC_OK(gpucollCommRegister(comm, buffer.at(), kDirect, &handle));
    for (int time = 0; time < 2; ++time)
      done(gpucollBroadcast(buffer.at(), buffer.at(), kDirect, gpucollInt8, 0, comm, stream.handle));
    GC_OK(gpucollCommDeregister(comm, handle));
  }
  void round(int number) {
    const auto i = static_cast<size_t>(number);
    switch (number % 5) {
      case 0: return shift(i);
      case 1: return all_gather(i);
      case 2: return all_reduce(i, kReduction, 1);
      case 3: return all_reduce(i, kZeroCopy, 4);
      default: return broadcast_registered(i);
    }
  }
  // Until no rank has anything under way; what is freed is noticed ten times a second.
  void rest() {
    for (int i = 0; i < 5; ++i) {
      usleep(100000);
      done(gpucollBarrier(comm, stream.handle));
    }
  }
};

struct Resources {
  int descriptors = open_descriptors(), maps = mappings();
  long resident = resident_kib();
};

}  // namespace

TEST(LeakProcesses, AllocateCallFree) {
  const auto statuses = on_processes(kRanks, [](gpucollComm_t comm, int rank) {
    {
      Rank self{comm, rank, {}};
      testing::internal::CaptureStderr();
      for (int i = 0; i < rounds() / 5 && !testing::Test::HasFailure(); ++i) self.round(i);
      const std::string told = testing::internal::GetCapturedStderr();
      EXPECT_NE(told.find("has buffers that all others reach"), std::string::npos) << "nothing to forget";
      self.rest();
      const Resources before;
      for (int i = 0; i < rounds() && !testing::Test::HasFailure(); ++i) self.round(i);
      self.rest();
      const Resources after;
      EXPECT_LE(after.descriptors, before.descriptors + 8);
      EXPECT_LE(after.maps, before.maps + 50);
      EXPECT_LE(after.resident, before.resident + kMostMoreKib);
      std::printf("rank %d: %d to %d descriptors, %d to %d mappings, %ld to %ld KiB\n", rank, before.descriptors,
                  after.descriptors, before.maps, after.maps, before.resident, after.resident);
      std::fflush(stdout);
    }
    GC_OK(gpucollCommDestroy(comm));
  });
  EXPECT_EQ(statuses, std::vector<int>(kRanks, 0));
}
