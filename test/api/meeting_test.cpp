// Making communicators where a rank cannot take part: all ranks return at once, with what it failed for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "../resources.h"
#include "gpucoll/gpucoll.h"

namespace {

using gpucoll_test::become;
using gpucoll_test::limit;
using gpucoll_test::open_descriptors;
using gpucoll_test::said_in_child;
using gpucoll_test::status_in_time;

constexpr int kRanks = 8, kNodes = 3;
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

// Leaves so many descriptors to this process, behind all that it has: one that it gives back may be used again.
void leave_descriptors(rlim_t most) {
  const int some = dup(0), past_all = some + open_descriptors();
  int next = some;
  while (next < past_all) next = dup(0);
  limit(RLIMIT_NOFILE, static_cast<rlim_t>(next) + 1 + most);
}

// Calls a collective: "fine", or what failed.
std::string call(gpucollComm_t comm, void* data) {
  gpucollResult_t result = gpucollAllReduce(data, data, 7, gpucollInt32, gpucollSum, comm, nullptr);
  if (result == gpucollSuccess) gpucollStreamSynchronize(nullptr);
  if (result == gpucollSuccess) gpucollCommGetAsyncError(comm, &result);
  return result == gpucollSuccess ? "fine" : gpucollGetLastError(comm);
}

// Makes a communicator of kNodes ranks as one of its ranks, with so many descriptors or, for 0, as many as there are,
// and calls a collective. splits: the descriptors are few for a part of the communicator only, and its call.
std::string call_between_nodes(const gpucollUniqueId& id, int rank, rlim_t most, bool splits) {
  void* data = nullptr;
  if (gpucollSetDevice(0) != gpucollSuccess || gpucollMalloc(&data, 64) != gpucollSuccess) return "no device";
  if (most && !splits) leave_descriptors(most);
  gpucollComm_t comm = nullptr, part = nullptr;
  if (gpucollCommInitRank(&comm, kNodes, id, rank) != gpucollSuccess) return gpucollGetLastError(nullptr);
  std::string said = call(comm, data);
  if (splits && said == "fine") {
    if (most) leave_descriptors(most);
    said = gpucollCommSplit(comm, 0, rank, &part) == gpucollSuccess ? call(part, data) : gpucollGetLastError(nullptr);
    if (part) gpucollCommDestroy(part);
  }
  gpucollCommDestroy(comm);
  return said;
}

// Starts a rank on a node of its own; returns its process, and what it says.
pid_t start_rank(const std::function<std::string()>& body, int rank, FILE** said) {
  *said = std::tmpfile();
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("GPUCOLL_HOST_ID", ("node" + std::to_string(rank)).c_str(), 1);
  std::fputs(body().c_str(), *said);
  std::fflush(*said);
  _exit(0);
}

// One of the processes, each on a node of its own, has so few descriptors: all end, and that one says why. The others
// do as well, unless the one that has made the unique id ends before they come to it.
void expect_all_told(rlim_t most, int few, bool splits) {
  int ids[2];
  ASSERT_EQ(pipe(ids), 0);
  FILE* said[kNodes];
  pid_t children[kNodes];
  for (int rank = 0; rank < kNodes; ++rank)
    children[rank] = start_rank(
        [&]() -> std::string {
          gpucollUniqueId id;
          if (rank == 0 && gpucollGetUniqueId(&id) != gpucollSuccess) return "no id";
          for (int other = 1; rank == 0 && other < kNodes; ++other)
            if (write(ids[1], &id, sizeof id) != ssize_t{sizeof id}) return "no pipe";
          if (rank != 0 && read(ids[0], &id, sizeof id) != ssize_t{sizeof id}) return "no pipe";
          return call_between_nodes(id, rank, rank == few ? most : 0, splits);
        },
        rank, &said[rank]);
  int fine = 0;
  for (int rank = 0; rank < kNodes; ++rank) {
    EXPECT_EQ(status_in_time(children[rank], kNeverHang), 0) << "rank " << rank;
    std::rewind(said[rank]);
    char text[1000] = "";
    const size_t n = std::fread(text, 1, sizeof text - 1, said[rank]);
    std::fclose(said[rank]);
    const std::string all(text, n);
    fine += all == "fine";
    const bool may_miss_maker = rank != few || few == 0;
    std::printf("%d descriptors at rank %d, rank %d: %s\n", static_cast<int>(most), few, rank, all.c_str());
    EXPECT_TRUE(all == "fine" || all.find("`ulimit -n`") != std::string::npos ||
                (may_miss_maker && (all.find(", which made the unique id, ") != std::string::npos ||
                                    all.find("which may have failed") != std::string::npos)))
        << all;
  }
  EXPECT_TRUE(fine == 0 || fine == kNodes) << most << " descriptors at rank " << few;
  close(ids[0]);
  close(ids[1]);
}

void expect_all_told(bool splits) {
  for (rlim_t most = 1; most <= 8; ++most)
    for (const int few : {0, kNodes - 1}) expect_all_told(most, few, splits);
}

TEST(Meeting, ARankOfANodeWithFewDescriptorsIsToldByAll) { expect_all_told(false); }
TEST(Meeting, ARankOfANodeWithFewDescriptorsThatSplitsIsToldByAll) { expect_all_told(true); }

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
