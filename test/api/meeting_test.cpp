// Making communicators where a rank cannot take part: all ranks return at once, with what it failed for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "../resources.h"
#include "gpucoll/gpucoll.h"

namespace {

using gpucoll_test::become;
using gpucoll_test::limit;
using gpucoll_test::said_in_child;

constexpr int kRanks = 8;
constexpr unsigned kSomebody = 54321;                  // a user of whom there are no other processes
constexpr auto kNeverHang = std::chrono::seconds(30);  // the parameter timeout is 1800 s here

// "fine", or what the call failed for; and whether it took long.
std::string init_all() {
  gpucollComm_t comms[kRanks];
  const auto start = std::chrono::steady_clock::now();
  const gpucollResult_t result = gpucollCommInitAll(comms, kRanks, nullptr);
  const std::string said = result == gpucollSuccess ? "fine" : gpucollGetLastError(nullptr);
  return (std::chrono::steady_clock::now() - start > kNeverHang ? "late: " : "") + said;
}

TEST(Meeting, AGroupWithFewThreadsSaysWhatToRaise) {
  for (rlim_t most : {1, 2, 4, 6, 8}) {
    const std::string said = said_in_child([most] {
      become(kSomebody);
      limit(RLIMIT_NPROC, most);
      return init_all();
    });
    std::printf("%d processes and threads: %s\n", static_cast<int>(most), said.c_str());
    EXPECT_NE(said.find("raise `ulimit -u`"), std::string::npos) << said;
    EXPECT_EQ(said.find("late"), std::string::npos) << said;
  }
}

TEST(Meeting, AGroupWithFewDescriptorsSaysWhatToRaise) {
  for (rlim_t most : {2, 6, 12, 20, 30, 40, 60}) {
    const std::string said = said_in_child([most] {
      gpucollSetDevice(0);
      const int next = dup(0);
      close(next);
      limit(RLIMIT_NOFILE, static_cast<rlim_t>(next) + most);
      return init_all();
    });
    std::printf("%d descriptors: %s\n", static_cast<int>(most), said.c_str());
    EXPECT_TRUE(said == "fine" || said.find("raise `ulimit -n`") != std::string::npos) << said;
    EXPECT_EQ(said.find("late"), std::string::npos) << said;
  }
}

// Two processes of two ranks each: in one the group fails before it begins.
TEST(Meeting, AFailedGroupIsToldToOtherProcesses) {
  int ids[2];
  ASSERT_EQ(pipe(ids), 0);
  const pid_t failing = fork();
  if (failing == 0) {
    gpucollUniqueId id;
    gpucollComm_t comms[2];
    if (read(ids[0], &id, sizeof id) != static_cast<ssize_t>(sizeof id) || gpucollGroupStart() != gpucollSuccess)
      _exit(1);
    gpucollConfig_t bad = GPUCOLL_CONFIG_INITIALIZER;
    bad.splitShare = 7;
    gpucollCommInitRank(&comms[0], 4, id, 2);
    gpucollCommInitRankConfig(&comms[1], 4, id, 3, &bad);
    _exit(gpucollGroupEnd() == gpucollInvalidArgument ? 0 : 2);
  }
  const std::string said = said_in_child([&]() -> std::string {
    gpucollUniqueId id;
    gpucollComm_t comms[2];
    if (gpucollGetUniqueId(&id) != gpucollSuccess) return "no id";
    if (write(ids[1], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) return "no pipe";
    gpucollGroupStart();
    for (int rank = 0; rank < 2; ++rank) gpucollCommInitRank(&comms[rank], 4, id, rank);
    const auto start = std::chrono::steady_clock::now();
    if (gpucollGroupEnd() == gpucollSuccess) return "fine";
    return (std::chrono::steady_clock::now() - start > kNeverHang ? "late: " : "") +
           std::string(gpucollGetLastError(nullptr));
  });
  int status = 0;
  EXPECT_EQ(waitpid(failing, &status, 0), failing);
  EXPECT_EQ(status, 0);
  EXPECT_NE(said.find("splitShare is 7"), std::string::npos) << said;
  EXPECT_NE(said.find("rank 3 of 4"), std::string::npos) << said;
  EXPECT_EQ(said.find("late"), std::string::npos) << said;
}

}  // namespace
