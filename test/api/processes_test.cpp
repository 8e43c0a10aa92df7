// Ranks as processes: results, and a rank that dies in the middle.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/mutant.h"
#include "ranks.h"

using namespace gpucoll_test;

namespace {

#define CHILD_OK(...)                                                                \
  do {                                                                               \
    if ((__VA_ARGS__) != gpucollSuccess) {                                           \
      std::fprintf(stderr, "line %d: %s\n", __LINE__, gpucollGetLastError(nullptr)); \
      _exit(2);                                                                      \
    }                                                                                \
  } while (0)

// Forks n ranks before anything of gpucoll is used here: rank 0 makes the id and writes it to the others' pipes.
// body(comm, rank) returns the exit code. Gives the exit statuses. Closes `of_children` here, and what it does not need
// itself of the pipes: so whoever reads from a rank that has ended is told.
template <class Body>
std::vector<int> on_processes(int n, Body body, const std::vector<int>& of_children = {}) {
  std::vector<int> pipes(static_cast<size_t>(n) * 2);
  for (int r = 0; r < n; ++r) EXPECT_EQ(0, pipe(&pipes[static_cast<size_t>(r) * 2]));
  std::vector<pid_t> children;
  for (int r = 0; r < n; ++r) {
    pid_t child = fork();
    if (child) {
      children.push_back(child);
      continue;
    }
    gpucollUniqueId id;
    choose_node(r);
    if (r == 0) {
      CHILD_OK(gpucollGetUniqueId(&id));
      for (int other = 1; other < n; ++other)
        if (write(pipes[static_cast<size_t>(other) * 2 + 1], &id, sizeof id) != sizeof id) _exit(3);
    } else {
      for (int other = 0; other < n; ++other) close(pipes[static_cast<size_t>(other) * 2 + 1]);
      if (read(pipes[static_cast<size_t>(r) * 2], &id, sizeof id) != sizeof id) _exit(3);
    }
    int devices = 0;
    CHILD_OK(gpucollDeviceCount(&devices));
    CHILD_OK(gpucollSetDevice(r % devices));
    gpucollComm_t comm = nullptr;
    CHILD_OK(gpucollCommInitRank(&comm, n, id, r));
    _exit(body(comm, r));
  }
  for (int fd : pipes) close(fd);
  for (int fd : of_children) close(fd);
  std::vector<int> statuses;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    statuses.push_back(status);
  }
  return statuses;
}

}  // namespace

TEST(Processes, AllReduceOverSharedMemoryOfTheDevice) {
  constexpr int n = 4;
  auto statuses = on_processes(n, [](gpucollComm_t comm, int rank) {
    constexpr size_t count = 70001;
    DeviceBuffer in(count * 8), out(count * 8);
    std::vector<double> mine(count);
    for (int round = 0; round < 5; ++round) {
      for (size_t i = 0; i < count; ++i) mine[i] = value(rank, i + static_cast<size_t>(round));
      in.put(mine);
      CHILD_OK(gpucollAllReduce(in.at(), out.at(), count, gpucollFloat64, gpucollSum, comm, nullptr));
      CHILD_OK(gpucollStreamSynchronize(nullptr));
      auto result = out.get<double>(count);
      for (size_t i = 0; i < count; ++i) {
        double sum = 0;
        for (int r = 0; r < n; ++r) sum += value(r, i + static_cast<size_t>(round));
        if (result[i] != sum) return 1;
      }
    }
    CHILD_OK(gpucollCommDestroy(comm));
    return 0;
  });
  for (int status : statuses) EXPECT_EQ(status, 0);
}

// A rank that closes at once tells the others so, however far they are.
TEST(Processes, MakeACommunicatorAndDestroyIt) {
  for (int round = 0; round < 10; ++round) {
    auto statuses = on_processes(4, [](gpucollComm_t comm, int) {
      CHILD_OK(gpucollCommDestroy(comm));
      return 0;
    });
    for (int status : statuses) EXPECT_EQ(status, 0);
  }
}

TEST(Processes, ADeadRankIsNamedByTheOthers) {
  auto start = std::chrono::steady_clock::now();
  auto statuses = on_processes(3, [](gpucollComm_t comm, int rank) {
    DeviceBuffer b(64);
    CHILD_OK(gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, nullptr));
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    // Data that its kernels have stored may still be on their way to other nodes.
    if (rank == 1 && std::getenv("GC_TEST_NODES")) usleep(2'000'000);
    if (rank == 1) raise(SIGKILL);
    const gpucollResult_t called =  // this rank may have heard by then
        gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, nullptr);
    if (called != gpucollSuccess && called != gpucollRemoteError) return 3;
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    gpucollResult_t error = gpucollSuccess;
    CHILD_OK(gpucollCommGetAsyncError(comm, &error));
    if (error != gpucollRemoteError) return 4;
    if (std::string(gpucollGetLastError(comm)).find("rank 1") == std::string::npos) return 5;
    return gpucollCommDestroy(comm) == gpucollRemoteError ? 0 : 6;
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
  EXPECT_EQ(statuses[2], 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// The others find the dead rank later than the end of the one that has found it first.
TEST(Processes, ARankThatEndsByAFaultTellsItBefore) {
  const int rounds = gc_mutant(612) ? 30 : 3;  // ranks may find it at one time, and need nobody to tell them
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const auto statuses = on_processes(4, [](gpucollComm_t comm, int rank) {
      DeviceBuffer b(64);
      CHILD_OK(gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, nullptr));
      CHILD_OK(gpucollStreamSynchronize(nullptr));
      usleep(300'000);  // data that the last rank's kernels have stored may still be on their way
      if (rank == 3) raise(SIGKILL);
      gpucollResult_t error = gpucollSuccess;
      while (error == gpucollSuccess) CHILD_OK(gpucollCommGetAsyncError(comm, &error));
      const std::string text = gpucollGetLastError(comm);
      if (text.find("rank 3 (process") == std::string::npos) {
        std::fprintf(stderr, "rank %d says: %s\n", rank, text.c_str());
        return 4;
      }
      return 0;
    });
    for (size_t r = 0; r < 3; ++r) EXPECT_EQ(statuses[r], 0) << "rank " << r << ", round " << round;
  }
}

// A rank may close the communicator in order and end while others still use it among themselves, however long.
TEST(Processes, ARankThatHasLeftEndsNothing) {
  const auto statuses = on_processes(3, [](gpucollComm_t comm, int rank) {
    DeviceBuffer in(8), out(8);
    in.put(std::vector<double>{1.0});
    CHILD_OK(gpucollAllReduce(in.at(), out.at(), 1, gpucollFloat64, gpucollSum, comm, nullptr));
    for (int sender : {1, 2}) {  // so the three are connected
      if (rank == sender) CHILD_OK(gpucollSend(in.at(), 1, gpucollFloat64, 0, comm, nullptr));
      if (rank == 0) CHILD_OK(gpucollRecv(out.at(), 1, gpucollFloat64, sender, comm, nullptr));
    }
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    if (rank == 2) {
      CHILD_OK(gpucollCommDestroy(comm));
      return 0;
    }
    if (rank == 1) {
      sleep(3);  // rank 0 waits meanwhile, and sees that the connections of rank 2 have ended
      CHILD_OK(gpucollSend(in.at(), 1, gpucollFloat64, 0, comm, nullptr));
    } else {
      CHILD_OK(gpucollRecv(out.at(), 1, gpucollFloat64, 1, comm, nullptr));
    }
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    if (rank == 0 && out.get<double>(1)[0] != 1.0) return 4;
    CHILD_OK(gpucollCommDestroy(comm));
    return 0;
  });
  for (int status : statuses) EXPECT_EQ(status, 0);
}

namespace {

// Returns 0 where the communicator has failed as a rank has left it too early, and says so by all of these words.
int left_too_early(gpucollComm_t comm, std::initializer_list<const char*> words, bool destroys = true) {
  CHILD_OK(gpucollStreamSynchronize(nullptr));
  gpucollResult_t error = gpucollSuccess;
  CHILD_OK(gpucollCommGetAsyncError(comm, &error));
  if (error != gpucollRemoteError) return 4;
  const std::string text = gpucollGetLastError(comm);
  for (const char* word : words)
    if (text.find(word) == std::string::npos) {
      std::fprintf(stderr, "no '%s' in: %s\n", word, text.c_str());
      return 5;
    }
  return !destroys || gpucollCommDestroy(comm) == gpucollRemoteError ? 0 : 6;
}

}  // namespace

TEST(Processes, ACollectiveThatARankHasNotMadeFails) {
  const auto statuses = on_processes(3, [](gpucollComm_t comm, int rank) {
    DeviceBuffer b(64);
    CHILD_OK(gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, nullptr));
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    if (rank == 1) {
      CHILD_OK(gpucollCommDestroy(comm));
      return 0;
    }
    CHILD_OK(gpucollAllReduce(b.at(), b.at(), 8, gpucollInt32, gpucollSum, comm, nullptr));
    return left_too_early(comm, {"rank 1 ", "before collective call 2 ", "an allreduce of 8 int32"});
  });
  for (int status : statuses) EXPECT_EQ(status, 0);
}

namespace {

// Makes the call of a number. less: the call differs from that of the others by its count, or by its root where it has
// no count.
gpucollResult_t call_of(int number, bool less, char* in, char* out, gpucollComm_t comm) {
  constexpr gpucollDataType_t kType = gpucollInt32;
  const size_t count = less ? 3 : 301;
  switch (number) {
    case 0: return gpucollAllReduce(in, out, count, kType, gpucollSum, comm, nullptr);
    case 1: return gpucollReduce(in, out, count, kType, gpucollSum, 0, comm, nullptr);
    case 2: return gpucollBroadcast(in, out, count, kType, 0, comm, nullptr);
    case 3: return gpucollAllGather(in, out, count, kType, comm, nullptr);
    case 4: return gpucollReduceScatter(in, out, count, kType, gpucollSum, comm, nullptr);
    case 5: return gpucollAllReduce(in, out, 301, less ? gpucollFloat32 : kType, gpucollSum, comm, nullptr);
    case 6: return gpucollAllReduce(in, out, 301, kType, less ? gpucollMax : gpucollSum, comm, nullptr);
    case 7: return gpucollBroadcast(in, out, 301, kType, less ? 1 : 0, comm, nullptr);
    case 8: return gpucollReduce(in, out, 301, kType, gpucollSum, less ? 1 : 0, comm, nullptr);
    default: return gpucollAllGather(in, out, count * 1000, kType, comm, nullptr);  // round the ring
  }
}
constexpr int kCalls = 10;

}  // namespace

// A rank that calls with less than the others ends its call, with wrong data, and may be gone before they tell. Each
// rank goes on once the other one has made its call.
TEST(Processes, ACallThatDiffersFailsOnAllRanksThatDestroyAtOnce) {
  for (int number = 0; number < kCalls; ++number) {
    for (const int differs : {0, 1}) {
      int line[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
      const auto statuses =
          on_processes(2,
                       [&](gpucollComm_t comm, int rank) {
                         DeviceBuffer in(4 << 20), out(4 << 20);
                         CHILD_OK(call_of(number, false, in.at(), out.at(), comm));
                         CHILD_OK(gpucollStreamSynchronize(nullptr));
                         call_of(number, rank == differs, in.at(), out.at(), comm);  // may have been told already
                         char called = 1;
                         if (write(line[rank], &called, 1) != 1 || read(line[rank], &called, 1) != 1) return 3;
                         CHILD_OK(gpucollStreamSynchronize(nullptr));
                         const gpucollResult_t ended = gpucollCommFinalize(comm);
                         const std::string text = gpucollGetLastError(comm);
                         const bool says = text.find("same collective calls") != std::string::npos;
                         if (ended == gpucollSuccess || !says)
                           std::fprintf(stderr, "rank %d: %d %s\n", rank, ended, text.c_str());
                         const gpucollResult_t destroyed = gpucollCommDestroy(comm);
                         return ended == gpucollSuccess || destroyed == gpucollSuccess ? 4 : says ? 0 : 5;
                       },
                       {line[0], line[1]});
      for (size_t r = 0; r < 2; ++r)
        EXPECT_EQ(statuses[r], 0) << "call " << number << ", rank " << r << " of " << differs;
    }
  }
}

// A rank that closes with its call under way waits for the calls of others from the end of that one on.
TEST(Processes, ACallThatDiffersFailsWhereTheOtherRankMakesItLate) {
  for (const int number : {0, 2, 3, 9}) {
    const auto statuses = on_processes(2, [&](gpucollComm_t comm, int rank) {
      DeviceBuffer in(4 << 20), out(4 << 20);
      CHILD_OK(call_of(number, false, in.at(), out.at(), comm));
      CHILD_OK(gpucollStreamSynchronize(nullptr));
      if (rank == 1) usleep(1'000'000);                     // more than a rank that closes waits for calls
      call_of(number, rank == 0, in.at(), out.at(), comm);  // may have been told already
      const gpucollResult_t ended = gpucollCommFinalize(comm);
      const std::string text = gpucollGetLastError(comm);
      const bool says = text.find("same collective calls") != std::string::npos;
      if (ended == gpucollSuccess || !says) std::fprintf(stderr, "rank %d: %d %s\n", rank, ended, text.c_str());
      const gpucollResult_t destroyed = gpucollCommDestroy(comm);
      return ended == gpucollSuccess || destroyed == gpucollSuccess ? 4 : says ? 0 : 5;
    });
    for (size_t r = 0; r < 2; ++r) EXPECT_EQ(statuses[r], 0) << "call " << number << ", rank " << r;
  }
}

// The error is that of the ranks that go on, also where they live on with it beside the one that has closed.
TEST(Processes, ARankThatHasClosedLogsNoErrorOfTheOthers) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto body = [&ends](gpucollComm_t comm, int rank) {
    DeviceBuffer b(64);
    CHILD_OK(gpucollAllReduce(b.at(), b.at(), 7, gpucollInt32, gpucollSum, comm, nullptr));
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    close(ends[rank == 1]);
    if (rank != 1) {
      CHILD_OK(gpucollAllReduce(b.at(), b.at(), 5, gpucollInt32, gpucollSum, comm, nullptr));
      const int left = left_too_early(comm, {"rank 1 ", "before collective call 2 "}, false);
      usleep(1'000'000);  // rank 1's watchdog looks several times
      return left;
    }
    FILE* const said = std::tmpfile();
    if (!said || dup2(fileno(said), STDERR_FILENO) < 0) return 4;
    CHILD_OK(gpucollCommDestroy(comm));
    char none;
    if (read(ends[0], &none, 1) != 0) return 5;  // until the others have ended
    std::rewind(said);
    std::string text(2000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), said));
    if (text.empty()) return 0;
    std::printf("rank 1 says: %s\n", text.c_str());
    std::fflush(stdout);
    return 6;
  };
  for (int status : on_processes(3, body, {ends[0], ends[1]})) EXPECT_EQ(status, 0);
}

TEST(Processes, ARevokedCommunicatorSaysWhichRankHasRevokedIt) {
  const auto statuses = on_processes(3, [](gpucollComm_t comm, int rank) {
    if (rank == 1) CHILD_OK(gpucollCommRevoke(comm));
    gpucollResult_t error = gpucollSuccess;
    while (rank != 1 && error == gpucollSuccess) CHILD_OK(gpucollCommGetAsyncError(comm, &error));
    const std::string text = gpucollGetLastError(comm);
    const bool says = text.find("rank 1 (process ") == 0 && text.find(") has revoked the communicator") < 60;
    if (rank != 1 && !(says && error == gpucollRemoteError)) {
      std::fprintf(stderr, "rank %d says: %s\n", rank, text.c_str());
      return 4;
    }
    return gpucollCommDestroy(comm) == error ? 0 : 5;
  });
  for (int status : statuses) EXPECT_EQ(status, 0);
}

// Between nodes: what rank 1 has sent before it left is received, and what it has not sent, or received, is an error.
TEST(Processes, MessagesThatARankHasNotSentOrReceivedFail) {
  if (!std::getenv("GC_TEST_NODES")) GTEST_SKIP();
  for (const bool sends : {false, true}) {
    const auto statuses = on_processes(2, [sends](gpucollComm_t comm, int rank) {
      constexpr size_t kBytes = 2 << 20;  // more than lies in a connection
      DeviceBuffer b(kBytes);
      const auto message = [&](bool send) {
        return send ? gpucollSend(b.at(), kBytes, gpucollInt8, 1 - rank, comm, nullptr)
                    : gpucollRecv(b.at(), kBytes, gpucollInt8, 1 - rank, comm, nullptr);
      };
      for (int i = 0; i < 2; ++i) {
        CHILD_OK(message(sends == (rank == 0)));
        CHILD_OK(gpucollStreamSynchronize(nullptr));
      }
      if (rank == 1) {
        CHILD_OK(gpucollCommDestroy(comm));
        return 0;
      }
      CHILD_OK(message(sends));
      return left_too_early(comm, {"rank 1 ", "after 2 of the 3 messages", sends ? "sends" : "receives"});
    });
    for (int status : statuses) EXPECT_EQ(status, 0) << sends;
  }
}

// Between nodes: a rank at rest takes what another one sends that closes, so that this one may end at once.
TEST(Processes, WhatARankHasSentBeforeItEndedComes) {
  if (!std::getenv("GC_TEST_NODES")) GTEST_SKIP();
  setenv("GPUCOLL_SEND_RECV_BUFFER_BYTES", "16M", 1);  // so that a message lies in the connection
  setenv("GPUCOLL_BUFFER_BYTES", "16M", 1);
  int pids[2];
  ASSERT_EQ(pipe(pids), 0);
  const auto body = [&pids](gpucollComm_t comm, int rank) {
    constexpr size_t kBytes = 8 << 20, kBroadcast = 256 << 10;
    DeviceBuffer b(kBytes);
    std::vector<uint8_t> data(kBytes);
    for (size_t i = 0; i < kBytes; ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 251);
    const auto message = [&](size_t bytes) {
      return rank == 0 ? gpucollSend(b.at(), bytes, gpucollInt8, 1, comm, nullptr)
                       : gpucollRecv(b.at(), bytes, gpucollInt8, 0, comm, nullptr);
    };
    const auto broadcast = [&](size_t bytes) {
      return gpucollBroadcast(b.at(), b.at(), bytes, gpucollInt8, 0, comm, nullptr);
    };
    close(pids[rank]);
    if (rank == 0) b.put(data);
    CHILD_OK(message(8));  // so the two are connected, as for what follows
    CHILD_OK(broadcast(kBroadcast));
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    pid_t sender = getpid();
    if (rank == 0) {
      usleep(gc_mutant(496) ? 2'000'000 : 100'000);  // the other one's proxy sleeps by then
      CHILD_OK(message(kBytes));
      CHILD_OK(broadcast(kBroadcast));
      CHILD_OK(gpucollStreamSynchronize(nullptr));
      CHILD_OK(gpucollCommDestroy(comm));
      return write(pids[1], &sender, sizeof sender) == sizeof sender ? 0 : 3;
    }
    if (read(pids[0], &sender, sizeof sender) != sizeof sender) return 3;
    while (kill(sender, 0) == 0) usleep(1000);
    b.put(std::vector<uint8_t>(kBytes));
    CHILD_OK(message(kBytes));
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    if (b.get<uint8_t>(kBytes) != data) return 4;
    b.put(std::vector<uint8_t>(kBytes));
    CHILD_OK(broadcast(kBroadcast));
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    data.resize(kBroadcast);
    if (b.get<uint8_t>(kBroadcast) != data) return 5;
    CHILD_OK(gpucollCommDestroy(comm));
    return 0;
  };
  for (int status : on_processes(2, body, {pids[0], pids[1]})) EXPECT_EQ(status, 0);
  unsetenv("GPUCOLL_SEND_RECV_BUFFER_BYTES");
  unsetenv("GPUCOLL_BUFFER_BYTES");
}

// Before any connection is made: the others wait for its messages, not for its kernels.
TEST(Processes, ADeadRankIsNamedWhileConnecting) {
  auto start = std::chrono::steady_clock::now();
  auto statuses = on_processes(3, [](gpucollComm_t comm, int rank) {
    DeviceBuffer b(64);
    if (rank == 2) raise(SIGKILL);
    if (gpucollAllReduce(b.at(), b.at(), 16, gpucollInt32, gpucollSum, comm, nullptr) != gpucollRemoteError) return 4;
    if (std::string(gpucollGetLastError(comm)).find("rank 2") == std::string::npos) return 5;
    return gpucollCommDestroy(comm) == gpucollRemoteError ? 0 : 6;
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[1], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[2]));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// A rank that is long in coming, while others connect to it, and while their kernels wait: one warning each, and the
// right result.
TEST(Processes, ARankThatIsLongInComingIsNamed) {
  setenv("GPUCOLL_REPORT_AFTER", "3", 1);
  auto statuses = on_processes(3, [](gpucollComm_t comm, int rank) {
    DeviceBuffer b(64);
    b.put(std::vector<int32_t>{rank});
    FILE* const said = std::tmpfile();
    if (!said || dup2(fileno(said), STDERR_FILENO) < 0) return 4;
    for (int call = 0; call < 2; ++call) {
      if (rank == 2) sleep(6);
      CHILD_OK(gpucollAllReduce(b.at(), b.at(), 1, gpucollInt32, gpucollSum, comm, nullptr));
      CHILD_OK(gpucollStreamSynchronize(nullptr));
    }
    if (b.get<int32_t>(1)[0] != 9) return 5;
    std::string text(3000, '\0');
    std::rewind(said);
    text.resize(std::fread(text.data(), 1, text.size(), said));
    int warnings = 0;
    for (size_t at = 0; (at = text.find("has waited 3 s (parameter report_after)", at)) != std::string::npos; ++at)
      ++warnings;
    if (warnings != (rank == 2 ? 0 : 2)) return 6;
    if (rank != 2 && text.find("from rank 2 (process") == std::string::npos) return 7;
    if (rank != 2 && text.find("launches have been made by rank 2 (process") == std::string::npos) return 8;
    CHILD_OK(gpucollCommDestroy(comm));
    return 0;
  });
  unsetenv("GPUCOLL_REPORT_AFTER");
  for (int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Processes, SplitAndOutliveEachOther) {
  constexpr int n = 4;
  auto statuses = on_processes(n, [](gpucollComm_t comm, int rank) {
    gpucollComm_t part = nullptr;
    CHILD_OK(gpucollCommSplit(comm, rank % 2, -rank, &part));
    CHILD_OK(gpucollCommDestroy(comm));
    int new_rank = -1;
    CHILD_OK(gpucollCommUserRank(part, &new_rank));
    if (new_rank != (rank < 2)) return 4;
    DeviceBuffer b(4096);
    std::vector<int32_t> mine(1000);
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = value(rank, i);
    b.put(mine);
    CHILD_OK(gpucollAllReduce(b.at(), b.at(), mine.size(), gpucollInt32, gpucollSum, part, nullptr));
    CHILD_OK(gpucollStreamSynchronize(nullptr));
    const auto result = b.get<int32_t>(mine.size());
    for (size_t i = 0; i < mine.size(); ++i)
      if (result[i] != value(rank % 2, i) + value(rank % 2 + 2, i)) return 5;
    CHILD_OK(gpucollCommDestroy(part));
    return 0;
  });
  for (int status : statuses) EXPECT_EQ(status, 0);
}
