// Ranks of one communicator as processes.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "ranks.h"

namespace gpucoll_test {

// Runs body(comm, rank) in a process each, forked before anything of gpucoll is used here; the exit statuses.
inline std::vector<int> on_processes(int n, const std::function<void(gpucollComm_t, int)>& body) {
  int pipes[2];
  EXPECT_EQ(pipe(pipes), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < n; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      gpucollUniqueId id;
      choose_node(rank);
      if (rank == 0) {
        if (gpucollGetUniqueId(&id) != gpucollSuccess) _exit(10);
        for (int i = 1; i < n; ++i)
          if (write(pipes[1], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) _exit(11);
      } else if (read(pipes[0], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) {
        _exit(12);
      }
      choose_device(rank);
      gpucollComm_t comm = nullptr;
      if (gpucollCommInitRank(&comm, n, id, rank) != gpucollSuccess) _exit(13);
      body(comm, rank);
      std::exit(testing::Test::HasFailure());
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    statuses.push_back(status);
  }
  close(pipes[0]);
  close(pipes[1]);
  return statuses;
}

}  // namespace gpucoll_test
