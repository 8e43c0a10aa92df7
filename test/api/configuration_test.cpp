// Shows that communicators have what programs set: limits to its thread blocks, and its name.
#include <climits>
#include <map>
#include <mutex>

#include "ranks.h"

using namespace gpucoll_test;

namespace {

gpucollConfig_t config_of(int min_blocks, int max_blocks, const char* name = nullptr) {
  gpucollConfig_t config = GPUCOLL_CONFIG_INITIALIZER;
  config.minCTAs = min_blocks;
  config.maxCTAs = max_blocks;
  config.commName = name;
  return config;
}
constexpr int kUnset = GPUCOLL_CONFIG_UNDEF_INT;

// Runs body(comm, rank) on two ranks, each with a configuration of its own, and returns what was logged meanwhile.
std::string logged_on(const std::vector<gpucollConfig_t>& configs,
                      const std::function<void(gpucollComm_t, int)>& body) {
  const int n = static_cast<int>(configs.size());
  gpucollUniqueId id;
  EXPECT_EQ(gpucollSuccess, gpucollGetUniqueId(&id));
  testing::internal::CaptureStderr();
  on_threads(n, [&](int rank) {
    choose_device(rank);
    gpucollComm_t comm = nullptr;
    GC_OK(gpucollCommInitRankConfig(&comm, n, id, rank, &configs[static_cast<size_t>(rank)]));
    body(comm, rank);
    GC_OK(gpucollCommDestroy(comm));
  });
  return testing::internal::GetCapturedStderr();
}

void expect_all_reduces(gpucollComm_t comm, int n, size_t count) {
  int rank = -1;
  GC_OK(gpucollCommUserRank(comm, &rank));
  Stream stream;
  DeviceBuffer buffer(count * sizeof(int32_t));
  std::vector<int32_t> mine(count);
  for (size_t i = 0; i < count; ++i) mine[i] = value(rank, i);
  buffer.put(mine);
  GC_OK(gpucollAllReduce(buffer.at(), buffer.at(), count, gpucollInt32, gpucollSum, comm, stream.handle));
  GC_OK(gpucollStreamSynchronize(stream.handle));
  const auto result = buffer.get<int32_t>(count);
  for (size_t i = 0; i < count; ++i) {
    int32_t sum = 0;
    for (int r = 0; r < n; ++r) sum += value(r, i);
    ASSERT_EQ(result[i], sum) << "at " << i << " of " << count;
  }
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Channels that a communicator of these configurations has, as the log says.
std::string log_of_large_reduction(const std::vector<gpucollConfig_t>& configs) {
  return logged_on(
      configs, [&](gpucollComm_t comm, int) { expect_all_reduces(comm, static_cast<int>(configs.size()), 50'000); });
}

}  // namespace

TEST(Configuration, TheNarrowestLimitCountsOnAllRanks) {
  const std::string log = log_of_large_reduction({config_of(kUnset, 5), config_of(kUnset, 3)});
  EXPECT_TRUE(says(log, "rank 0 of 2") && says(log, ": 3 channels of")) << log;
  EXPECT_FALSE(says(log, ": 5 channels of") || says(log, ": 6 channels of")) << log;
}

TEST(Configuration, AskingForMoreBlocksGivesMoreChannels) {
  const std::string log = log_of_large_reduction({config_of(9, kUnset), config_of(kUnset, kUnset)});
  EXPECT_TRUE(says(log, ": 9 channels of")) << log;
  const std::string contradictory = log_of_large_reduction({config_of(9, kUnset), config_of(kUnset, 4)});
  EXPECT_TRUE(says(contradictory, ": 4 channels of")) << contradictory;
  const std::string unlimited = log_of_large_reduction({config_of(1, INT_MAX), config_of(kUnset, kUnset)});
  EXPECT_TRUE(says(unlimited, ": 6 channels of")) << unlimited;
}

TEST(Configuration, OneBlockIsEnoughForAll) {
  logged_on({config_of(1, 1), config_of(1, 1), config_of(kUnset, 1)}, [](gpucollComm_t comm, int rank) {
    for (size_t count : {1, 5, 300, 5'000, 100'000, 600'000}) expect_all_reduces(comm, 3, count);
    Stream stream;
    constexpr size_t kCount = 30'000;
    DeviceBuffer in(3 * kCount), out(3 * kCount);
    in.put(std::vector<int8_t>(3 * kCount, static_cast<int8_t>(rank + 1)));
    GC_OK(gpucollAlltoAll(in.at(), in.at(), kCount, gpucollInt8, comm, stream.handle));  // in place: by packing
    GC_OK(gpucollAllGather(in.at(), out.at(), kCount, gpucollInt8, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    const auto exchanged = in.get<int8_t>(3 * kCount), gathered = out.get<int8_t>(3 * kCount);
    for (size_t i = 0; i < 3 * kCount; ++i) {
      ASSERT_EQ(exchanged[i], static_cast<int8_t>(i / kCount + 1)) << i;
      ASSERT_EQ(gathered[i], 1) << i;  // each rank's first part came from rank 0
    }
  });
}

TEST(Configuration, WhatMakesNoSenseIsRefused) {
  const auto refused = [](const gpucollConfig_t& config) -> std::string {
    gpucollUniqueId id;
    gpucollComm_t comm = nullptr;
    EXPECT_EQ(gpucollGetUniqueId(&id), gpucollSuccess);
    EXPECT_EQ(gpucollCommInitRankConfig(&comm, 1, id, 0, &config), gpucollInvalidArgument);
    EXPECT_EQ(comm, nullptr);
    return gpucollGetLastError(nullptr);
  };
  EXPECT_EQ(refused(config_of(0, 4)), "minCTAs is 0: it must be 1 or more");
  EXPECT_EQ(refused(config_of(2, -3)), "maxCTAs is -3: it must be 1 or more");
  EXPECT_EQ(refused(config_of(5, 4)), "minCTAs is 5, which is more than maxCTAs, 4");
  gpucollConfig_t config = GPUCOLL_CONFIG_INITIALIZER;
  config.size = 16;
  EXPECT_TRUE(says(refused(config), "GPUCOLL_CONFIG_INITIALIZER"));
  config.size = sizeof config + 8;
  EXPECT_TRUE(says(refused(config), "GPUCOLL_CONFIG_INITIALIZER"));
}

// The first version ended behind splitShare.
TEST(Configuration, IsReadAsFarAsTheProgramKnowsIt) {
  gpucollConfig_t config = config_of(-1, -1, reinterpret_cast<const char*>(1));
  config.size = 24;
  config.splitShare = 1;
  gpucollUniqueId id;
  gpucollComm_t comm = nullptr;
  GC_OK(gpucollGetUniqueId(&id));
  GC_OK(gpucollCommInitRankConfig(&comm, 1, id, 0, &config));
  GC_OK(gpucollCommDestroy(comm));
}

TEST(Configuration, ErrorsTellTheNameOfTheCommunicator) {
  const std::string log = logged_on(
      {config_of(kUnset, kUnset, "left"), config_of(kUnset, kUnset, "right")}, [](gpucollComm_t comm, int rank) {
        gpucollComm_t child = nullptr, other = nullptr;
        GC_OK(gpucollCommSplit(comm, 0, rank, &child));
        const gpucollConfig_t config = config_of(kUnset, kUnset, "other");
        GC_OK(gpucollCommSplitConfig(comm, 0, rank, &other, &config));
        if (rank == 1) {
          GC_OK(gpucollCommAbort(child));
          GC_OK(gpucollCommAbort(other));
          return;
        }
        EXPECT_EQ(await_error(child), gpucollRemoteError);
        EXPECT_TRUE(std::string(gpucollGetLastError(child)).starts_with("communicator left: rank 1 (process "))
            << gpucollGetLastError(child);
        EXPECT_EQ(await_error(other), gpucollRemoteError);
        EXPECT_TRUE(std::string(gpucollGetLastError(other)).starts_with("communicator other: rank 1"))
            << gpucollGetLastError(other);
        gpucollCommDestroy(child);
        gpucollCommDestroy(other);
      });
}

TEST(Configuration, ErrorsOfTheMakingTellTheName) {
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  on_threads(2, [&](int rank) {
    choose_device(rank);
    const gpucollConfig_t config = config_of(kUnset, kUnset, "pair");
    gpucollComm_t comm = nullptr;
    EXPECT_EQ(gpucollCommInitRankConfig(&comm, 2 + rank, id, rank, &config), gpucollInvalidUsage);
    EXPECT_TRUE(std::string(gpucollGetLastError(nullptr)).starts_with("communicator pair: "))
        << gpucollGetLastError(nullptr);
  });
}

// A split has its parent's limits, unless it sets its own; then it cannot share.
TEST(Configuration, SplitsHaveTheLimitsOfTheirParent) {
  gpucollConfig_t config = config_of(kUnset, 3);
  config.splitShare = 1;
  const std::string log = logged_on({config, config}, [](gpucollComm_t comm, int rank) {
    gpucollComm_t child = nullptr, wide = nullptr;
    gpucollConfig_t wider = config_of(7, kUnset);
    GC_OK(gpucollCommSplit(comm, 0, rank, &child));
    GC_OK(gpucollCommSplitConfig(comm, 0, rank, &wide, &wider));
    expect_all_reduces(child, 2, 50'000);
    expect_all_reduces(wide, 2, 50'000);
    GC_OK(gpucollCommDestroy(child));
    GC_OK(gpucollCommDestroy(wide));
  });
  EXPECT_TRUE(says(log, ": 3 channels of") && says(log, ": 7 channels of")) << log;
}
