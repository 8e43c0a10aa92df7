// Memory that programs register, and messages when no more of it can be made known to others.
#include <gtest/gtest.h>

#include <memory>

#include "copies.h"

using namespace gpucoll_test;

TEST(Register, TakesMemoryAsOftenAsItLikes) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer buffer(4 * kLarge);
    void *whole = nullptr, *part = nullptr, *again = nullptr;
    GC_OK(gpucollCommRegister(comm, buffer.at(), 4 * kLarge, &whole));
    GC_OK(gpucollCommRegister(comm, buffer.at(kLarge), kLarge, &part));
    GC_OK(gpucollCommRegister(comm, buffer.at(), 4 * kLarge, &again));
    EXPECT_NE(whole, part);
    EXPECT_NE(whole, again);
    GC_OK(gpucollCommDeregister(comm, whole));
    buffer.put(message(rank, 1, 0, 2 * kLarge), kLarge);
    GC_OK(rank == 0 ? send(buffer, kLarge, 2 * kLarge, 1, comm, stream.handle)
                    : recv(buffer, kLarge, 2 * kLarge, 0, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    EXPECT_EQ(buffer.get<uint8_t>(2 * kLarge, kLarge), message(0, 1, 0, 2 * kLarge));
    GC_OK(gpucollCommDeregister(comm, again));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommDeregister(comm, again));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommDeregister(comm, nullptr));
    // `part` is left to the communicator's end.
  });
}

TEST(Register, RefusesWhatHasNoMeaning) {
  on_ranks(1, [](gpucollComm_t comm, int) {
    DeviceBuffer buffer(1000);
    void* handle = nullptr;
    int on_stack = 0;
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommRegister(nullptr, buffer.at(), 1000, &handle));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommRegister(comm, nullptr, 1000, &handle));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommRegister(comm, buffer.at(), 0, &handle));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommRegister(comm, buffer.at(), 1 << 20 << 10, &handle));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommRegister(comm, &on_stack, sizeof on_stack, &handle));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommRegister(comm, buffer.at(), 1000, nullptr));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommDeregister(nullptr, handle));
    EXPECT_EQ(gpucollInvalidArgument, gpucollMemAlloc(nullptr, 10));
    EXPECT_EQ(gpucollInvalidArgument, gpucollMemFree(&on_stack));
    EXPECT_EQ(handle, nullptr);
  });
}

TEST(Register, LetsMemoryBeFreedFirst) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    for (int round = 0; round < 300; ++round) {  // more than can be known at a time
      void* handle = nullptr;
      auto buffer = std::make_unique<DeviceBuffer>(kLarge);
      GC_OK(gpucollCommRegister(comm, buffer->at(), kLarge, &handle));
      if (round % 50 == 0) {
        buffer->put(message(rank, 1, round, kLarge));
        GC_OK(rank == 0 ? send(*buffer, 0, kLarge, 1, comm, stream.handle)
                        : recv(*buffer, 0, kLarge, 0, comm, stream.handle));
        GC_OK(gpucollStreamSynchronize(stream.handle));
        EXPECT_EQ(buffer->get<uint8_t>(kLarge), message(0, 1, round, kLarge));
      }
      buffer.reset();
      GC_OK(gpucollCommDeregister(comm, handle));
    }
  });
}

TEST(Register, GivesMemoryForIt) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    void *memory = nullptr, *handle = nullptr;
    GC_OK(gpucollMemAlloc(&memory, 4000));
    GC_OK(gpucollCommRegister(comm, memory, 4000, &handle));
    const std::vector<int> mine(1000, rank + 1);
    GC_OK(gpucollMemcpy(memory, mine.data(), 4000));
    GC_OK(gpucollAllReduce(memory, memory, 1000, gpucollInt32, gpucollSum, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    std::vector<int> sum(1000);
    GC_OK(gpucollMemcpy(sum.data(), memory, 4000));
    EXPECT_EQ(sum, std::vector<int>(1000, 3));
    GC_OK(gpucollCommDeregister(comm, handle));
    GC_OK(gpucollMemFree(memory));
    GC_OK(gpucollMemFree(nullptr));
    GC_OK(gpucollMemAlloc(&memory, 0));
    EXPECT_EQ(memory, nullptr);
  });
}

// All that can be known to others is registered: messages into other memory take the long way, among those that do not.
TEST(Register, LeavesAWayToMemoryThatOthersCannotOpen) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    constexpr int most = 300;
    std::vector<std::unique_ptr<DeviceBuffer>> known;
    for (int i = 0; i < most; ++i) {
      void* handle = nullptr;
      known.push_back(std::make_unique<DeviceBuffer>(i == 0 ? 2 * kLarge : 16));
      GC_OK(gpucollCommRegister(comm, known.back()->at(), 16, &handle));
    }
    Stream stream;
    const size_t sizes[] = {kLarge, 2500003, 3 * kLarge, 1 << 20, 60000};  // some of several pieces
    DeviceBuffer out(2500003), in(2500003);
    for (int round = 0; round < 4; ++round) {
      for (size_t bytes : sizes) {
        // One to unknown memory, one to known memory, in this order and in the other one.
        GC_OK(gpucollMemset(in.at(), 0, 2500003));
        out.put(message(rank, 0, round, bytes));
        GC_OK(gpucollGroupStart());
        GC_OK(recv(in, 0, bytes, 1 - rank, comm, stream.handle));
        GC_OK(send(out, 0, bytes, 1 - rank, comm, stream.handle));
        GC_OK(send(out, 0, 60000, 1 - rank, comm, stream.handle));
        GC_OK(recv(*known[0], 0, 60000, 1 - rank, comm, stream.handle));
        GC_OK(send(out, 0, 60000, 1 - rank, comm, stream.handle));
        GC_OK(recv(*known[0], 60000, 60000, 1 - rank, comm, stream.handle));
        GC_OK(gpucollGroupEnd());
        GC_OK(gpucollStreamSynchronize(stream.handle));
        ASSERT_EQ(in.get<uint8_t>(bytes), message(1 - rank, 0, round, bytes)) << bytes;
        for (size_t place : {0, 60000})
          ASSERT_EQ(known[0]->get<uint8_t>(60000, place), message(1 - rank, 0, round, 60000)) << bytes;
      }
    }
    // Many of them under way at once.
    for (int i = 0; i < 40; ++i)
      GC_OK(rank == 0 ? send(out, static_cast<size_t>(i) * 60000, 60000, 1, comm, stream.handle)
                      : recv(in, static_cast<size_t>(i) * 60000, 60000, 0, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    if (rank == 1) {
      EXPECT_EQ(in.get<uint8_t>(60000), message(0, 0, 3, 60000));
    }
  });
}
