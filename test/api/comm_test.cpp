// Communicators: made one by one, all at once, and from one another; many of them; driven by one thread.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <numeric>
#include <string>

#include "ranks.h"

using namespace gpucoll_test;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // with memory of its own beside each byte
#else
constexpr bool kSanitized = false;
#endif

bool on_gpus() {
  const char* kind = "";
  EXPECT_EQ(gpucollSuccess, gpucollDeviceKind(&kind));
  return !std::strcmp(kind, "cuda");
}

void expect_refused(gpucollResult_t expected, gpucollResult_t got, const char* part) {
  EXPECT_EQ(expected, got);
  std::string sentence = gpucollGetLastError(nullptr);
  EXPECT_NE(sentence.find(part), std::string::npos) << "'" << sentence << "' does not say '" << part << "'";
}

int count_of(gpucollComm_t comm) {
  int count = -1;
  EXPECT_EQ(gpucollSuccess, gpucollCommCount(comm, &count));
  return count;
}
int rank_of(gpucollComm_t comm) {
  int rank = -1;
  EXPECT_EQ(gpucollSuccess, gpucollCommUserRank(comm, &rank));
  return rank;
}

// What an allreduce needs besides the communicator; values depend on rank and index.
struct Work {
  static constexpr size_t kCount = 1003;
  Stream stream;
  DeviceBuffer buffer{kCount * sizeof(int32_t)};

  void fill(int rank) {
    std::vector<int32_t> mine(kCount);
    for (size_t i = 0; i < kCount; ++i) mine[i] = value(rank, i);
    buffer.put(mine);
  }
  gpucollResult_t start(gpucollComm_t comm) {
    return gpucollAllReduce(buffer.at(), buffer.at(), kCount, gpucollInt32, gpucollSum, comm, stream.handle);
  }
  void expect_sum(const std::vector<int>& ranks) {
    ASSERT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream.handle));
    const auto result = buffer.get<int32_t>(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      int32_t sum = 0;
      for (int rank : ranks) sum += value(rank, i);
      ASSERT_EQ(result[i], sum) << "at " << i;
    }
  }
};

// An allreduce over `comm`, whose members call themselves `ranks` when they fill their buffers.
void expect_works(gpucollComm_t comm, int me, const std::vector<int>& ranks) {
  Work work;
  work.fill(me);
  GC_OK(work.start(comm));
  work.expect_sum(ranks);
}

std::vector<int> first_ranks(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// One allreduce on each of a process's ranks, all started by this thread in one group.
void expect_all_work(const std::vector<gpucollComm_t>& comms) {
  std::vector<std::unique_ptr<Work>> work;
  for (size_t i = 0; i < comms.size(); ++i) {
    int device = -1;
    GC_OK(gpucollCommCuDevice(comms[i], &device));
    GC_OK(gpucollSetDevice(device));
    work.push_back(std::make_unique<Work>());
    work[i]->fill(static_cast<int>(i));
  }
  GC_OK(gpucollGroupStart());
  for (size_t i = 0; i < comms.size(); ++i) GC_OK(work[i]->start(comms[i]));
  GC_OK(gpucollGroupEnd());
  for (auto& w : work) w->expect_sum(first_ranks(static_cast<int>(comms.size())));
}

std::vector<gpucollComm_t> init_all(int n, const int* devices = nullptr) {
  std::vector<gpucollComm_t> comms(static_cast<size_t>(n), nullptr);
  EXPECT_EQ(gpucollSuccess, gpucollCommInitAll(comms.data(), n, devices)) << gpucollGetLastError(nullptr);
  return comms;
}

// Returns what this process uses of the host's memory. What malloc() keeps of what was freed, in an arena of each
// thread, is none of it.
long resident_bytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int open_files() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += !access(("/proc/self/fd/" + std::to_string(fd)).c_str(), F_OK);
  return count;
}

}  // namespace

TEST(Comm, InitAllMakesOneRankADevice) {
  const int n = 4;
  if (!enough_devices(n)) return;
  GC_OK(gpucollSetDevice(1));
  for (int round = 0; round < 3; ++round) {
    auto comms = init_all(n);
    for (int i = 0; i < n; ++i) {
      int device = -1;
      GC_OK(gpucollCommCuDevice(comms[static_cast<size_t>(i)], &device));
      EXPECT_EQ(device, i);
      EXPECT_EQ(rank_of(comms[static_cast<size_t>(i)]), i);
      EXPECT_EQ(count_of(comms[static_cast<size_t>(i)]), n);
    }
    expect_all_work(comms);
    expect_all_work(comms);
    if (round == 1) std::reverse(comms.begin(), comms.end());
    if (round == 2) std::rotate(comms.begin(), comms.begin() + 2, comms.end());
    for (gpucollComm_t comm : comms) GC_OK(gpucollCommDestroy(comm));
  }
}

TEST(Comm, InitAllTakesDevicesInAnyOrder) {
  if (!enough_devices(3)) return;
  const int devices[] = {2, 0, 1}, shared[] = {1, 1, 0};
  auto comms = init_all(3, devices);
  expect_all_work(comms);
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommDestroy(comm));
  if (on_gpus()) return;  // refused there: see bad_input_test
  comms = init_all(3, shared);
  expect_all_work(comms);
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommDestroy(comm));
}

TEST(Comm, SplitOrdersByKeyThenByRank) {
  constexpr int n = 6;
  // Ranks:               0   1  2  3   4  5
  const int colors[n] = {7, 0, 7, GPUCOLL_SPLIT_NOCOLOR, 7, 0};
  const int keys[n] = {3, -5, -2000000000, 0, 3, -5};
  const std::vector<int> of_seven = {2, 0, 4}, of_zero = {1, 5};
  on_ranks(n, [&](gpucollComm_t comm, int rank) {
    gpucollComm_t part = comm;
    GC_OK(gpucollCommSplit(comm, colors[rank], keys[rank], &part));
    if (colors[rank] < 0) {
      EXPECT_EQ(part, nullptr);
    } else {
      const auto& members = colors[rank] == 7 ? of_seven : of_zero;
      EXPECT_EQ(count_of(part), static_cast<int>(members.size()));
      EXPECT_EQ(members[static_cast<size_t>(rank_of(part))], rank);
      expect_works(part, rank, members);
    }
    expect_works(comm, rank, first_ranks(n));
    GC_OK(gpucollCommDestroy(part));
  });
}

TEST(Comm, PartsAreSplitAgainAndOutliveWhatTheyWereMadeFrom) {
  constexpr int n = 5;
  if (!enough_devices(n)) return;
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  on_threads(n, [&](int rank) {
    choose_device(rank);
    gpucollComm_t whole = nullptr, turned = nullptr, part = nullptr, alone = nullptr;
    GC_OK(gpucollCommInitRank(&whole, n, id, rank));
    GC_OK(gpucollCommSplit(whole, 0, -rank, &turned));
    EXPECT_EQ(rank_of(turned), n - 1 - rank);
    expect_works(turned, rank, first_ranks(n));
    GC_OK(gpucollCommDestroy(whole));
    GC_OK(gpucollCommSplit(turned, rank < 2, rank, &part));
    GC_OK(gpucollCommDestroy(turned));
    const std::vector<int> members = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3, 4};
    EXPECT_EQ(count_of(part), static_cast<int>(members.size()));
    expect_works(part, rank, members);
    GC_OK(gpucollCommSplit(part, rank, 0, &alone));
    EXPECT_EQ(count_of(alone), 1);
    expect_works(alone, rank, {rank});
    expect_works(part, rank, members);
    GC_OK(gpucollCommDestroy(alone));
    GC_OK(gpucollCommDestroy(part));
  });
}

TEST(Comm, OneThreadSplitsAllRanksInAGroup) {
  constexpr int n = 4;
  if (!enough_devices(n)) return;
  auto comms = init_all(n);
  // Two splits of each communicator in one group: those of a communicator are made in the order of the calls.
  std::vector<gpucollComm_t> halves(n), turned(n);
  GC_OK(gpucollGroupStart());
  for (int i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    GC_OK(gpucollCommSplit(comms[at], i / 2, 0, &halves[at]));
    GC_OK(gpucollCommSplit(comms[at], 5, -i, &turned[at]));
  }
  GC_OK(gpucollGroupEnd());
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(count_of(halves[static_cast<size_t>(i)]), 2);
    EXPECT_EQ(rank_of(halves[static_cast<size_t>(i)]), i % 2);
    EXPECT_EQ(rank_of(turned[static_cast<size_t>(i)]), n - 1 - i);
  }
  expect_all_work({halves[2], halves[3]});
  expect_all_work(turned);
  expect_all_work(comms);
  for (auto* list : {&comms, &turned, &halves})
    for (gpucollComm_t comm : *list) GC_OK(gpucollCommDestroy(comm));
}

TEST(Comm, AFinalizedOneIsOnlyGoodForDestroying) {
  constexpr int n = 3;
  if (!enough_devices(n)) return;
  auto comms = init_all(n);
  std::vector<std::unique_ptr<Work>> work;
  for (int i = 0; i < n; ++i) {
    GC_OK(gpucollSetDevice(i));
    work.push_back(std::make_unique<Work>());
    work.back()->fill(i);
  }
  GC_OK(gpucollGroupStart());
  for (size_t i = 0; i < n; ++i) GC_OK(work[i]->start(comms[i]));
  GC_OK(gpucollGroupEnd());
  GC_OK(gpucollGroupStart());
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommFinalize(comm));
  GC_OK(gpucollGroupEnd());
  for (auto& w : work) w->expect_sum(first_ranks(n));
  expect_refused(gpucollInvalidUsage, work[0]->start(comms[0]), "finalised");
  for (gpucollComm_t comm : comms) {
    EXPECT_EQ(count_of(comm), n);
    GC_OK(gpucollCommDestroy(comm));
  }
}

TEST(Comm, ManyInOneGroup) {
  constexpr int n = 3;
  if (!enough_devices(n)) return;
  constexpr size_t kComms = 4;
  std::vector<std::vector<gpucollComm_t>> comms;
  for (size_t c = 0; c < kComms; ++c) comms.push_back(init_all(n));
  std::vector<std::unique_ptr<Work>> work;
  for (size_t c = 0; c < kComms; ++c)
    for (int i = 0; i < n; ++i) {
      GC_OK(gpucollSetDevice(i));
      work.push_back(std::make_unique<Work>());
      work.back()->fill(i);
    }
  GC_OK(gpucollGroupStart());
  for (size_t c = 0; c < kComms; ++c)
    for (size_t i = 0; i < n; ++i) GC_OK(work[c * n + i]->start(comms[c][i]));
  GC_OK(gpucollGroupEnd());
  for (auto& w : work) w->expect_sum(first_ranks(n));
  for (auto& list : comms)
    for (gpucollComm_t comm : list) GC_OK(gpucollCommDestroy(comm));
}

// Memory that each further communicator over the same ranks costs: unused, after an allreduce of 4 KB (mesh), after one
// of 1 MB (ring); and that it comes back, but for what the allocator keeps, which is less each time.
TEST(Comm, SixtyFourCostLittleEach) {
  constexpr int n = 4;
  constexpr size_t kComms = 64, kSmall = 1000, kLarge = 262147;
  if (!enough_devices(n)) return;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (int i = 0; i < n; ++i) {
    GC_OK(gpucollSetDevice(i));
    streams.push_back(std::make_unique<Stream>());
    buffers.push_back(std::make_unique<DeviceBuffer>(kLarge * sizeof(int32_t)));
  }
  const auto run = [&](const std::vector<gpucollComm_t>& list, size_t count) {
    GC_OK(gpucollGroupStart());
    for (size_t i = 0; i < n; ++i)
      GC_OK(gpucollAllReduce(buffers[i]->at(), buffers[i]->at(), count, gpucollInt32, gpucollMax, list[i],
                             streams[i]->handle));
    GC_OK(gpucollGroupEnd());
    for (auto& stream : streams) GC_OK(gpucollStreamSynchronize(stream->handle));
  };
  const auto destroy = [](const std::vector<gpucollComm_t>& list) {
    for (gpucollComm_t comm : list) GC_OK(gpucollCommDestroy(comm));
  };
  auto first = init_all(n);  // what the first one of a process costs
  run(first, kLarge);
  for (const long most_kept : {64 << 10, 16 << 10, 4 << 10}) {
    const int files = open_files();
    const auto report = [&, before = resident_bytes()](const char* when, long most) {
      const long each = (resident_bytes() - before) / static_cast<long>(kComms * n);
      std::printf("a communicator of %d ranks costs each rank %ld KB of memory %s\n", n, each / 1024, when);
      EXPECT_TRUE(on_gpus() || kSanitized || each < most) << when;
    };
    std::vector<std::vector<gpucollComm_t>> comms;
    for (size_t c = 0; c < kComms; ++c) comms.push_back(init_all(n));
    EXPECT_LE(open_files(), files + 8);
    report("unused", 64 << 10);
    for (auto& list : comms) run(list, kSmall);
    report("after small allreduces", 256 << 10);
    for (auto& list : comms) run(list, kLarge);
    report("after large allreduces", 2 << 20);
    for (auto& list : comms) destroy(list);
    report("destroyed", most_kept);
    EXPECT_LE(open_files(), files + 8);
  }
  destroy(first);
}

// While a thread waits for a peer that never comes, another one aborts the communicator.
// A handle is the caller's once a group is to make it: another thread may abort it while the group's end waits for the
// other ranks, which ends that, and must not have it used again before.
TEST(Comm, AnAbortEndsTheGroupThatMakesIt) {
  if (!enough_devices(2)) return;
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  std::atomic<gpucollComm_t> shown{nullptr};
  gpucollResult_t ended = gpucollSuccess;
  std::thread maker([&] {
    choose_device(0);
    gpucollComm_t comm = nullptr;
    GC_OK(gpucollGroupStart());
    GC_OK(gpucollCommInitRank(&comm, 2, id, 0));
    shown = comm;
    ended = gpucollGroupEnd();
  });
  while (!shown) usleep(1000);
  usleep(1'000'000);
  GC_OK(gpucollCommAbort(shown));
  maker.join();
  EXPECT_EQ(ended, gpucollAborted);
  gpucollComm_t other = nullptr;
  choose_device(1);
  EXPECT_EQ(gpucollAborted, gpucollCommInitRank(&other, 2, id, 1)) << "the other rank learns why";
}

// The group makes another communicator, too, whose other rank does not come.
TEST(Comm, AnAbortWaitsForNothingElseOfTheGroup) {
  gpucollUniqueId ids[2];
  for (gpucollUniqueId& id : ids) GC_OK(gpucollGetUniqueId(&id));
  gpucollComm_t alone = nullptr, incomplete = nullptr;
  std::atomic<bool> shown{false};
  gpucollResult_t ended = gpucollSuccess;
  std::thread maker([&] {
    choose_device(0);
    GC_OK(gpucollGroupStart());
    GC_OK(gpucollCommInitRank(&alone, 1, ids[0], 0));
    GC_OK(gpucollCommInitRank(&incomplete, 2, ids[1], 0));
    shown = true;
    ended = gpucollGroupEnd();
  });
  while (!shown) usleep(1000);
  usleep(1'000'000);
  GC_OK(gpucollCommAbort(alone));
  GC_OK(gpucollCommAbort(incomplete));
  maker.join();
  EXPECT_EQ(ended, gpucollAborted);
}

TEST(Comm, AnAbortEndsWaitingForConnections) {
  if (!enough_devices(2)) return;
  auto comms = init_all(2);
  GC_OK(gpucollSetDevice(0));
  Work work;
  gpucollResult_t result = gpucollSuccess;
  std::thread waiting([&] {
    choose_device(0);
    result = work.start(comms[0]);
  });
  usleep(1'000'000);
  GC_OK(gpucollCommAbort(comms[0]));
  waiting.join();
  EXPECT_EQ(result, gpucollAborted);
  gpucollResult_t error = gpucollSuccess;
  for (int i = 0; i < 5000 && error == gpucollSuccess; ++i) {
    usleep(1000);
    GC_OK(gpucollCommGetAsyncError(comms[1], &error));
  }
  EXPECT_EQ(error, gpucollRemoteError);
  EXPECT_EQ(gpucollRemoteError, gpucollCommDestroy(comms[1]));
}

// A program asks for errors until there is one; a thread that goes on after the communicator is gone floods no log.
TEST(Comm, PollingADestroyedOneIsToldOnce) {
  gpucollComm_t comm = nullptr;
  gpucollResult_t error = gpucollSuccess;
  GC_OK(gpucollCommInitAll(&comm, 1, nullptr));
  GC_OK(gpucollCommDestroy(comm));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(gpucollInvalidArgument, gpucollCommGetAsyncError(comm, &error));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_STRNE(gpucollGetLastError(nullptr), "");
}

// A communicator connects channels as it needs them.
TEST(Comm, GrowsWithItsOperations) {
  constexpr int n = 3;
  on_ranks(n, [](gpucollComm_t comm, int rank) {
    Stream stream;
    constexpr size_t kMost = 3 << 20;
    DeviceBuffer buffer(kMost * sizeof(int32_t));
    std::vector<int32_t> mine(kMost);
    for (size_t i = 0; i < kMost; ++i) mine[i] = value(rank, i);
    for (size_t count : {size_t{5}, size_t{30001}, kMost, size_t{100}, kMost - 7}) {
      buffer.put(mine);
      GC_OK(gpucollAllReduce(buffer.at(), buffer.at(), count, gpucollInt32, gpucollSum, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      const auto result = buffer.get<int32_t>(count);
      for (size_t i = 0; i < count; i += 1 + count / 5000)
        ASSERT_EQ(result[i], value(0, i) + value(1, i) + value(2, i)) << count << " elements, at " << i;
    }
  });
}

TEST(Comm, RefusesWhatMakesNoSense) {
  gpucollComm_t none = nullptr, list[2] = {};
  int number = 0;
  expect_refused(gpucollInvalidArgument, gpucollCommInitAll(nullptr, 2, nullptr), "comms");
  expect_refused(gpucollInvalidArgument, gpucollCommInitAll(list, 0, nullptr), "0 communicators");
  const int missing[] = {0, 4711}, negative[] = {-1, 0};
  expect_refused(gpucollInvalidArgument, gpucollCommInitAll(list, 2, missing), "4711");
  expect_refused(gpucollInvalidArgument, gpucollCommInitAll(list, 2, negative), "-1");
  EXPECT_EQ(list[0], nullptr);
  expect_refused(gpucollInvalidArgument, gpucollCommSplit(nullptr, 0, 0, &none), "communicator");
  expect_refused(gpucollInvalidArgument, gpucollCommFinalize(nullptr), "communicator");
  expect_refused(gpucollInvalidArgument, gpucollCommCuDevice(nullptr, &number), "communicator");
  gpucollComm_t comm = init_all(1)[0];
  expect_refused(gpucollInvalidArgument, gpucollCommSplit(comm, 0, 0, nullptr), "newcomm");
  expect_refused(gpucollInvalidArgument, gpucollCommSplit(comm, -2, 0, &none), "color -2");
  expect_refused(gpucollInvalidArgument, gpucollCommCuDevice(comm, nullptr), "device");
  GC_OK(gpucollGroupStart());
  GC_OK(gpucollCommSplit(comm, 0, 0, &none));
  expect_refused(gpucollInvalidUsage, gpucollCommDestroy(comm), "GroupEnd");
  expect_refused(gpucollInvalidUsage, gpucollCommDestroy(none), "GroupEnd");
  expect_refused(gpucollInvalidUsage, gpucollCommCount(none, &number), "GroupEnd");
  GC_OK(gpucollGroupEnd());
  EXPECT_EQ(count_of(none), 1);
  GC_OK(gpucollCommDestroy(none));
  GC_OK(gpucollCommDestroy(comm));
  expect_refused(gpucollInvalidArgument, gpucollCommSplit(comm, 0, 0, &none), "destroyed");
}
