// Large reductions that copy engines carry: bits in the order of the ring, whatever else goes on, and what happens when
// ranks do not play along. CTest sets copy_reduction_bytes and copy_reduction_piece small.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "copies.h"

using namespace gpucoll_test;

namespace {

constexpr size_t kCount = 25013;  // above copy_reduction_bytes of all runs, in several pieces

// Sums of such numbers depend on their order.
float uneven(int rank, int round, size_t i) {
  const size_t mixed = (i * 2654435761u + static_cast<size_t>(rank * 40503 + round * 977)) % 65521;
  return static_cast<float>(mixed) * (mixed % 3 == 0 ? 1e4f : mixed % 3 == 1 ? 1.7f : 3e-4f);
}
std::vector<float> uneven_values(int rank, int round, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = uneven(rank, round, i);
  return values;
}
// x[begin] + x[begin + 1] + ... + x[begin - 1], the ranks counted round the ring.
float sum_from(int begin, int n, int round, size_t i) {
  float sum = uneven(begin % n, round, i);
  for (int r = 1; r < n; ++r) sum += uneven((begin + r) % n, round, i);
  return sum;
}
std::vector<float> sums(int begin, int n, int round, size_t count, size_t first = 0) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = sum_from(begin, n, round, first + i);
  return result;
}
// Returns an allreduce's result: the sum of each chunk begins with the rank of the chunk's number.
std::vector<float> sums_of_chunks(int n, int round, size_t count) {
  constexpr size_t kAligned = 128 / sizeof(float);
  const auto ranks = static_cast<size_t>(n);
  const size_t part = (count + ranks - 1) / ranks, chunk = (part + kAligned - 1) / kAligned * kAligned;
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = sum_from(static_cast<int>(i / chunk), n, round, i);
  return result;
}

// Returns whether another order would give other bits: else a test here would not see the order.
bool order_shows(int n) { return n == 2 || sums(0, n, 0, kCount) != sums(1, n, 0, kCount); }

// One of each kind, all on one stream, out of place or in place; nothing is waited for in between.
struct Calls {
  Calls(gpucollComm_t comm, int rank, int n, size_t count, int round, bool in_place)
      : comm_(comm), rank_(rank), n_(n), count_(count), round_(round), in_place_(in_place), root_(round % n) {
    all_.put(uneven_values(rank, round, count));
    reduced_.put(uneven_values(rank, round + 1, count));
    scattered_.put(uneven_values(rank, round + 2, count * static_cast<size_t>(n)));
  }
  void start(gpucollStream_t stream) {
    GC_OK(gpucollAllReduce(all_.at(), in_place_ ? all_.at() : all_out_.at(), count_, gpucollFloat32, gpucollSum, comm_,
                           stream));
    GC_OK(gpucollReduce(reduced_.at(), in_place_ ? reduced_.at() : reduced_out_.at(), count_, gpucollFloat32,
                        gpucollSum, root_, comm_, stream));
    GC_OK(gpucollReduceScatter(scattered_.at(), in_place_ ? scattered_.at(own_part()) : scattered_out_.at(), count_,
                               gpucollFloat32, gpucollSum, comm_, stream));
  }
  void check() {
    ASSERT_EQ((in_place_ ? all_ : all_out_).get<float>(count_), sums_of_chunks(n_, round_, count_));
    if (rank_ == root_) {
      ASSERT_EQ((in_place_ ? reduced_ : reduced_out_).get<float>(count_), sums(root_ + 1, n_, round_ + 1, count_));
    } else {
      ASSERT_EQ(reduced_.get<float>(count_), uneven_values(rank_, round_ + 1, count_));
    }
    const auto part = in_place_ ? scattered_.get<float>(count_, own_part()) : scattered_out_.get<float>(count_);
    ASSERT_EQ(part, sums(rank_ + 1, n_, round_ + 2, count_, static_cast<size_t>(rank_) * count_));
  }

 private:
  size_t own_part() const { return static_cast<size_t>(rank_) * count_ * 4; }

  gpucollComm_t comm_;
  int rank_, n_;
  size_t count_;
  int round_;
  bool in_place_;
  int root_;
  DeviceBuffer all_{count_ * 4}, all_out_{count_ * 4}, reduced_{count_ * 4}, reduced_out_{count_ * 4};
  DeviceBuffer scattered_{count_ * static_cast<size_t>(n_) * 4}, scattered_out_{count_ * 4};
};

}  // namespace

TEST(CopyReduction, ReducesInTheOrderOfTheRing) {
  for (int n : {2, 3, 4, 7}) {
    ASSERT_TRUE(order_shows(n));
    on_ranks(n, [n](gpucollComm_t comm, int rank) {
      Stream stream;
      for (int round = 0; round < 4; ++round) {
        const size_t count = kCount + static_cast<size_t>(round) * 4099;
        Calls run(comm, rank, n, count, round, round % 2);
        run.start(stream.handle);
        GC_OK(gpucollStreamSynchronize(stream.handle));
        run.check();
      }
    });
  }
}

// Each uses what the one before gave, and kernels come in between.
TEST(CopyReduction, FollowsTheOrderOfTheStream) {
  for (int n : {2, 3})
    on_ranks(n, [n](gpucollComm_t comm, int rank) {
      Stream stream;
      DeviceBuffer a(kCount * 4), b(kCount * 4);
      std::vector<int32_t> start(kCount);
      for (size_t i = 0; i < kCount; ++i) start[i] = value(rank, i);
      a.put(start);
      for (int round = 0; round < 6; ++round) {
        GC_OK(gpucollAllReduce(a.at(), b.at(), kCount, gpucollInt32, gpucollSum, comm, stream.handle));
        GC_OK(gpucollAllReduce(b.at(), b.at(), 100, gpucollInt32, gpucollMax, comm, stream.handle));
        GC_OK(gpucollAllReduce(b.at(), a.at(), kCount, gpucollInt32, gpucollSum, comm, stream.handle));
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
      const auto result = a.get<uint32_t>(kCount);
      for (size_t i = 0; i < kCount; ++i) {
        uint32_t want = 0;
        for (int r = 0; r < n; ++r) want += static_cast<uint32_t>(value(r, i));
        for (int more = 1; more < 12; ++more) want *= static_cast<uint32_t>(n);
        ASSERT_EQ(result[i], want) << i;
      }
    });
}

TEST(CopyReduction, SharesAGroupWithOthers) {
  for (int n : {2, 4})
    on_ranks(n, [n](gpucollComm_t comm, int rank) {
      Stream stream, other;
      const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
      DeviceBuffer small(400), out(kLarge), in(kLarge);
      for (int round = 0; round < 3; ++round) {
        Calls first(comm, rank, n, kCount, round, false), second(comm, rank, n, kCount + 77, round + 5, true);
        small.put(std::vector<int32_t>(100, rank));
        out.put(message(rank, next, round, kLarge));
        GC_OK(gpucollGroupStart());
        first.start(stream.handle);
        GC_OK(send(out, 0, kLarge, next, comm, stream.handle));
        GC_OK(gpucollAllReduce(small.at(), small.at(), 100, gpucollInt32, gpucollSum, comm, other.handle));
        second.start(other.handle);
        GC_OK(recv(in, 0, kLarge, previous, comm, stream.handle));
        GC_OK(gpucollGroupEnd());
        GC_OK(gpucollStreamSynchronize(stream.handle));
        GC_OK(gpucollStreamSynchronize(other.handle));
        first.check();
        second.check();
        ASSERT_EQ(small.get<int32_t>(100), std::vector<int32_t>(100, n * (n - 1) / 2));
        ASSERT_EQ(in.get<uint8_t>(kLarge), message(previous, rank, round, kLarge));
      }
    });
}

TEST(CopyReduction, RunsOnTwoCommunicatorsAtOnce) {
  on_ranks(3, [](gpucollComm_t comm, int rank) {
    gpucollComm_t reversed = nullptr;
    GC_OK(gpucollCommSplit(comm, 0, -rank, &reversed));
    Stream streams[2];
    for (int round = 0; round < 6; ++round) {
      Calls here(comm, rank, 3, kCount, round, false), there(reversed, 2 - rank, 3, kCount, round + 9, true);
      here.start(streams[0].handle);
      there.start(streams[1].handle);
      for (const Stream& stream : streams) GC_OK(gpucollStreamSynchronize(stream.handle));
      here.check();
      there.check();
    }
    GC_OK(gpucollCommDestroy(reversed));
  });
}

TEST(CopyReduction, IsDrivenByOneThreadForAllRanks) {
  constexpr int n = 3;
  if (!enough_devices(n)) return;
  gpucollComm_t comms[n];
  init_all(comms);
  Stream streams[n];
  std::vector<std::unique_ptr<Calls>> runs;
  for (int r = 0; r < n; ++r) {
    choose_device(r);
    runs.push_back(std::make_unique<Calls>(comms[r], r, n, 10 * kCount, 4, false));
  }
  GC_OK(gpucollGroupStart());
  for (int r = 0; r < n; ++r) runs[static_cast<size_t>(r)]->start(streams[r].handle);
  GC_OK(gpucollGroupEnd());
  for (int r = 0; r < n; ++r) {
    GC_OK(gpucollStreamSynchronize(streams[r].handle));
    runs[static_cast<size_t>(r)]->check();
  }
  for (gpucollComm_t comm : comms) GC_OK(gpucollCommDestroy(comm));
}

// Narrow floats are scaled before they are added, once each.
TEST(CopyReduction, AveragesNarrowFloats) {
  for (int n : {2, 3, 5})
    on_ranks(n, [n](gpucollComm_t comm, int rank) {
      Stream stream;
      constexpr size_t count = 2 * kCount;
      DeviceBuffer a(count * 2), b(count * 2), small(2000), small_out(2000);
      std::vector<uint16_t> values(count);
      for (size_t i = 0; i < count; ++i)  // bfloat16: whole numbers that differ by rank
        values[i] = static_cast<uint16_t>(0x4080 + 16 * ((i + static_cast<size_t>(rank)) % 5) + (i % 1000 == 0));
      a.put(values);
      small.put(std::vector<uint16_t>(values.begin(), values.begin() + 1000));
      GC_OK(gpucollAllReduce(a.at(), b.at(), count, gpucollBfloat16, gpucollAvg, comm, stream.handle));
      GC_OK(gpucollAllReduce(small.at(), small_out.at(), 1000, gpucollBfloat16, gpucollAvg, comm, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      const auto result = b.get<uint16_t>(count), want = small_out.get<uint16_t>(1000);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(result[i], want[i % 1000]) << i << " of " << n << " ranks";
    });
}

// What has a kernel, and what each rank changes first, which has none; in graphs, there are kernels as well.
TEST(CopyReduction, LeavesTheRestToKernels) {
  on_ranks(2, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer a(kCount * 4), b(kCount * 4), c(kCount * 4);
    std::vector<float> values(kCount), averages(kCount), products(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      values[i] = static_cast<float>(value(rank, i));
      averages[i] = static_cast<float>(value(0, i) + value(1, i)) / 2;
      products[i] = static_cast<float>(2 * value(0, i) + 3 * value(1, i));
    }
    a.put(values);
    float scalar = rank == 0 ? 2 : 3;
    gpucollRedOp_t scaled;
    GC_OK(gpucollRedOpCreatePreMulSum(&scaled, &scalar, gpucollFloat32, gpucollScalarHostImmediate, comm));
    GC_OK(gpucollAllReduce(a.at(), b.at(), kCount, gpucollFloat32, gpucollAvg, comm, stream.handle));
    GC_OK(gpucollAllReduce(a.at(), c.at(), kCount, gpucollFloat32, scaled, comm, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    ASSERT_EQ(b.get<float>(kCount), averages);
    ASSERT_EQ(c.get<float>(kCount), products);
    GC_OK(gpucollRedOpDestroy(scaled, comm));
    gpucollGraph_t graph = nullptr;
    GC_OK(gpucollStreamBeginCapture(stream.handle));
    GC_OK(gpucollAllReduce(a.at(), b.at(), kCount, gpucollFloat32, gpucollSum, comm, stream.handle));
    GC_OK(gpucollStreamEndCapture(stream.handle, &graph));
    for (int i = 0; i < 3; ++i) GC_OK(gpucollGraphLaunch(graph, stream.handle));
    GC_OK(gpucollStreamSynchronize(stream.handle));
    for (float& x : averages) x *= 2;
    ASSERT_EQ(b.get<float>(kCount), averages);
    GC_OK(gpucollGraphDestroy(graph));
  });
}

TEST(CopyReductionFault, SizesThatDifferAreAnError) {
  if (!enough_devices(2)) GTEST_SKIP();
  for (size_t other : {kCount + 1000, 3 * kCount}) {
    gpucollResult_t errors[2] = {};
    on_ranks_that_destroy(2, [&](gpucollComm_t comm, int rank) {
      Stream stream;
      DeviceBuffer a(3 * kCount * 4), b(3 * kCount * 4);
      const size_t count = rank == 0 ? kCount : other;
      gpucollAllReduce(a.at(), b.at(), count, gpucollFloat32, gpucollSum, comm, stream.handle);
      errors[rank] = await_error(comm);
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_NE(gpucollSuccess, gpucollCommDestroy(comm));
    });
    expect_sizes_differ(errors);
  }
}

TEST(CopyReductionFault, AbortReleasesWhoWaits) {
  expect_abort_releases(kCount * 4, [](auto& from, auto& to, gpucollComm_t comm, int, gpucollStream_t stream) {
    return gpucollAllReduce(from.at(), to.at(), kCount, gpucollFloat32, gpucollSum, comm, stream);
  });
}

TEST(CopyReductionFault, BuffersMayBeFreedRightAfterAnAbort) {
  constexpr size_t count = 20 * kCount;
  free_after_abort(3, 16, count * 4, 3, Unused::once_streams_are_done,
                   [](auto& from, auto& to, gpucollComm_t comm, int, gpucollStream_t stream) {
                     return gpucollAllReduce(from.at(), to.at(), count, gpucollFloat32, gpucollSum, comm, stream);
                   });
}
