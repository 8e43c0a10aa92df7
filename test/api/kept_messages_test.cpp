// Messages, and exchanges that have lists of counts, that come again alone: the communicator keeps them as it keeps
// other operations (kept_operations_test.cpp).
#include "kept.h"

namespace {

using namespace gpucoll_test;

using Sizes = std::vector<size_t>;

struct Side {
  explicit Side(size_t bytes = kBytes) : buffer(bytes) {}
  gpucollResult_t send(gpucollComm_t comm, int peer, size_t count = kCount) const {
    return gpucollSend(buffer.at(), count, gpucollInt32, peer, comm, stream.handle);
  }
  gpucollResult_t recv(gpucollComm_t comm, int peer, size_t count = kCount) const {
    return gpucollRecv(buffer.at(), count, gpucollInt32, peer, comm, stream.handle);
  }
  Ints got(size_t count = kCount) {
    EXPECT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream.handle));
    return buffer.get<int32_t>(count);
  }
  Stream stream;
  DeviceBuffer buffer;
};

TEST(KeptMessages, MoveTheDataThatAreThere) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Side side;
    for (int i = 0; i < 3 * kTimes; ++i) {
      side.buffer.put(Ints(kCount, rank == i % 2 ? i : -1));
      GC_OK(rank == i % 2 ? side.send(comm, 1 - rank) : side.recv(comm, 1 - rank));
      EXPECT_EQ(side.got(), Ints(kCount, i));
    }
  });
}

// Both ranks count all messages, those that are kept, too. So the two find the ends of a large one, which goes by copy
// engine.
TEST(KeptMessages, AreCountedWhereOneRankKeepsNone) {
  constexpr size_t kLarge = 100'000;
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Side side(kLarge * sizeof(int32_t));
    for (size_t i = 0; i < 2 * kTimes; ++i) {
      void* const anew = side.buffer.at(i * kBytes);
      GC_OK(rank == 0 ? side.send(comm, 1) : gpucollRecv(anew, kCount, gpucollInt32, 0, comm, side.stream.handle));
    }
    side.got();
    side.buffer.put(Ints(kLarge, rank == 0 ? 7 : -1));
    GC_OK(rank == 0 ? side.send(comm, 1, kLarge) : side.recv(comm, 0, kLarge));
    EXPECT_EQ(side.got(kLarge), Ints(kLarge, 7));
  });
}

TEST(KeptMessages, OfMemoryThatWasFreedAreRefused) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    void* freed = nullptr;
    GC_OK(gpucollMalloc(&freed, kBytes));
    const auto call = [&] {
      return rank == 0 ? gpucollSend(freed, kCount, gpucollInt32, 1, comm, stream.handle)
                       : gpucollRecv(freed, kCount, gpucollInt32, 0, comm, stream.handle);
    };
    for (int i = 0; i < kTimes; ++i) GC_OK(call());
    GC_OK(gpucollStreamSynchronize(stream.handle));
    GC_OK(gpucollFree(freed));
    EXPECT_EQ(call(), gpucollInvalidArgument);
  });
}

TEST(KeptMessages, ToItselfAreRefusedEachTime) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Side side;
    for (int i = 0; i < kTimes; ++i) EXPECT_EQ(side.send(comm, rank), gpucollInvalidUsage);
  });
}

// A program may keep its lists and change what they say.
TEST(KeptMessages, ListsThatSaySomethingElseAreFollowed) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer in(4 * kBytes), out(4 * kBytes);
    Sizes counts(kRanks), places = {0, 2 * kCount};
    for (int i = 0; i < 4 * kTimes; ++i) {
      const size_t now = i / kTimes % 2 ? kCount : kCount - 2;
      counts.assign(kRanks, now);
      Ints data(4 * kCount, 10 * i + rank);
      in.put(data);
      out.put(Ints(4 * kCount, -1));
      GC_OK(gpucollAlltoAllv(in.at(), counts.data(), places.data(), out.at(), counts.data(), places.data(),
                             gpucollInt32, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      Ints wanted(4 * kCount, -1);
      for (int source = 0; source < kRanks; ++source)
        std::fill_n(wanted.begin() + static_cast<ptrdiff_t>(places[static_cast<size_t>(source)]), now, 10 * i + source);
      EXPECT_EQ(out.get<int32_t>(4 * kCount), wanted) << i;
    }
  });
}

// Any of the four lists may be the one that has changed, on both ranks or on one of them.
TEST(KeptMessages, EachListIsLookedAt) {
  constexpr size_t kRoom = 4 * kCount;
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer in(kRoom * sizeof(int32_t)), out(kRoom * sizeof(int32_t));
    const size_t me = static_cast<size_t>(rank);
    Ints data(kRoom);
    for (size_t i = 0; i < kRoom; ++i) data[i] = static_cast<int32_t>(100 * me + i);
    in.put(data);
    for (int i = 0; i < 8 * kTimes; ++i) {
      const int change = i / kTimes % 4;
      size_t counts[kRanks][kRanks] = {{kCount, kCount}, {kCount, kCount}};  // from, to
      if (change == 3) counts[0][1] = kCount - 2;
      const Sizes sent_from = {change == 1 ? 2 * kCount : 0, kCount}, put_at = {0, change == 2 ? 2 * kCount : kCount};
      const Sizes sends(counts[me], counts[me] + kRanks), receives = {counts[0][me], counts[1][me]};
      out.put(Ints(kRoom, -1));
      GC_OK(gpucollAlltoAllv(in.at(), sends.data(), sent_from.data(), out.at(), receives.data(), put_at.data(),
                             gpucollInt32, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      Ints wanted(kRoom, -1);
      for (size_t source = 0; source < kRanks; ++source)
        for (size_t k = 0; k < receives[source]; ++k)
          wanted[put_at[source] + k] = static_cast<int32_t>(100 * source + sent_from[me] + k);
      EXPECT_EQ(out.get<int32_t>(kRoom), wanted) << "list " << change;
    }
  });
}

// More of them in turn than a communicator keeps, with lists that have changed when they come again.
TEST(KeptMessages, TakeEachOthersPlace) {
  constexpr size_t kMany = 100, kRoom = 2 * kCount;
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    std::vector<std::unique_ptr<DeviceBuffer>> in, out;
    for (auto* all : {&in, &out})
      for (size_t i = 0; i < kMany; ++i) all->push_back(std::make_unique<DeviceBuffer>(kRoom * sizeof(int32_t)));
    const Sizes places = {0, kCount};
    std::vector<Sizes> counts(kMany, Sizes(kRanks));
    for (size_t i = 0; i < 4 * kMany; ++i) {
      const size_t which = i % kMany, count = kCount - (i / kMany + which) % 3;
      counts[which].assign(kRanks, count);
      const auto number = static_cast<int32_t>(10 * i);
      in[which]->put(Ints(kRoom, number + rank));
      out[which]->put(Ints(kRoom, -1));
      GC_OK(gpucollAlltoAllv(in[which]->at(), counts[which].data(), places.data(), out[which]->at(),
                             counts[which].data(), places.data(), gpucollInt32, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      Ints wanted(kRoom, -1);
      for (int source = 0; source < kRanks; ++source)
        std::fill_n(wanted.begin() + static_cast<ptrdiff_t>(places[static_cast<size_t>(source)]), count,
                    number + source);
      EXPECT_EQ(out[which]->get<int32_t>(kRoom), wanted) << i;
    }
  });
}

// A group may find a message among those that are kept, and then lose it to the group's first part, where the cache of
// plans has one place (GPUCOLL_PLAN_CACHE=1).
TEST(KeptMessages, AreCountedWhereTheyMakeRoom) {
  constexpr size_t kLarge = 100'000;
  on_sharing_ranks([](gpucollComm_t comm, gpucollComm_t share, int rank) {
    Side side(kLarge * sizeof(int32_t));
    const auto move = [&](gpucollComm_t of, size_t offset, size_t count) {
      void* const at = side.buffer.at(offset);
      return rank == 0 ? gpucollSend(at, count, gpucollInt32, 1, of, side.stream.handle)
                       : gpucollRecv(at, count, gpucollInt32, 0, of, side.stream.handle);
    };
    // Which of the two is the group's first part is not said.
    for (const auto& [kept, other] : {std::pair(share, comm), std::pair(comm, share)}) {
      for (int i = 0; i < kTimes; ++i) GC_OK(move(kept, 0, kCount));
      // The other rank calls alone, so that only this one loses it.
      if (rank == 0) {
        GC_OK(gpucollGroupStart());
      }
      GC_OK(move(other, 2 * kBytes, kCount));
      GC_OK(move(kept, 0, kCount));
      if (rank == 0) {
        GC_OK(gpucollGroupEnd());
      }
      side.got();
      side.buffer.put(Ints(kLarge, rank == 0 ? 7 : -1));
      GC_OK(move(kept, 0, kLarge));
      EXPECT_EQ(side.got(kLarge), Ints(kLarge, 7));
    }
  });
}

// Only the root has lists: others may pass anything for them.
TEST(KeptMessages, ListsOfTheRootAlone) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer one(kBytes), all(2 * kBytes);
    Sizes counts = {kCount, kCount - 1}, places = {kCount, 0};
    const bool is_root = rank == 1;
    const auto list = [&](Sizes& of) { return is_root ? of.data() : reinterpret_cast<size_t*>(uintptr_t{8}); };
    const size_t own = counts[static_cast<size_t>(rank)];
    for (int i = 0; i < 2 * kTimes; ++i) {
      one.put(Ints(kCount, 10 * i + rank));
      GC_OK(gpucollGatherv(one.at(), own, all.at(), list(counts), list(places), gpucollInt32, 1, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      if (is_root) {
        const Ints got = all.get<int32_t>(2 * kCount);
        EXPECT_EQ(Ints(got.begin() + kCount, got.end()), Ints(kCount, 10 * i));
        EXPECT_EQ(Ints(got.begin(), got.begin() + kCount - 1), Ints(kCount - 1, 10 * i + 1));
      }
      one.put(Ints(kCount, -1));
      GC_OK(gpucollScatterv(all.at(), list(counts), list(places), one.at(), own, gpucollInt32, 1, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_EQ(one.get<int32_t>(own), Ints(own, 10 * i + rank));
    }
  });
}

// A send and a receive of nothing may have equal arguments, as may a gatherv and a scatterv on a rank that is no root.
TEST(KeptMessages, WithoutBytesSendsAreNoReceives) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Side side;
    const Sizes counts(kRanks, 0), places(kRanks, 0);
    gpucollStream_t stream = side.stream.handle;
    for (int i = 0; i < 6 * kTimes; ++i) {
      const bool sends = (i + rank) % 2;
      GC_OK(sends ? gpucollSend(nullptr, 0, gpucollInt32, 1 - rank, comm, stream)
                  : gpucollRecv(nullptr, 0, gpucollInt32, 1 - rank, comm, stream));
      GC_OK(gpucollGatherv(nullptr, 0, nullptr, counts.data(), places.data(), gpucollInt32, 1, comm, stream));
      GC_OK(gpucollScatterv(nullptr, counts.data(), places.data(), nullptr, 0, gpucollInt32, 1, comm, stream));
    }
    GC_OK(gpucollStreamSynchronize(stream));
    side.buffer.put(Ints(kCount, rank == 0 ? 7 : -1));
    GC_OK(rank == 0 ? side.send(comm, 1) : side.recv(comm, 0));
    EXPECT_EQ(side.got(), Ints(kCount, 7));
  });
}

// Ranks that are no root say nothing but the root by which two calls differ.
TEST(KeptMessages, EachRootGetsItsOwn) {
  constexpr int kThree = 3;
  on_ranks(kThree, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer one(kBytes), all(kThree * kBytes);
    const Sizes counts(kThree, kCount), places = {0, kCount, 2 * kCount};
    for (int i = 0; i < 2 * kThree * kTimes; ++i) {
      const int root = i / kTimes % kThree;
      one.put(Ints(kCount, 10 * i + rank));
      all.put(Ints(kThree * kCount, -1));
      GC_OK(gpucollGatherv(one.at(), kCount, all.at(), counts.data(), places.data(), gpucollInt32, root, comm,
                           stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      for (int source = 0; source < kThree; ++source)
        EXPECT_EQ(all.get<int32_t>(kCount, static_cast<size_t>(source) * kBytes),
                  Ints(kCount, rank == root ? 10 * i + source : -1));
      all.put(Ints(kThree * kCount, 10 * i));
      GC_OK(gpucollScatterv(all.at(), counts.data(), places.data(), one.at(), kCount, gpucollInt32, root, comm,
                            stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_EQ(one.get<int32_t>(kCount), Ints(kCount, 10 * i));
    }
  });
}

}  // namespace
