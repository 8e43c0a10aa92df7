// Communicators that share one another's connections (gpucollConfig_t::splitShare).
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <fstream>
#include <memory>

#include "ranks.h"

using namespace gpucoll_test;

namespace {

constexpr int kRanks = 3;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // with memory of its own beside each byte
#else
constexpr bool kSanitized = false;
#endif

gpucollConfig_t sharing(int share = 1) {
  gpucollConfig_t config = GPUCOLL_CONFIG_INITIALIZER;
  config.splitShare = share;
  return config;
}

// Runs body(whole, rank) on every rank of a communicator that shares; body destroys it.
void on_sharing_ranks(int n, const std::function<void(gpucollComm_t, int)>& body) {
  const gpucollConfig_t config = sharing();
  on_ranks_that_destroy(n, body, &config);
}

std::vector<gpucollComm_t> with_parts(gpucollComm_t whole, size_t count) {
  std::vector<gpucollComm_t> comms = {whole};
  while (comms.size() < count) {
    gpucollComm_t part = nullptr;
    EXPECT_EQ(gpucollSuccess, gpucollCommSplit(comms[comms.size() / 2], 0, 7, &part));
    comms.push_back(part);
  }
  return comms;
}

void destroy(const std::vector<gpucollComm_t>& comms) {
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommDestroy(comm));
}

// Memory, a stream, and values that depend on rank, index and place.
struct Work {
  explicit Work(size_t n, int shift = 0) : count(n), place(shift), buffer(n * sizeof(int32_t)) {}
  const size_t count;
  const int place;
  Stream stream;
  DeviceBuffer buffer;

  int32_t input(int rank, size_t i) const { return value(rank, i + static_cast<size_t>(place) * 5); }
  void fill(int rank) {
    std::vector<int32_t> mine(count);
    for (size_t i = 0; i < count; ++i) mine[i] = input(rank, i);
    buffer.put(mine);
  }
  gpucollResult_t start(gpucollComm_t comm) {
    return gpucollAllReduce(buffer.at(), buffer.at(), count, gpucollInt32, gpucollSum, comm, stream.handle);
  }
  void expect_sum(int n) {
    ASSERT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream.handle));
    const auto result = buffer.get<int32_t>(count);
    for (size_t i = 0; i < count; ++i) {
      int32_t sum = 0;
      for (int rank = 0; rank < n; ++rank) sum += input(rank, i);
      ASSERT_EQ(result[i], sum) << "at " << i << " of " << count << ", place " << place;
    }
  }
};

void expect_works(gpucollComm_t comm, int rank, size_t count = 1003) {
  Work work(count);
  work.fill(rank);
  GC_OK(work.start(comm));
  work.expect_sum(kRanks);
}

long resident_bytes() {
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

// Each on a stream of its own, without a word between them: they use the same slots, so the device must order them.
TEST(Share, OperationsOnManyStreamsFollowEachOther) {
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    auto comms = with_parts(whole, 6);
    constexpr size_t kCounts[] = {3, 1003, 65537, 300001};
    for (size_t count : kCounts) expect_works(whole, rank, count);  // connects, so that nothing waits from here on
    for (int round = 0; round < 4; ++round) {
      std::vector<std::unique_ptr<Work>> work;
      for (size_t i = 0; i < comms.size(); ++i) {
        work.push_back(std::make_unique<Work>(kCounts[(i + static_cast<size_t>(round)) % 4], static_cast<int>(i)));
        work[i]->fill(rank);
      }
      for (size_t i = 0; i < comms.size(); ++i) GC_OK(work[i]->start(comms[(i * 5) % comms.size()]));
      for (auto& w : work) w->expect_sum(kRanks);
    }
    destroy(comms);
  });
}

// In a group, each rank may call in an order of its own; messages match those of the same communicator.
TEST(Share, InAGroupEachKeepsItsOwnMessages) {
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    constexpr size_t kComms = 4, kCount = 5001;
    auto comms = with_parts(whole, kComms);
    const int next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<Work>> sums, sent, received;
      for (size_t i = 0; i < kComms; ++i) {
        const int place = static_cast<int>(i) + 3 * round;
        for (auto* list : {&sums, &sent, &received}) list->push_back(std::make_unique<Work>(kCount, place));
        sums[i]->fill(rank);
        sent[i]->fill(rank);
      }
      GC_OK(gpucollGroupStart());
      for (size_t k = 0; k < kComms; ++k) {
        const size_t i = (k * 3 + static_cast<size_t>(rank)) % kComms;
        GC_OK(gpucollRecv(received[i]->buffer.at(), kCount, gpucollInt32, before, comms[i], sums[i]->stream.handle));
        GC_OK(sums[i]->start(comms[i]));
        GC_OK(gpucollSend(sent[i]->buffer.at(), kCount, gpucollInt32, next, comms[i], sums[i]->stream.handle));
      }
      GC_OK(gpucollGroupEnd());
      for (size_t i = 0; i < kComms; ++i) {
        sums[i]->expect_sum(kRanks);
        const auto got = received[i]->buffer.get<int32_t>(kCount);
        for (size_t j = 0; j < kCount; ++j) ASSERT_EQ(got[j], sent[i]->input(before, j)) << "communicator " << i;
      }
    }
    destroy(comms);
  });
}

// One thread drives all ranks: nothing that it starts may wait for what it starts later.
TEST(Share, OneThreadDrivesAllRanks) {
  if (!enough_devices(kRanks)) return;
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  const gpucollConfig_t config = sharing();
  std::vector<std::vector<gpucollComm_t>> comms(3, std::vector<gpucollComm_t>(kRanks));
  GC_OK(gpucollGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    choose_device(r);
    GC_OK(gpucollCommInitRankConfig(&comms[0][static_cast<size_t>(r)], kRanks, id, r, &config));
  }
  GC_OK(gpucollGroupEnd());
  GC_OK(gpucollGroupStart());
  for (size_t c = 1; c < comms.size(); ++c)
    for (size_t r = 0; r < kRanks; ++r) GC_OK(gpucollCommSplit(comms[0][r], 1, 0, &comms[c][r]));
  GC_OK(gpucollGroupEnd());
  std::vector<std::unique_ptr<Work>> work;
  for (size_t c = 0; c < comms.size(); ++c)
    for (int r = 0; r < kRanks; ++r) {
      choose_device(r);
      work.push_back(std::make_unique<Work>(c == 1 ? 200003 : 77, static_cast<int>(c)));
      work.back()->fill(r);
    }
  GC_OK(gpucollGroupStart());
  for (size_t r = 0; r < kRanks; ++r)
    for (size_t c = 0; c < comms.size(); ++c) GC_OK(work[c * kRanks + r]->start(comms[c][r]));
  GC_OK(gpucollGroupEnd());
  for (auto& w : work) w->expect_sum(kRanks);
  for (auto& list : comms) destroy(list);
}

// More messages of two communicators than the work FIFO holds, in one group, all ranks driven by one thread: the second
// communicator is planned when the first one's launches are out.
TEST(Share, TakeTurnsAtTheWorkFifo) {
  constexpr size_t kMessages = 5000;
  if (!enough_devices(kRanks)) return;
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  const gpucollConfig_t config = sharing();
  std::vector<gpucollComm_t> whole(kRanks), part(kRanks);
  GC_OK(gpucollGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    choose_device(r);
    GC_OK(gpucollCommInitRankConfig(&whole[static_cast<size_t>(r)], kRanks, id, r, &config));
  }
  GC_OK(gpucollGroupEnd());
  GC_OK(gpucollGroupStart());
  for (size_t r = 0; r < kRanks; ++r) GC_OK(gpucollCommSplit(whole[r], 0, 0, &part[r]));
  GC_OK(gpucollGroupEnd());
  std::vector<std::unique_ptr<Work>> sent, received;
  for (int r = 0; r < kRanks; ++r) {
    choose_device(r);
    sent.push_back(std::make_unique<Work>(2 * kMessages));
    received.push_back(std::make_unique<Work>(2 * kMessages));
    sent.back()->fill(r);
  }
  GC_OK(gpucollGroupStart());
  for (size_t i = 0; i < 2 * kMessages; ++i)
    for (size_t r = 0; r < kRanks; ++r) {
      const size_t at = i * sizeof(int32_t);
      const int next = static_cast<int>((r + 1) % kRanks), before = static_cast<int>((r + kRanks - 1) % kRanks);
      gpucollComm_t comm = i % 2 ? whole[r] : part[r];
      GC_OK(gpucollRecv(received[r]->buffer.at(at), 1, gpucollInt32, before, comm, sent[r]->stream.handle));
      GC_OK(gpucollSend(sent[r]->buffer.at(at), 1, gpucollInt32, next, comm, sent[r]->stream.handle));
    }
  GC_OK(gpucollGroupEnd());
  for (size_t r = 0; r < kRanks; ++r) {
    GC_OK(gpucollStreamSynchronize(sent[r]->stream.handle));
    const auto got = received[r]->buffer.get<int32_t>(2 * kMessages);
    const int before = static_cast<int>((r + kRanks - 1) % kRanks);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], sent[r]->input(before, i)) << "rank " << r << ", " << i;
  }
  destroy(whole);
  destroy(part);
}

TEST(Share, GoInAnyOrderAndOneIsLeft) {
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    auto comms = with_parts(whole, 5);
    Work work(30001);
    work.fill(rank);
    GC_OK(work.start(comms[3]));
    // Each rank in an order of its own; communicator 2 stays.
    constexpr std::array<std::array<size_t, 4>, kRanks> kOrders = {{{0, 1, 3, 4}, {4, 3, 1, 0}, {3, 0, 4, 1}}};
    for (size_t i : kOrders[static_cast<size_t>(rank)]) GC_OK(gpucollCommDestroy(comms[i]));
    work.expect_sum(kRanks);
    expect_works(comms[2], rank);
    gpucollComm_t again = nullptr;
    GC_OK(gpucollCommSplit(comms[2], 3, rank, &again));
    GC_OK(gpucollCommDestroy(comms[2]));
    expect_works(again, rank, 40001);
    GC_OK(gpucollCommDestroy(again));
  });
}

TEST(Share, AFinalisedOneEndsAlone) {
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    auto comms = with_parts(whole, 3);
    GC_OK(gpucollCommFinalize(comms[1]));
    Work work(7);
    work.fill(rank);
    EXPECT_EQ(gpucollInvalidUsage, work.start(comms[1]));
    gpucollComm_t none = nullptr;
    EXPECT_EQ(gpucollInvalidUsage, gpucollCommSplit(comms[1], 0, 0, &none));
    EXPECT_EQ(none, nullptr);
    expect_works(comms[0], rank);
    expect_works(comms[2], rank);
    GC_OK(gpucollCommFinalize(comms[2]));
    GC_OK(gpucollCommFinalize(comms[0]));
    destroy(comms);
  });
}

TEST(Share, FailTogether) {
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    auto comms = with_parts(whole, 3);
    expect_works(comms[1], rank);
    if (rank == 0) {
      GC_OK(gpucollCommAbort(comms[1]));
    }
    for (size_t i = 0; i < comms.size(); ++i) {
      if (rank == 0 && i == 1) continue;
      gpucollResult_t error = gpucollSuccess;
      for (int look = 0; look < 5000 && error == gpucollSuccess; ++look) {
        usleep(1000);
        GC_OK(gpucollCommGetAsyncError(comms[i], &error));
      }
      EXPECT_EQ(error, rank == 0 ? gpucollAborted : gpucollRemoteError) << "communicator " << i;
      EXPECT_EQ(error, gpucollCommDestroy(comms[i]));
    }
  });
}

// Other ranks, or the same in another order: they have connections of their own, and parts of those share again.
TEST(Share, OnlyTheSameRanksInTheSameOrder) {
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    gpucollComm_t turned = nullptr, pair = nullptr, turned_too = nullptr;
    GC_OK(gpucollCommSplit(whole, 0, -rank, &turned));
    GC_OK(gpucollCommSplit(whole, rank < 2 ? 0 : GPUCOLL_SPLIT_NOCOLOR, 0, &pair));
    GC_OK(gpucollCommSplit(turned, 0, 0, &turned_too));
    int place = -1;
    GC_OK(gpucollCommUserRank(turned_too, &place));
    EXPECT_EQ(place, kRanks - 1 - rank);
    expect_works(whole, rank, 20001);  // connects, for which all ranks wait
    expect_works(turned, rank, 20001);
    // Not shared: what one rank does first on one of them, another does last.
    std::vector<std::unique_ptr<Work>> work;
    for (int i = 0; i < 3; ++i) {
      work.push_back(std::make_unique<Work>(20001, i));
      work.back()->fill(rank);
    }
    for (int k = 0; k < 2; ++k) {
      const int i = rank == 1 ? 1 - k : k;
      GC_OK(work[static_cast<size_t>(i)]->start(i == 0 ? whole : turned));
    }
    GC_OK(work[2]->start(turned_too));
    for (auto& w : work) w->expect_sum(kRanks);
    if (pair) {
      Work of_two(501);
      of_two.fill(rank);
      GC_OK(of_two.start(pair));
      of_two.expect_sum(2);
    }
    destroy({whole, turned, turned_too, pair});
  });
}

TEST(Share, TakesAllRanksToAgree) {
  if (!enough_devices(kRanks)) return;
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  on_threads(kRanks, [&](int rank) {
    choose_device(rank);
    gpucollComm_t whole = nullptr, part = nullptr;
    const gpucollConfig_t config = sharing(rank != 1);
    GC_OK(gpucollCommInitRankConfig(&whole, kRanks, id, rank, &config));
    GC_OK(gpucollCommSplit(whole, 0, 0, &part));
    expect_works(whole, rank, 20001);
    expect_works(part, rank, 20001);
    Work first(20001), second(20001, 1);
    first.fill(rank);
    second.fill(rank);
    GC_OK(rank == 1 ? first.start(whole) : second.start(part));
    GC_OK(rank == 1 ? second.start(part) : first.start(whole));
    first.expect_sum(kRanks);
    second.expect_sum(kRanks);
    destroy({part, whole});
  });
}

// A graph of one communicator between operations of another.
TEST(Share, GraphsAreOrderedAsWell) {
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    auto comms = with_parts(whole, 2);
    Work captured(60001), other(50001, 1);
    other.fill(rank);
    Work both(20001, 2);  // of both communicators, in the same graph
    const auto add_both = [&](gpucollComm_t comm, size_t first, size_t count) {
      char* const at = both.buffer.at(first * sizeof(int32_t));
      GC_OK(gpucollAllReduce(at, at, count, gpucollInt32, gpucollSum, comm, captured.stream.handle));
    };
    GC_OK(gpucollStreamBeginCapture(captured.stream.handle));
    GC_OK(captured.start(comms[1]));
    GC_OK(gpucollGroupStart());
    add_both(comms[1], 0, 10001);
    add_both(comms[0], 10001, 10000);
    GC_OK(gpucollGroupEnd());
    gpucollGraph_t graph = nullptr;
    GC_OK(gpucollStreamEndCapture(captured.stream.handle, &graph));
    for (int round = 0; round < 5; ++round) {
      for (Work* work : {&captured, &other, &both}) work->fill(rank);
      GC_OK(gpucollGraphLaunch(graph, captured.stream.handle));
      GC_OK(other.start(comms[0]));
      captured.expect_sum(kRanks);
      other.expect_sum(kRanks);
      both.expect_sum(kRanks);
    }
    GC_OK(gpucollGraphDestroy(graph));
    destroy(comms);
  });
}

TEST(Share, EachHasRegistrationsOfItsOwn) {
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    auto comms = with_parts(whole, 2);
    Work work(20001);
    work.fill(rank);
    void *of_whole = nullptr, *of_part = nullptr;
    GC_OK(gpucollCommRegister(whole, work.buffer.at(), 100, &of_whole));
    for (int i = 0; i < 2; ++i) GC_OK(gpucollCommRegister(comms[1], work.buffer.at(), 100, &of_part));
    EXPECT_EQ(gpucollInvalidArgument, gpucollCommDeregister(whole, of_part));
    GC_OK(gpucollCommDestroy(comms[1]));
    GC_OK(work.start(whole));
    work.expect_sum(kRanks);
    GC_OK(gpucollCommDeregister(whole, of_whole));
    GC_OK(gpucollCommDestroy(whole));
  });
}

TEST(Share, SixtyFourCostNextToNothing) {
  constexpr size_t kComms = 64, kSmall = 1000, kLarge = 262147;
  static std::atomic<long> before{0};
  on_sharing_ranks(kRanks, [](gpucollComm_t whole, int rank) {
    Work small(kSmall), large(kLarge);
    const auto use = [&](gpucollComm_t comm) {
      for (Work* work : {&small, &large}) {
        work->fill(rank);
        GC_OK(work->start(comm));
        work->expect_sum(kRanks);
      }
    };
    use(whole);
    if (rank == 0) before = resident_bytes();
    use(whole);  // after which all ranks have used it once
    auto comms = with_parts(whole, kComms);
    for (gpucollComm_t comm : comms) use(comm);
    if (rank == 0) {
      const long each = (resident_bytes() - before) / static_cast<long>(kComms * kRanks);
      std::printf("a communicator that shares costs each of %d ranks %ld KB\n", kRanks, each / 1024);
      EXPECT_TRUE(kSanitized || each < 16 << 10);
    }
    destroy(comms);
  });
}

// Those that share fail together.
TEST(Share, ASplitHasAConfigurationOfItsOwn) {
  std::barrier step(kRanks);
  for (int shares : {0, 1})
    on_ranks_that_destroy(kRanks, [&](gpucollComm_t whole, int rank) {
      const gpucollConfig_t config = sharing(shares);
      gpucollComm_t part = nullptr, of_part = nullptr;
      GC_OK(gpucollCommSplitConfig(whole, 0, rank, &part, &config));
      GC_OK(gpucollCommSplitConfig(part, 0, rank, &of_part, nullptr));
      step.arrive_and_wait();
      GC_OK(gpucollCommAbort(of_part));
      gpucollResult_t error = gpucollSuccess;
      GC_OK(gpucollCommGetAsyncError(part, &error));
      EXPECT_EQ(error != gpucollSuccess, shares == 1);
      GC_OK(gpucollCommGetAsyncError(whole, &error));
      EXPECT_EQ(error, gpucollSuccess);
      step.arrive_and_wait();
      GC_OK(gpucollCommAbort(part));
      GC_OK(gpucollCommDestroy(whole));
    });
}

TEST(Share, RefusesWhatIsNoConfiguration) {
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  gpucollComm_t comm = nullptr;
  gpucollConfig_t config = sharing(2);
  EXPECT_EQ(gpucollInvalidArgument, gpucollCommInitRankConfig(&comm, 1, id, 0, &config));
  EXPECT_NE(std::strstr(gpucollGetLastError(nullptr), "splitShare"), nullptr);
  config = {};
  EXPECT_EQ(gpucollInvalidArgument, gpucollCommInitRankConfig(&comm, 1, id, 0, &config));
  EXPECT_NE(std::strstr(gpucollGetLastError(nullptr), "GPUCOLL_CONFIG_INITIALIZER"), nullptr);
  EXPECT_EQ(comm, nullptr);
  GC_OK(gpucollCommInitRankConfig(&comm, 1, id, 0, nullptr));
  GC_OK(gpucollCommDestroy(comm));
}
