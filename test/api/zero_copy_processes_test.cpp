// Reductions on the buffers of ranks that are processes: buffers that come again are opened by the others, such as are
// freed and allocated anew are not taken for those that were there before.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "process_ranks.h"

using namespace gpucoll_test;

namespace {

constexpr int kRanks = 3;
constexpr size_t kCount = 12000;  // floats of a rank's part: whole packs
constexpr int kRounds = 12;

float value(int rank, size_t i, int round) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank * 1000 + round * 31)) % 4096);
}
std::vector<float> part(int rank, int round, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value(rank, i, round);
  return values;
}
std::vector<float> sum(int round, size_t first, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    for (int r = 0; r < kRanks; ++r) values[i] += value(r, first + i, round);
  return values;
}

struct Rank {
  gpucollComm_t comm;
  int rank;
  Stream stream;

  void synchronize() { GC_OK(gpucollStreamSynchronize(stream.handle)); }
  void all_reduce(DeviceBuffer& in, DeviceBuffer& out, int round, size_t count, size_t offset = 0) {
    in.put(part(rank, round, count), offset);
    GC_OK(gpucollAllReduce(in.at(offset), out.at(offset), count, gpucollFloat32, gpucollSum, comm, stream.handle));
    synchronize();
    ASSERT_EQ(out.get<float>(count, offset), sum(round, 0, count)) << round;
  }
  void reduce(DeviceBuffer& in, DeviceBuffer& out, int round) {
    const int root = round % kRanks;
    in.put(part(rank, round, kCount));
    GC_OK(gpucollReduce(in.at(), rank == root ? out.at() : nullptr, kCount, gpucollFloat32, gpucollSum, root, comm,
                        stream.handle));
    synchronize();
    if (rank == root) {
      ASSERT_EQ(out.get<float>(kCount), sum(round, 0, kCount)) << round;
    }
  }
  void reduce_scatter(DeviceBuffer& in, DeviceBuffer& out, int round) {
    in.put(part(rank, round, kRanks * kCount));
    GC_OK(gpucollReduceScatter(in.at(), out.at(), kCount, gpucollFloat32, gpucollSum, comm, stream.handle));
    synchronize();
    ASSERT_EQ(out.get<float>(kCount), sum(round, static_cast<size_t>(rank) * kCount, kCount)) << round;
  }
};

// calls: of which the last ones work on all ranks' buffers.
template <class Calls>
void expect_that_all_reach(const Calls& calls) {
  testing::internal::CaptureStderr();
  calls();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("has buffers that all others reach"), std::string::npos) << told;
}

template <class Body>
void on_ranks(const Body& body) {
  const auto statuses = on_processes(kRanks, [&](gpucollComm_t comm, int rank) {
    {
      Rank self{comm, rank, {}};
      body(self);
    }
    GC_OK(gpucollCommDestroy(comm));
  });
  EXPECT_EQ(statuses, std::vector<int>(kRanks, 0));
}

}  // namespace

// Each by itself: one tells of buffers that are reached, once for a communicator.
TEST(ZeroCopyProcesses, BuffersThatComeAgain) {
  const auto come_again = [](const std::function<void(Rank&, DeviceBuffer&, DeviceBuffer&, int)>& call) {
    on_ranks([&](Rank& self) {
      DeviceBuffer in(kRanks * kCount * sizeof(float)), out(kCount * sizeof(float));
      expect_that_all_reach([&] {
        for (int round = 0; round < kRounds; ++round) call(self, in, out, round);
      });
    });
  };
  using Buffer = DeviceBuffer;
  come_again([](Rank& self, Buffer& in, Buffer& out, int round) { self.all_reduce(in, out, round, kCount); });
  come_again([](Rank& self, Buffer& in, Buffer& out, int round) { self.reduce(in, out, round); });
  come_again([](Rank& self, Buffer& in, Buffer& out, int round) { self.reduce_scatter(in, out, round); });
  come_again([](Rank& self, Buffer& in, Buffer&, int round) { self.all_reduce(in, in, round, kCount - 1); });
  come_again([](Rank& self, Buffer& in, Buffer& out, int round) {
    self.all_reduce(in, out, round, kCount);
    self.reduce(in, out, round);
    self.reduce_scatter(in, out, round);
    self.all_reduce(in, in, round, kCount - 1);
  });
}

// At one rank, misaligned, or another buffer each time: all ranks do without then.
TEST(ZeroCopyProcesses, OneRankCannot) {
  on_ranks([](Rank& self) {
    DeviceBuffer in(kCount * sizeof(float)), out(kCount * sizeof(float));
    for (int round = 0; round < kRounds; ++round) {
      self.all_reduce(in, out, round, kCount - 9, self.rank == round % (kRanks + 1) ? 4 : 0);
      if (self.rank != 1) {
        self.all_reduce(in, out, round, kCount);
      } else {
        DeviceBuffer fresh(kCount * sizeof(float));
        self.all_reduce(fresh, out, round, kCount);
      }
    }
  });
}

TEST(ZeroCopyProcesses, FreedAndAllocatedAnew) {
  on_ranks([](Rank& self) {
    for (int life = 0; life < 8; ++life) {
      DeviceBuffer in(kCount * sizeof(float)), out((kCount + static_cast<size_t>(life % 2) * 50000) * sizeof(float));
      for (int round = 0; round < 6; ++round) self.all_reduce(in, out, life * 10 + round, kCount);
    }
  });
}

constexpr size_t kSmall = 6000, kKnown = 64;
using Buffers = std::vector<std::unique_ptr<DeviceBuffer>>;
Buffers make_buffers(size_t n) {
  Buffers buffers;
  for (size_t i = 0; i < n; ++i) buffers.push_back(std::make_unique<DeviceBuffer>(kSmall * sizeof(float)));
  return buffers;
}

// Those that have not been used for long are forgotten, and known again when they come again.
TEST(ZeroCopyProcesses, MoreBuffersThanOthersCanKnow) {
  on_ranks([](Rank& self) {
    const Buffers buffers = make_buffers(kKnown + 30);
    testing::internal::CaptureStderr();
    for (int again = 0; again < 2; ++again)
      for (auto& buffer : buffers)
        for (int round = 0; round < 5; ++round) self.all_reduce(*buffer, *buffer, round, kSmall);
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("lets its peers forget memory"), std::string::npos) << told;
  });
}

// One rank comes late: the others have launched their part with buffers that it knows, and gone on to so many others
// that these would be forgotten, if what is under way could be.
TEST(ZeroCopyProcesses, MoreBuffersUnderWayThanOthersCanKnow) {
  on_ranks([](Rank& self) {
    const Buffers buffers = make_buffers(3 * kKnown);
    for (size_t i = 0; i < kKnown; ++i)
      for (int round = 0; round < 4; ++round) self.all_reduce(*buffers[i], *buffers[i], round, kSmall);
    for (auto& buffer : buffers) buffer->put(part(self.rank, 0, kSmall));
    if (self.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (size_t i = 0; i < buffers.size(); ++i)
      for (size_t times = 0; times < (i < kKnown ? 1 : 2); ++times)
        GC_OK(gpucollAllReduce(buffers[i]->at(), buffers[i]->at(), kSmall, gpucollFloat32, gpucollSum, self.comm,
                               self.stream.handle));
    self.synchronize();
    for (size_t i = 0; i < buffers.size(); ++i) {
      std::vector<float> wanted = sum(0, 0, kSmall);
      for (float& value : wanted) value *= i < kKnown ? 1 : kRanks;
      ASSERT_EQ(buffers[i]->get<float>(kSmall), wanted) << i;
    }
  });
}

// Registered memory keeps its place, also where the program has used other memory that took all; beyond the places
// there are, a program is told once.
TEST(ZeroCopyProcesses, MoreRegisteredThanOthersCanKnow) {
  on_ranks([](Rank& self) {
    constexpr size_t kBuffers = kKnown + 6;
    const Buffers used = make_buffers(kBuffers), registered = make_buffers(kBuffers);
    std::vector<void*> handles(kBuffers);
    for (size_t i = 0; i < kBuffers; ++i) {
      for (int round = 0; round < 3; ++round) self.all_reduce(*used[i], *used[i], round, kSmall);
    }
    testing::internal::CaptureStderr();
    for (size_t i = 0; i < kBuffers; ++i) GC_OK(gpucollCommRegister(self.comm, registered[i]->at(), 1, &handles[i]));
    const std::string told = testing::internal::GetCapturedStderr();
    const size_t first = told.find("has registered as many allocations as others can store into, 64");
    EXPECT_NE(first, std::string::npos) << told;
    EXPECT_EQ(told.find("has registered as many", first + 1), std::string::npos) << told;
    for (size_t i = 0; i < kBuffers; ++i)
      for (int round = 0; round < 3; ++round) self.all_reduce(*registered[i], *used[i], round, kSmall);
    for (void* handle : handles) GC_OK(gpucollCommDeregister(self.comm, handle));
    for (size_t i = 0; i < kBuffers; ++i)
      for (int round = 0; round < 3; ++round) self.all_reduce(*registered[i], *used[i], round, kSmall);
  });
}

// In the middle of what the others do with its buffers, or of what it does with theirs.
TEST(ZeroCopyProcesses, LearnOfTheDeathOfAPeer) {
  for (int dies = 0; dies < kRanks; ++dies) {
    const auto statuses = on_processes(kRanks, [dies](gpucollComm_t comm, int rank) {
      Rank self{comm, rank, {}};
      DeviceBuffer in(kCount * sizeof(float)), out(kCount * sizeof(float));
      expect_that_all_reach([&] {
        for (int round = 0; round < kRounds; ++round) self.all_reduce(in, out, round, kCount);
      });
      if (rank == dies)
        std::thread([rank] {
          std::this_thread::sleep_for(std::chrono::milliseconds(5 + 3 * rank));
          _exit(0);
        }).detach();
      gpucollResult_t error = gpucollSuccess;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
      while (error == gpucollSuccess && std::chrono::steady_clock::now() < end) {
        const gpucollResult_t called =
            gpucollAllReduce(in.at(), out.at(), kCount, gpucollFloat32, gpucollSum, comm, self.stream.handle);
        EXPECT_TRUE(called == gpucollSuccess || called == gpucollRemoteError) << called;
        self.synchronize();
        GC_OK(gpucollCommGetAsyncError(comm, &error));
      }
      EXPECT_EQ(error, gpucollRemoteError);
      EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
    });
    EXPECT_EQ(statuses, std::vector<int>(kRanks, 0));
  }
}
