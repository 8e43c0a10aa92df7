// Communicators that do not block: what goes on in the background, what is refused meanwhile, and how it ends.
#include <sys/wait.h>

#include <atomic>
#include <barrier>
#include <memory>

#include "../patience.h"
#include "../resources.h"
#include "ranks.h"

using namespace gpucoll_test;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kAtOnce(8);  // far less than the parameter timeout of these tests

gpucollConfig_t nonblocking() {
  gpucollConfig_t config = GPUCOLL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

gpucollResult_t state_of(gpucollComm_t comm) {
  gpucollResult_t error = gpucollInternalError;
  EXPECT_EQ(gpucollSuccess, gpucollCommGetAsyncError(comm, &error)) << gpucollGetLastError(nullptr);
  return error;
}

gpucollResult_t await_end(gpucollComm_t comm) {
  const auto end = Clock::now() + patience(std::chrono::seconds(20));
  while (state_of(comm) == gpucollInProgress && Clock::now() < end) usleep(500);
  return state_of(comm);
}

void expect_goes_on(gpucollComm_t comm) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(state_of(comm), gpucollInProgress);
    usleep(2000);
  }
  int number = 0;
  EXPECT_EQ(gpucollCommCount(comm, &number), gpucollInvalidUsage);
  EXPECT_NE(std::strstr(gpucollGetLastError(nullptr), "goes on in the background"), nullptr)
      << gpucollGetLastError(nullptr);
}

bool begun(gpucollResult_t result) { return result == gpucollSuccess || result == gpucollInProgress; }

struct Id {
  gpucollUniqueId id;
  Id() { EXPECT_EQ(gpucollSuccess, gpucollGetUniqueId(&id)); }
};

gpucollComm_t init(const gpucollUniqueId& id, int n, int rank) {
  choose_device(rank);
  const gpucollConfig_t config = nonblocking();
  gpucollComm_t comm = nullptr;
  EXPECT_EQ(gpucollInProgress, gpucollCommInitRankConfig(&comm, n, id, rank, &config));
  EXPECT_NE(comm, nullptr);
  return comm;
}

// Two communicators of one process, made by this thread alone.
std::vector<gpucollComm_t> pair() {
  const Id id;
  std::vector<gpucollComm_t> comms = {init(id.id, 2, 0), init(id.id, 2, 1)};
  for (gpucollComm_t comm : comms) EXPECT_EQ(await_end(comm), gpucollSuccess) << gpucollGetLastError(comm);
  return comms;
}

struct OnDevice {
  OnDevice(int rank) { choose_device(rank); }
};

// An allreduce of a rank, on the rank's device.
struct Work : OnDevice {
  static constexpr size_t kCount = 20'000;
  using OnDevice::OnDevice;
  Stream stream;
  DeviceBuffer buffer{kCount * sizeof(int32_t)};
  gpucollResult_t start(gpucollComm_t comm, size_t count = kCount) {
    buffer.put(std::vector<int32_t>(kCount, 1));
    return gpucollAllReduce(buffer.at(), buffer.at(), count, gpucollInt32, gpucollSum, comm, stream.handle);
  }
  void expect(int32_t expected, size_t count = kCount) {
    GC_OK(gpucollStreamSynchronize(stream.handle));
    for (int32_t value : buffer.get<int32_t>(count)) ASSERT_EQ(value, expected);
  }
};

void expect_work(const std::vector<gpucollComm_t>& comms) {
  std::vector<std::unique_ptr<Work>> works;
  for (gpucollComm_t comm : comms) {
    int device = 0;
    GC_OK(gpucollCommCuDevice(comm, &device));
    works.push_back(std::make_unique<Work>(device));
    ASSERT_TRUE(begun(works.back()->start(comm))) << gpucollGetLastError(nullptr);
  }
  for (gpucollComm_t comm : comms) ASSERT_EQ(await_end(comm), gpucollSuccess) << gpucollGetLastError(comm);
  for (const auto& work : works) work->expect(static_cast<int32_t>(comms.size()));
}

void destroy(const std::vector<gpucollComm_t>& comms) {
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommDestroy(comm));
}

// Checks that the body ends at once.
template <class Body>
void at_once(Body&& body) {
  const auto start = Clock::now();
  body();
  EXPECT_LT(Clock::now() - start, kAtOnce);
}

}  // namespace

TEST(Nonblocking, MakingGoesOnUntilAllHaveCome) {
  const Id id;
  gpucollComm_t first = init(id.id, 2, 0);
  expect_goes_on(first);
  Work work(0);
  EXPECT_EQ(work.start(first), gpucollInvalidUsage);
  gpucollComm_t second = init(id.id, 2, 1);
  EXPECT_EQ(await_end(first), gpucollSuccess);
  EXPECT_EQ(await_end(second), gpucollSuccess);
  int number = 0;
  GC_OK(gpucollCommCount(first, &number));
  EXPECT_EQ(number, 2);
  GC_OK(gpucollCommUserRank(second, &number));
  EXPECT_EQ(number, 1);
  expect_work({first, second});
  destroy({first, second});
}

TEST(Nonblocking, ConnectionsAreMadeInTheBackground) {
  const auto comms = pair();
  Work works[2] = {0, 1};
  ASSERT_EQ(works[0].start(comms[0]), gpucollInProgress);
  expect_goes_on(comms[0]);
  ASSERT_EQ(works[1].start(comms[1]), gpucollInProgress);
  for (size_t i : {0u, 1u}) EXPECT_EQ(await_end(comms[i]), gpucollSuccess);
  for (Work& work : works) work.expect(2);
  for (size_t i : {0u, 1u}) EXPECT_EQ(works[i].start(comms[i]), gpucollSuccess);  // all that it needs is there
  for (Work& work : works) work.expect(2);
  destroy(comms);
}

TEST(Nonblocking, AGroupGoesOn) {
  const Id id;
  gpucollComm_t comms[2] = {};
  const gpucollConfig_t config = nonblocking();
  GC_OK(gpucollGroupStart());
  for (int rank : {0, 1}) {
    choose_device(rank);
    GC_OK(gpucollCommInitRankConfig(&comms[rank], 2, id.id, rank, &config));
  }
  ASSERT_EQ(gpucollGroupEnd(), gpucollInProgress);
  for (gpucollComm_t comm : comms) ASSERT_EQ(await_end(comm), gpucollSuccess) << gpucollGetLastError(comm);
  Work works[2] = {0, 1};
  std::vector<std::unique_ptr<DeviceBuffer>> sent, received;
  for (int rank : {0, 1}) {
    choose_device(rank);
    sent.push_back(std::make_unique<DeviceBuffer>(16));
    received.push_back(std::make_unique<DeviceBuffer>(16));
    sent.back()->put(std::vector<int32_t>(4, 5 + rank));
  }
  GC_OK(gpucollGroupStart());
  for (int rank : {0, 1}) {
    GC_OK(works[rank].start(comms[rank]));
    const auto r = static_cast<size_t>(rank);
    GC_OK(gpucollSend(sent[r]->at(), 4, gpucollInt32, 1 - rank, comms[rank], works[rank].stream.handle));
    GC_OK(gpucollRecv(received[r]->at(), 4, gpucollInt32, 1 - rank, comms[rank], works[rank].stream.handle));
  }
  ASSERT_EQ(gpucollGroupEnd(), gpucollInProgress);
  for (gpucollComm_t comm : comms) ASSERT_EQ(await_end(comm), gpucollSuccess) << gpucollGetLastError(comm);
  for (Work& work : works) work.expect(2);
  for (size_t r : {0u, 1u}) EXPECT_EQ(received[r]->get<int32_t>(4), std::vector<int32_t>(4, 6 - static_cast<int>(r)));
  destroy({comms[0], comms[1]});
}

TEST(Nonblocking, AGroupWithOneThatBlocksBlocks) {
  const auto comms = pair();
  gpucollComm_t blocking[2];
  int count = 0;
  GC_OK(gpucollDeviceCount(&count));
  const int devices[] = {0, 1 % count};
  GC_OK(gpucollCommInitAll(blocking, 2, devices));
  Work works[4] = {0, 1, 0, 1};
  GC_OK(gpucollGroupStart());
  for (int rank : {0, 1}) {
    GC_OK(works[rank].start(comms[static_cast<size_t>(rank)]));
    GC_OK(works[2 + rank].start(blocking[rank]));
  }
  GC_OK(gpucollGroupEnd());
  for (Work& work : works) work.expect(2);
  destroy(comms);
  destroy({blocking[0], blocking[1]});
}

TEST(Nonblocking, ASplitGoesOn) {
  const auto comms = pair();
  gpucollComm_t parts[2] = {};
  ASSERT_EQ(gpucollCommSplit(comms[0], 0, 0, &parts[0]), gpucollInProgress);
  ASSERT_NE(parts[0], nullptr);
  expect_goes_on(comms[0]);
  expect_goes_on(parts[0]);
  ASSERT_EQ(gpucollCommSplit(comms[1], 0, 1, &parts[1]), gpucollInProgress);
  for (gpucollComm_t comm : {comms[0], comms[1], parts[0], parts[1]})
    EXPECT_EQ(await_end(comm), gpucollSuccess) << gpucollGetLastError(comm);
  expect_work({parts[0], parts[1]});
  expect_work(comms);
  gpucollComm_t none = nullptr, alone = nullptr;
  ASSERT_EQ(gpucollCommSplit(comms[0], GPUCOLL_SPLIT_NOCOLOR, 0, &none), gpucollInProgress);
  ASSERT_EQ(gpucollCommSplit(comms[1], 3, 1, &alone), gpucollInProgress);
  for (gpucollComm_t comm : {comms[0], comms[1], alone}) EXPECT_EQ(await_end(comm), gpucollSuccess);
  EXPECT_EQ(none, nullptr);
  expect_work({alone});
  destroy({parts[0], parts[1], alone, comms[0], comms[1]});
}

TEST(Nonblocking, AShrinkGoesOn) {
  const auto comms = pair();
  gpucollComm_t both[2] = {}, alone = nullptr;
  ASSERT_EQ(gpucollCommShrink(comms[1], nullptr, 0, &both[1], nullptr, GPUCOLL_SHRINK_DEFAULT), gpucollInProgress);
  expect_goes_on(comms[1]);
  expect_goes_on(both[1]);
  ASSERT_EQ(gpucollCommShrink(comms[0], nullptr, 0, &both[0], nullptr, GPUCOLL_SHRINK_DEFAULT), gpucollInProgress);
  for (gpucollComm_t comm : {both[0], both[1], comms[0], comms[1]}) EXPECT_EQ(await_end(comm), gpucollSuccess);
  expect_work({both[0], both[1]});
  const int other = 1;
  ASSERT_EQ(gpucollCommShrink(comms[0], &other, 1, &alone, nullptr, GPUCOLL_SHRINK_ABORT), gpucollInProgress);
  EXPECT_EQ(await_end(alone), gpucollSuccess) << gpucollGetLastError(alone);
  expect_work({alone});
  destroy({both[0], both[1], alone});
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommAbort(comm));
}

TEST(Nonblocking, FinalisingGoesOn) {
  const auto comms = pair();
  expect_work(comms);
  for (gpucollComm_t comm : comms) EXPECT_EQ(gpucollCommFinalize(comm), gpucollInProgress);
  for (gpucollComm_t comm : comms) EXPECT_EQ(await_end(comm), gpucollSuccess);
  Work work(0);
  EXPECT_EQ(work.start(comms[0]), gpucollInvalidUsage);
  destroy(comms);
}

TEST(Nonblocking, AnAbortEndsTheMaking) {
  const Id id;
  gpucollComm_t comm = init(id.id, 2, 0);
  usleep(50'000);
  at_once([&] { GC_OK(gpucollCommAbort(comm)); });
  at_once([&] {
    gpucollComm_t other = nullptr;
    const gpucollConfig_t config = nonblocking();
    if (gpucollCommInitRankConfig(&other, 2, id.id, 1, &config) == gpucollInProgress) {
      EXPECT_EQ(await_end(other), gpucollAborted);
      EXPECT_NE(std::strstr(gpucollGetLastError(other), "aborted by its program"), nullptr)
          << gpucollGetLastError(other);
      GC_OK(gpucollCommDestroy(other));
    }
  });
  GC_OK(gpucollGetUniqueId(const_cast<gpucollUniqueId*>(&id.id)));
  comm = init(id.id, 2, 1);  // whose maker waits in vain
  at_once([&] { gpucollCommDestroy(comm); });
}

// All that left in one group ends together: nobody waits for a meeting that another communicator's abort would end.
TEST(Nonblocking, AnAbortEndsAllThatLeftWithIt) {
  const Id ids[2];
  gpucollComm_t comms[2] = {};
  GC_OK(gpucollGroupStart());
  for (int i = 0; i < 2; ++i) {
    choose_device(i);
    const gpucollConfig_t config = nonblocking();
    EXPECT_TRUE(begun(gpucollCommInitRankConfig(&comms[i], 2, ids[i].id, 0, &config)));
  }
  EXPECT_EQ(gpucollGroupEnd(), gpucollInProgress);
  usleep(50'000);
  at_once([&] {
    for (gpucollComm_t comm : comms) GC_OK(gpucollCommAbort(comm));
  });
}

// As PyTorch aborts all of a process's communicators.
TEST(Nonblocking, OneThatCouldNotBeMadeIsAbortedInAGroup) {
  const Id id;
  gpucollComm_t comms[2] = {init(id.id, 2, 0), nullptr};
  const gpucollConfig_t config = nonblocking();
  ASSERT_TRUE(begun(gpucollCommInitRankConfig(&comms[1], 3, id.id, 1, &config)));
  for (gpucollComm_t comm : comms) EXPECT_EQ(await_end(comm), gpucollInvalidUsage);
  GC_OK(gpucollGroupStart());
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommAbort(comm));
  GC_OK(gpucollGroupEnd());
}

TEST(Nonblocking, AnAbortEndsASplitAShrinkAndConnecting) {
  for (int what = 0; what < 4; ++what) {
    const auto comms = pair();
    gpucollComm_t child = nullptr;
    Work work(0);
    const gpucollResult_t result = what <= 1   ? gpucollCommSplit(comms[0], 0, 0, &child)
                                   : what == 2 ? gpucollCommShrink(comms[1], nullptr, 0, &child, nullptr, 0)
                                               : work.start(comms[0]);
    ASSERT_EQ(result, gpucollInProgress);
    usleep(20'000);
    if (child && what != 1) at_once([&] { GC_OK(gpucollCommAbort(child)); });
    at_once([&] { GC_OK(gpucollCommAbort(comms[what == 2 ? 1 : 0])); });
    if (what == 1) {
      EXPECT_NE(await_end(child), gpucollSuccess);
      at_once([&] { GC_OK(gpucollCommDestroy(child)); });
    }
    at_once([&] { GC_OK(gpucollCommAbort(comms[what == 2 ? 0 : 1])); });
  }
}

TEST(Nonblocking, WhoFailsIsToldByTheState) {
  const Id id;
  gpucollComm_t comms[2] = {init(id.id, 2, 0), nullptr};
  const gpucollConfig_t config = nonblocking();
  ASSERT_TRUE(begun(gpucollCommInitRankConfig(&comms[1], 3, id.id, 1, &config)));
  at_once([&] {
    for (gpucollComm_t comm : comms) {
      EXPECT_EQ(await_end(comm), gpucollInvalidUsage);
      EXPECT_NE(std::strstr(gpucollGetLastError(comm), "another rank says"), nullptr) << gpucollGetLastError(comm);
      Work work(0);
      EXPECT_EQ(work.start(comm), gpucollInvalidUsage);
      GC_OK(gpucollCommDestroy(comm));
    }
  });
}

// A rank that does not make the call leaves the other one in the background; its abort ends that.
TEST(Nonblocking, APeersAbortEndsWhatGoesOn) {
  const auto comms = pair();
  Work work(0);
  ASSERT_EQ(work.start(comms[0]), gpucollInProgress);
  usleep(20'000);
  GC_OK(gpucollCommAbort(comms[1]));
  at_once([&] { EXPECT_EQ(await_end(comms[0]), gpucollRemoteError); });
  at_once([&] { GC_OK(gpucollCommAbort(comms[0])); });
}

TEST(Nonblocking, ThreadsMayPollAndAbortAtAnyTime) {
  if (!enough_devices(3)) GTEST_SKIP();
  for (int round = 0; round < 20; ++round) {
    const Id id;
    std::barrier all(3);
    on_threads(3, [&](int rank) {
      gpucollComm_t comm = init(id.id, 3, rank);
      std::atomic<bool> through{false};
      std::thread poller([&] {
        while (!through) state_of(comm);
      });
      if (round % 2) {
        EXPECT_EQ(await_end(comm), gpucollSuccess);
        all.arrive_and_wait();
        gpucollComm_t part = nullptr;
        const gpucollResult_t split = gpucollCommSplit(comm, 0, rank, &part);
        EXPECT_TRUE(begun(split) || round % 4 == 3);
        if (round % 4 == 1) {
          EXPECT_EQ(await_end(part), gpucollSuccess) << gpucollGetLastError(part);
          all.arrive_and_wait();
        }
        EXPECT_EQ(gpucollCommAbort(part), gpucollSuccess);
      }
      through = true;
      poller.join();
      EXPECT_EQ(gpucollCommAbort(comm), gpucollSuccess);
    });
  }
}
