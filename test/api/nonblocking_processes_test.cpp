// Processes that exit, fork or die while a communicator is made in the background.
#include <sys/wait.h>

#include <functional>

#include "../resources.h"
#include "ranks.h"

using namespace gpucoll_test;

namespace {

constexpr std::chrono::seconds kBound(20);

gpucollComm_t begin(const gpucollUniqueId& id, int n, int rank) {
  gpucollConfig_t config = GPUCOLL_CONFIG_INITIALIZER;
  config.blocking = 0;
  gpucollComm_t comm = nullptr;
  if (gpucollCommInitRankConfig(&comm, n, id, rank, &config) != gpucollInProgress) _exit(30);
  return comm;
}

gpucollComm_t begin_alone() {
  gpucollUniqueId id;
  if (gpucollGetUniqueId(&id) != gpucollSuccess) _exit(31);
  return begin(id, 2, 0);
}

void expect_ends(int expected, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) std::exit(body());
  const int status = status_in_time(child, kBound);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), expected);
}

struct Pipe {
  int ends[2];
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
};

}  // namespace

TEST(NonblockingProcesses, ExitEndsWhatGoesOn) {
  expect_ends(7, [] {
    begin_alone();
    return 7;
  });
  expect_ends(7, [] {
    begin_alone();
    usleep(100'000);
    return 7;
  });
}

// A child has no part of it, and its end changes nothing.
TEST(NonblockingProcesses, AChildEndsAtOnce) {
  expect_ends(7, [] {
    gpucollComm_t comm = begin_alone();
    usleep(30'000);
    const pid_t child = fork();
    if (child == 0) std::exit(gpucollCommAbort(comm) == gpucollInvalidUsage ? 5 : 6);
    const int status = status_in_time(child, std::chrono::seconds(10));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 5) return 8;
    gpucollResult_t state = gpucollSuccess;
    if (gpucollCommGetAsyncError(comm, &state) != gpucollSuccess || state != gpucollInProgress) return 9;
    return gpucollCommAbort(comm) == gpucollSuccess ? 7 : 10;
  });
}

// Rank 1 dies, or exits, while rank 0 waits for rank 2 as well.
TEST(NonblockingProcesses, TheEndOfAPeerIsToldByTheState) {
  for (const bool dies : {true, false}) {
    expect_ends(7, [dies] {
      const Pipe ids;
      const pid_t peer = fork();
      gpucollUniqueId id;
      if (peer == 0) {
        if (read(ids.ends[0], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) _exit(12);
        begin(id, 3, 1);
        usleep(2'000'000);  // the other has heard of it by then
        if (dies) _exit(0);
        return 0;
      }
      if (gpucollGetUniqueId(&id) != gpucollSuccess) return 13;
      if (write(ids.ends[1], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) return 14;
      gpucollComm_t comm = begin(id, 3, 0);
      gpucollResult_t state = gpucollInProgress;
      while (state == gpucollInProgress)
        if (gpucollCommGetAsyncError(comm, &state) != gpucollSuccess) return 15;
      waitpid(peer, nullptr, 0);
      if (state != (dies ? gpucollRemoteError : gpucollAborted)) return 100 + state;
      if (!dies && !std::strstr(gpucollGetLastError(comm), "its process exits")) return 16;
      return gpucollCommAbort(comm) == gpucollSuccess ? 7 : 17;
    });
  }
}
