// Large messages between ranks that are processes: over memory that is really opened, and with a peer that dies.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "copies.h"

using namespace gpucoll_test;

namespace {

// Runs body(comm, rank) in a process each, forked before anything of gpucoll is used here; the exit statuses.
std::vector<int> on_processes(int n, const std::function<void(gpucollComm_t, int)>& body) {
  int pipes[2];
  EXPECT_EQ(pipe(pipes), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < n; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      gpucollUniqueId id;
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

}  // namespace

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
           DeviceBuffer buffer(bytes);
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
