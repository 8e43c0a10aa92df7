// Uses gpucoll's libnccl.so.2 as programs do that were written for NCCL: ranks as processes and as threads, all
// types and operations, groups over several communicators, aborts, children.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "../api/nodes.h"
#include "../resources.h"
#include "abi/nccl.h"
#include "elements.h"
#include "gpucoll/gpucoll.h"
#include "nccl/nccl_abi.h"

namespace {

using namespace gpucoll_test;

#define OK(...) ASSERT_EQ(ncclSuccess, (__VA_ARGS__)) << ncclGetLastError(nullptr)

void choose_device(int rank) {
  int count = 1;
  EXPECT_EQ(gpucollDeviceCount(&count), gpucollSuccess);
  EXPECT_EQ(gpucollSetDevice(rank % count), gpucollSuccess);
}

// A rank's stream and memory, as the CUDA runtime would give it.
class Device {
 public:
  static constexpr size_t kBytes = 1 << 16;
  Device() {
    EXPECT_EQ(gpucollStreamCreate(&stream_), gpucollSuccess);
    EXPECT_EQ(gpucollMalloc(&memory_, 2 * kBytes), gpucollSuccess);
  }
  ~Device() {
    gpucollFree(memory_);
    gpucollStreamDestroy(stream_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_); }
  char* in() const { return static_cast<char*>(memory_); }
  char* out() const { return in() + kBytes; }
  void put(const std::vector<char>& bytes) {
    EXPECT_EQ(gpucollMemcpy(in(), bytes.data(), bytes.size()), gpucollSuccess);
    EXPECT_EQ(gpucollMemset(out(), 0x55, kBytes), gpucollSuccess);
  }
  std::vector<char> get(size_t bytes) {
    EXPECT_EQ(gpucollStreamSynchronize(stream_), gpucollSuccess) << gpucollGetLastError(nullptr);
    std::vector<char> got(bytes);
    EXPECT_EQ(gpucollMemcpy(got.data(), out(), bytes), gpucollSuccess);
    return got;
  }

 private:
  gpucollStream_t stream_ = nullptr;
  void* memory_ = nullptr;
};

// Element i of a rank: small, so that all types hold every result.
double value(int rank, size_t i) { return static_cast<double>(1 + (static_cast<size_t>(rank) + i) % 3); }

std::vector<char> elements(ncclDataType_t type, size_t count, const std::function<double(size_t)>& of) {
  std::vector<char> bytes;
  for (size_t i = 0; i < count; ++i) append(&bytes, type, of(i));
  return bytes;
}

double combined(ncclRedOp_t op, int n, size_t i) {
  double result = value(0, i);
  for (int r = 1; r < n; ++r) {
    const double next = value(r, i);
    if (op == ncclSum || op == ncclAvg) result += next;
    if (op == ncclProd) result *= next;
    if (op == ncclMax) result = std::max(result, next);
    if (op == ncclMin) result = std::min(result, next);
  }
  return op == ncclAvg ? result / n : result;
}

bool is_integer(ncclDataType_t type) { return type <= ncclUint64; }

constexpr size_t kCount = 200;

void all_types_and_operations(ncclComm_t comm, int rank, int n) {
  Device device;
  for (int t = 0; t < ncclNumTypes; ++t) {
    const auto type = static_cast<ncclDataType_t>(t);
    device.put(elements(type, kCount, [&](size_t i) { return value(rank, i); }));
    for (int o = 0; o < ncclNumOps; ++o) {
      const auto op = static_cast<ncclRedOp_t>(o);
      OK(ncclAllReduce(device.in(), device.out(), kCount, type, op, comm, device.stream()));
      const auto expected = elements(type, kCount, [&](size_t i) {
        const double result = combined(op, n, i);
        return is_integer(type) ? static_cast<double>(static_cast<long long>(result)) : result;
      });
      EXPECT_EQ(device.get(expected.size()), expected) << "type " << t << " op " << o;
    }
  }
}

void all_movements(ncclComm_t comm, int rank, int n) {
  Device device;
  const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
  const auto N = static_cast<size_t>(n), me = static_cast<size_t>(rank);
  for (int t = 0; t < ncclNumTypes; ++t) {
    const auto type = static_cast<ncclDataType_t>(t);
    const auto expect = [&](size_t count, const std::function<double(size_t)>& of) {
      const auto expected = elements(type, count, of);
      EXPECT_EQ(device.get(expected.size()), expected) << "type " << t;
    };
    device.put(elements(type, N * kCount, [&](size_t i) { return value(rank, i); }));
    OK(ncclGroupStart());
    OK(ncclSend(device.in(), kCount, type, next, comm, device.stream()));
    OK(ncclRecv(device.out(), kCount, type, previous, comm, device.stream()));
    OK(ncclGroupEnd());
    expect(kCount, [&](size_t i) { return value(previous, i); });
    OK(ncclAllGather(device.in(), device.out(), kCount, type, comm, device.stream()));
    expect(N * kCount, [&](size_t i) { return value(static_cast<int>(i / kCount), i % kCount); });
    OK(ncclAlltoAll(device.in(), device.out(), kCount, type, comm, device.stream()));
    expect(N * kCount, [&](size_t i) { return value(static_cast<int>(i / kCount), me * kCount + i % kCount); });
    OK(ncclBroadcast(device.in(), device.out(), kCount, type, n - 1, comm, device.stream()));
    expect(kCount, [&](size_t i) { return value(n - 1, i); });
    OK(ncclScatter(device.in(), device.out(), kCount, type, 0, comm, device.stream()));
    expect(kCount, [&](size_t i) { return value(0, me * kCount + i); });
    OK(ncclGather(device.in(), device.out(), kCount, type, 0, comm, device.stream()));
    if (rank == 0) expect(N * kCount, [&](size_t i) { return value(static_cast<int>(i / kCount), i % kCount); });
    if (rank != 0) device.get(0);
  }
}

void splits(ncclComm_t comm, int rank, int n) {
  ncclComm_t part = nullptr, none = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = 1;
  config.commName = "part";
  OK(ncclCommSplit(comm, rank % 2, -rank, &part, &config));
  int size = 0, place = -1;
  OK(ncclCommCount(part, &size));
  OK(ncclCommUserRank(part, &place));
  EXPECT_EQ(size, (n + 1 - rank % 2) / 2);
  EXPECT_EQ(place, size - 1 - rank / 2);
  all_movements(part, place, size);
  OK(ncclCommSplit(comm, rank == 0 ? 3 : NCCL_SPLIT_NOCOLOR, 0, &none, nullptr));
  EXPECT_EQ(none != nullptr, rank == 0);
  OK(ncclCommDestroy(none));
  OK(ncclCommDestroy(part));
}

// Runs body(id, rank) in processes that get the id through a pipe; returns how many failed. They are forked before this
// process uses gpucoll: the suite Processes comes first.
int on_processes(int n, const std::function<void(const ncclUniqueId&, int)>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < n; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      choose_node(rank);
      ncclUniqueId id;
      if (rank == 0) {
        if (ncclGetUniqueId(&id) != ncclSuccess) _exit(10);
        for (int i = 1; i < n; ++i)
          if (write(ends[1], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) _exit(11);
      } else if (read(ends[0], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) {
        _exit(12);
      }
      choose_device(rank);
      body(id, rank);
      std::exit(testing::Test::HasFailure());
    }
    children.push_back(child);
  }
  int failed = 0;
  for (pid_t child : children) failed += status_in_time(child, std::chrono::seconds(50)) != 0;
  close(ends[0]);
  close(ends[1]);
  return failed;
}

TEST(Processes, ReduceAllTypesByAllOperations) {
  EXPECT_EQ(0, on_processes(2, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr;
              OK(ncclCommInitRank(&comm, 2, id, rank));
              all_types_and_operations(comm, rank, 2);
              OK(ncclCommFinalize(comm));
              OK(ncclCommDestroy(comm));
            }));
}

TEST(Processes, MoveAllTypesAndSplit) {
  EXPECT_EQ(0, on_processes(3, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr;
              OK(ncclCommInitRank(&comm, 3, id, rank));
              all_movements(comm, rank, 3);
              splits(comm, rank, 3);
              OK(ncclCommDestroy(comm));
            }));
}

// As data loaders do: the child ends while its parent goes on.
TEST(Processes, HaveChildren) {
  EXPECT_EQ(0, on_processes(2, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr;
              OK(ncclCommInitRank(&comm, 2, id, rank));
              const pid_t child = fork();
              if (child == 0) std::exit(ncclCommDestroy(comm) == ncclInvalidUsage ? 0 : 1);
              all_movements(comm, rank, 2);
              EXPECT_EQ(status_in_time(child, std::chrono::seconds(10)), 0);
              OK(ncclCommDestroy(comm));
            }));
}

// One of three is killed; the others leave it behind, and need not know what each of them has seen of it.
TEST(Processes, GoOnWithoutADeadOne) {
  EXPECT_EQ(1, on_processes(3, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr, rest = nullptr, again = nullptr;
              OK(ncclCommInitRank(&comm, 3, id, rank));
              all_movements(comm, rank, 3);
              if (rank == 1) raise(SIGKILL);
              int dead = 1, first = 0;
              if (rank == 2) {  // sees it; rank 0 comes at once
                ncclResult_t error = ncclSuccess;
                while (error == ncclSuccess) OK(ncclCommGetAsyncError(comm, &error));
                EXPECT_EQ(error, ncclRemoteError);
                EXPECT_EQ(ncclRemoteError, ncclCommShrink(comm, &dead, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
              }
              OK(ncclCommShrink(comm, &dead, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
              OK(ncclCommAbort(comm));
              all_movements(rest, rank / 2, 2);
              if (rank == 2) {  // alone
                OK(ncclCommShrink(rest, &first, 1, &again, nullptr, NCCL_SHRINK_DEFAULT));
                all_movements(again, 0, 1);
                OK(ncclCommDestroy(again));
              }
              OK(ncclCommDestroy(rest));
            }));
}

// One thread waits for an operation that cannot end, another one revokes it; then all ranks go on together.
TEST(Processes, RevokeAndShrink) {
  EXPECT_EQ(0, on_processes(2, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr, fresh = nullptr;
              OK(ncclCommInitRank(&comm, 2, id, rank));
              all_movements(comm, rank, 2);
              {
                Device device;
                std::thread other([&] {
                  if (rank == 0) usleep(200'000);
                  OK(ncclCommRevoke(comm, 0));
                });
                if (rank == 0)
                  ncclAllReduce(device.in(), device.out(), kCount, ncclFloat32, ncclSum, comm, device.stream());
                device.get(0);
                other.join();
                ncclResult_t error = ncclInternalError;
                OK(ncclCommGetAsyncError(comm, &error));
                EXPECT_EQ(error, ncclSuccess);
                EXPECT_NE(ncclSuccess, ncclAllReduce(device.in(), device.out(), kCount, ncclFloat32, ncclSum, comm,
                                                     device.stream()));
              }
              OK(ncclCommShrink(comm, nullptr, 0, &fresh, nullptr, NCCL_SHRINK_DEFAULT));
              all_movements(fresh, rank, 2);
              OK(ncclCommDestroy(fresh));
              OK(ncclCommDestroy(comm));
            }));
}

// Rank 0 may be through with a shrink, and begin the next one, while others still meet for the first.
TEST(Processes, ShrinksFollowEachOther) {
  EXPECT_EQ(0, on_processes(3, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr, rest = nullptr;
              OK(ncclCommInitRank(&comm, 3, id, rank));
              all_movements(comm, rank, 3);
              for (int i = 0; i < 1000; ++i) {
                OK(ncclCommShrink(comm, nullptr, 0, &rest, nullptr, NCCL_SHRINK_DEFAULT));
                OK(ncclCommDestroy(rest));
              }
              OK(ncclCommDestroy(comm));
            }));
}

// Rank 0 fails with the other's death at first; afterwards all know better.
TEST(Processes, AShrinkEndsWhenARemainingRankDies) {
  EXPECT_EQ(2, on_processes(4, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr, rest = nullptr;
              OK(ncclCommInitRank(&comm, 4, id, rank));
              all_movements(comm, rank, 4);
              if (rank == 3) raise(SIGKILL);
              int dead[] = {3, 1};
              if (rank == 1) {
                sleep(1);
                raise(SIGKILL);
              }
              const auto begin = std::chrono::steady_clock::now();
              EXPECT_EQ(ncclRemoteError, ncclCommShrink(comm, dead, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
              EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
              OK(ncclCommShrink(comm, dead, 2, &rest, nullptr, NCCL_SHRINK_ABORT));
              OK(ncclCommAbort(comm));
              all_movements(rest, rank / 2, 2);
              OK(ncclCommDestroy(rest));
            }));
}

// Without abort a shrink ends as the communicator fails: here by the death of a rank that is to be left behind.
TEST(Processes, AShrinkEndsWhenTheCommunicatorFails) {
  EXPECT_EQ(1, on_processes(3, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr, rest = nullptr;
              OK(ncclCommInitRank(&comm, 3, id, rank));
              all_movements(comm, rank, 3);
              if (rank == 2) {
                sleep(1);
                raise(SIGKILL);
              }
              int excluded = 2;
              if (rank == 0) sleep(8);  // the other waits for its letter
              const auto begin = std::chrono::steady_clock::now();
              EXPECT_EQ(ncclRemoteError, ncclCommShrink(comm, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
              EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
              OK(ncclCommAbort(comm));
            }));
}

// One rank shrinks, the other does not: the first waits where they meet, the second for the first's letter.
TEST(Processes, AnAbortEndsAShrink) {
  for (int shrinks : {0, 1})
    EXPECT_EQ(0, on_processes(2, [shrinks](const ncclUniqueId& id, int rank) {
                ncclComm_t comm = nullptr, rest = nullptr;
                OK(ncclCommInitRank(&comm, 2, id, rank));
                all_movements(comm, rank, 2);
                OK(ncclCommRevoke(comm, 0));
                const auto begin = std::chrono::steady_clock::now();
                std::thread other([&] {
                  sleep(rank == shrinks ? 1 : 6);
                  OK(ncclCommAbort(comm));
                });
                if (rank == shrinks) {
                  EXPECT_NE(ncclSuccess, ncclCommShrink(comm, nullptr, 0, &rest, nullptr, NCCL_SHRINK_DEFAULT));
                }
                if (rank == shrinks) {
                  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
                }
                other.join();
              }));
}

// A rank that has revoked the communicator is told so, whatever it had heard before.
TEST(Processes, RevokedIsWhatItSays) {
  EXPECT_EQ(
      0, on_processes(2, [](const ncclUniqueId& id, int rank) {
        ncclComm_t comm = nullptr;
        OK(ncclCommInitRank(&comm, 2, id, rank));
        all_movements(comm, rank, 2);
        if (rank == 1) {  // hears of the other's first
          ncclResult_t error = ncclSuccess;
          while (error == ncclSuccess) OK(ncclCommGetAsyncError(comm, &error));
        }
        OK(ncclCommRevoke(comm, 0));
        {
          Device device;
          EXPECT_EQ(ncclInvalidUsage,
                    ncclAllReduce(device.in(), device.out(), kCount, ncclFloat32, ncclSum, comm, device.stream()));
          EXPECT_EQ(ncclInvalidUsage, ncclAlltoAll(device.in(), device.out(), 1, ncclFloat32, comm, device.stream()));
        }
        EXPECT_EQ(ncclInvalidUsage, ncclCommFinalize(comm));
        OK(ncclCommDestroy(comm));
      }));
}

// Rank 0 tries again and again, before rank 1 comes for the first time.
// Waits as PyTorch does where TORCH_NCCL_USE_COMM_NONBLOCKING is set.
void wait_ready(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) OK(ncclCommGetAsyncError(comm, &state));
  EXPECT_EQ(state, ncclSuccess) << ncclGetLastError(comm);
}
#define BEGUN(comm, ...)                                                                           \
  do {                                                                                             \
    const ncclResult_t result_ = (__VA_ARGS__);                                                    \
    ASSERT_TRUE(result_ == ncclSuccess || result_ == ncclInProgress) << ncclGetLastError(nullptr); \
    wait_ready(comm);                                                                              \
  } while (0)

TEST(Program, CommunicatorsThatDoNotBlock) {
  constexpr int kRanks = 3;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  const auto use = [&](int rank) {
    choose_device(rank);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = 2;
    config.commName = "world";
    ncclComm_t comm = nullptr, part = nullptr, same = nullptr, blocking = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, kRanks, id, rank, &config), ncclInProgress);
    wait_ready(comm);
    Device device;
    device.put(elements(ncclInt32, kCount, [&](size_t i) { return value(rank, i); }));
    OK(ncclGroupStart());
    OK(ncclAllReduce(device.in(), device.out(), kCount, ncclInt32, ncclSum, comm, device.stream()));
    ASSERT_EQ(ncclGroupEnd(), ncclInProgress);
    wait_ready(comm);
    const auto expected = elements(ncclInt32, kCount, [&](size_t i) { return combined(ncclSum, kRanks, i); });
    EXPECT_EQ(device.get(expected.size()), expected);
    BEGUN(comm, ncclCommSplit(comm, rank == 2 ? NCCL_SPLIT_NOCOLOR : 7, rank, &part, &config));
    EXPECT_EQ(part == nullptr, rank == 2);
    if (part) wait_ready(part);
    BEGUN(comm, ncclCommShrink(comm, nullptr, 0, &same, nullptr, NCCL_SHRINK_DEFAULT));
    wait_ready(same);
    ncclConfig_t undefined = NCCL_CONFIG_INITIALIZER;  // blocks, as NCCL's default is
    BEGUN(comm, ncclCommSplit(comm, 0, rank, &blocking, &undefined));
    wait_ready(blocking);
    all_movements(blocking, rank, kRanks);
    if (part) {
      EXPECT_EQ(ncclCommFinalize(part), ncclInProgress);
      wait_ready(part);
      OK(ncclCommDestroy(part));
    }
    OK(ncclCommDestroy(blocking));
    OK(ncclCommDestroy(same));
    OK(ncclCommAbort(comm));
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(use, rank);
  for (auto& thread : threads) thread.join();
}

// A program for NCCL may wait for another rank on purpose. Of the C API, communicators wait as long as the parameter
// says.
TEST(Timeout, IsOffUnlessItIsSet) {
  const char* const set = std::getenv("GPUCOLL_TIMEOUT");
  const auto timeout_of = [](ncclComm_t comm) { return gpucoll_comm_timeout(reinterpret_cast<gpucollComm_t>(comm)); };
  ncclUniqueId id;
  ncclComm_t ranked = nullptr, all = nullptr, part = nullptr;
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRank(&ranked, 1, id, 0));
  OK(ncclCommInitAll(&all, 1, nullptr));
  OK(ncclCommSplit(all, 0, 0, &part, nullptr));
  for (ncclComm_t comm : {ranked, all, part}) {
    EXPECT_EQ(set ? std::atoi(set) : 0, timeout_of(comm));
    OK(ncclCommDestroy(comm));
  }
  gpucollComm_t other = nullptr;
  ASSERT_EQ(gpucollSuccess, gpucollCommInitAll(&other, 1, nullptr));
  EXPECT_EQ(set ? std::atoi(set) : 1800, gpucoll_comm_timeout(other));
  EXPECT_EQ(gpucollSuccess, gpucollCommDestroy(other));
}

TEST(ShortTimeout, AShrinkThatIsTriedAgain) {
  EXPECT_EQ(0, on_processes(2, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr, rest = nullptr;
              OK(ncclCommInitRank(&comm, 2, id, rank));
              all_movements(comm, rank, 2);
              int failed = 0;
              if (rank == 1) sleep(14);
              while (ncclCommShrink(comm, nullptr, 0, &rest, nullptr, NCCL_SHRINK_DEFAULT) != ncclSuccess && failed < 9)
                ++failed;
              if (rank == 0) {
                EXPECT_GE(failed, 2);
              } else {
                EXPECT_LE(failed, 1);
              }
              all_movements(rest, rank, 2);
              OK(ncclCommDestroy(rest));
              OK(ncclCommDestroy(comm));
            }));
}

TEST(Threads, ShrinkAndKeepTheParent) {
  constexpr int kRanks = 3;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      choose_device(rank);
      ncclComm_t comm = nullptr, part = nullptr;
      OK(ncclCommInitRank(&comm, kRanks, id, rank));
      for (int excluded : {0, 1, 2, 0}) {
        if (rank == excluded) {
          EXPECT_EQ(ncclInvalidArgument, ncclCommShrink(comm, &excluded, 1, &part, nullptr, NCCL_SHRINK_DEFAULT));
          continue;
        }
        OK(ncclCommShrink(comm, &excluded, 1, &part, nullptr, NCCL_SHRINK_DEFAULT));
        all_movements(part, rank - (rank > excluded), kRanks - 1);
        OK(ncclCommDestroy(part));
      }
      all_movements(comm, rank, kRanks);
      OK(ncclCommDestroy(comm));
    });
  for (auto& thread : threads) thread.join();
}

TEST(OneThread, SimulatesGroups) {
  ncclComm_t comms[2];
  const int devices[2] = {0, 0};
  OK(ncclCommInitAll(comms, 2, devices));
  Device device;
  device.put(elements(ncclFloat32, kCount, [](size_t) { return 1; }));
  float predicted[2];
  for (size_t i = 0; i < 2; ++i) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    OK(ncclGroupStart());
    for (size_t calls = 0; calls <= i; ++calls)
      OK(ncclAllReduce(device.in(), device.out(), kCount, ncclFloat32, ncclSum, comms[0], device.stream()));
    OK(ncclGroupSimulateEnd(&info));
    predicted[i] = info.estimatedTime;
  }
  EXPECT_GT(predicted[0], 0);
  EXPECT_FLOAT_EQ(predicted[1], 2 * predicted[0]);
  EXPECT_EQ(device.get(4), std::vector<char>(4, 0x55));  // nothing ran
  ncclComm_t more = nullptr;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&more, 1, id, 0));
  EXPECT_EQ(ncclInvalidUsage, ncclGroupSimulateEnd(nullptr));
  OK(ncclCommDestroy(more));
  for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
}

TEST(Threads, UseSeveralCommunicators) {
  constexpr int kRanks = 2, kComms = 3;
  ncclUniqueId ids[kComms];
  for (auto& id : ids) OK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int c = 0; c < kComms; ++c)
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, c, rank] {
        choose_device(rank);
        ncclComm_t comm = nullptr;
        OK(ncclCommInitRank(&comm, kRanks, ids[c], rank));
        all_movements(comm, rank, kRanks);
        OK(ncclCommDestroy(comm));
      });
  for (auto& thread : threads) thread.join();
}

// One thread has all ranks, as programs of one process do: each call of it in a group, over all communicators.
TEST(OneThread, HasAllRanksInGroups) {
  constexpr int kRanks = 2;
  ncclComm_t comms[kRanks];
  const int devices[kRanks] = {0, 0};
  OK(ncclCommInitAll(comms, kRanks, devices));
  ncclComm_t more[kRanks];
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) OK(ncclCommInitRank(&more[r], kRanks, id, r));
  OK(ncclGroupEnd());
  std::vector<Device> ranks(kRanks);
  for (int r = 0; r < kRanks; ++r)
    ranks[static_cast<size_t>(r)].put(elements(ncclInt32, kCount, [&](size_t i) { return value(r, i); }));
  for (ncclComm_t* const of : {comms, more}) {
    OK(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r) {
      Device& rank = ranks[static_cast<size_t>(r)];
      OK(ncclGroupStart());
      OK(ncclAllReduce(rank.in(), rank.out(), kCount, ncclInt32, ncclSum, of[r], rank.stream()));
      OK(ncclGroupEnd());
    }
    OK(ncclGroupEnd());
    const auto expected = elements(ncclInt32, kCount, [](size_t i) { return combined(ncclSum, kRanks, i); });
    for (Device& rank : ranks) EXPECT_EQ(rank.get(expected.size()), expected);
  }
  for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
  for (ncclComm_t comm : more) OK(ncclCommDestroy(comm));
}

// A watchdog's way: one thread waits for a peer that never calls, another one aborts, and all starts anew.
TEST(Processes, AbortWhileTheirMainThreadWaits) {
  EXPECT_EQ(0, on_processes(2, [](const ncclUniqueId& id, int rank) {
              ncclComm_t comm = nullptr;
              OK(ncclCommInitRank(&comm, 2, id, rank));
              all_movements(comm, rank, 2);
              if (rank == 0) {
                Device device;
                std::thread watchdog([&] {
                  usleep(200'000);
                  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
                });
                ncclAllReduce(device.in(), device.out(), kCount, ncclFloat32, ncclSum, comm, device.stream());
                device.get(0);
                watchdog.join();
              } else {
                ncclResult_t error = ncclSuccess;
                while (error == ncclSuccess) {
                  OK(ncclCommGetAsyncError(comm, &error));
                  usleep(1000);
                }
                EXPECT_EQ(error, ncclRemoteError);
                EXPECT_NE(std::strstr(ncclGetLastError(comm), "rank 0"), nullptr) << ncclGetLastError(comm);
                OK(ncclCommAbort(comm));
              }
            }));
}

// A split takes NCCL's default, not the parent's value, where its configuration says nothing: only communicators that
// share fail together.
TEST(OneThread, ASplitSharesOnlyWhereItsConfigurationSaysSo) {
  for (const bool says_so : {false, true}) {
    ncclConfig_t sharing = NCCL_CONFIG_INITIALIZER, other = NCCL_CONFIG_INITIALIZER;
    sharing.splitShare = 1;
    ncclUniqueId id;
    ncclComm_t first = nullptr, child = nullptr, grandchild = nullptr;
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRankConfig(&first, 1, id, 0, &sharing));
    OK(ncclCommSplit(first, 0, 1, &child, says_so ? &sharing : &other));
    OK(ncclCommDestroy(first));
    OK(ncclCommSplit(child, 0, 0, &grandchild, nullptr));
    OK(ncclCommAbort(grandchild));
    ncclResult_t error = ncclSuccess;
    OK(ncclCommGetAsyncError(child, &error));
    EXPECT_EQ(says_so, error != ncclSuccess);
    OK(ncclCommAbort(child));
  }
}

TEST(Errors, AreNcclsWithASentence) {
  OK(ncclCommFinalize(nullptr));
  ncclComm_t comm = nullptr;
  OK(ncclCommInitAll(&comm, 1, nullptr));
  Device device;
  for (int op = ncclNumOps; op < 40; ++op)
    EXPECT_EQ(ncclInvalidArgument, ncclAllReduce(device.in(), device.out(), 8, ncclFloat32,
                                                 static_cast<ncclRedOp_t>(op), comm, device.stream()))
        << op;
  for (int type : {-1, int{ncclNumTypes}, 99})
    EXPECT_EQ(ncclInvalidArgument,
              ncclAllGather(device.in(), device.out(), 8, static_cast<ncclDataType_t>(type), comm, device.stream()))
        << type;
  EXPECT_NE(std::strstr(ncclGetLastError(comm), "datatype"), nullptr) << ncclGetLastError(comm);
  EXPECT_EQ(ncclInvalidArgument, ncclBroadcast(device.in(), device.out(), 8, ncclFloat32, 1, comm, device.stream()));
  EXPECT_NE(std::strstr(ncclGetLastError(comm), "root"), nullptr) << ncclGetLastError(comm);
  // A call that fails makes its group fail.
  OK(ncclGroupStart());
  EXPECT_EQ(ncclInvalidArgument, ncclSend(device.in(), 8, ncclFloat32, 1, comm, device.stream()));
  EXPECT_EQ(ncclInvalidArgument, ncclGroupEnd());
  EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
  OK(ncclCommDestroy(comm));
  EXPECT_EQ(ncclInvalidArgument, ncclCommDestroy(comm));
}

}  // namespace
