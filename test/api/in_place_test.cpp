// All-to-all in place: what is put aside for one call is not what another call reads, on any stream, in any graph.
#include <memory>
#include <string>

#include "ranks.h"

namespace {

using gpucoll_test::DeviceBuffer;
using gpucoll_test::on_ranks;
using gpucoll_test::Stream;

constexpr int kRanks = 3;

// A buffer that all ranks exchange in place.
class Exchange {
 public:
  explicit Exchange(size_t count) : count_(count), buffer_(count * kRanks * sizeof(int32_t)) {}
  void fill(int rank, int round) {
    std::vector<int32_t> data;
    for (size_t i = 0; i < count_ * kRanks; ++i) data.push_back(datum(rank, round, i));
    buffer_.put(data);
  }
  gpucollResult_t start(gpucollComm_t comm, gpucollStream_t stream) const {
    return gpucollAlltoAll(buffer_.at(), buffer_.at(), count_, gpucollInt32, comm, stream);
  }
  void expect(int rank, int round) {
    std::vector<int32_t> wanted;
    for (int from = 0; from < kRanks; ++from)
      for (size_t i = 0; i < count_; ++i) wanted.push_back(datum(from, round, static_cast<size_t>(rank) * count_ + i));
    ASSERT_EQ(buffer_.get<int32_t>(count_ * kRanks), wanted)
        << "rank " << rank << ", round " << round << ", of " << count_;
  }
  std::vector<int32_t> block_from(int rank) {
    return buffer_.get<int32_t>(count_, static_cast<size_t>(rank) * count_ * sizeof(int32_t));
  }

 private:
  int32_t datum(int rank, int round, size_t i) const {
    return static_cast<int32_t>((i * 16 + static_cast<size_t>(rank)) * 16 + static_cast<size_t>(round)) ^ seed();
  }
  int32_t seed() const { return static_cast<int32_t>(count_) << 20; }

  size_t count_;
  DeviceBuffer buffer_;
};

using Exchanges = std::vector<std::unique_ptr<Exchange>>;
Exchanges make(std::initializer_list<size_t> counts) {
  Exchanges all;
  for (size_t count : counts) all.push_back(std::make_unique<Exchange>(count));
  return all;
}

// Each needs more than those before it, which may be under way still.
TEST(InPlace, CallsOfGrowingSizesFollowEachOtherOnTwoStreams) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream streams[2];
    Exchanges all = make({1, 1000, 30001, 200000, 7, 500001, 70000});
    for (int round = 0; round < 3; ++round) {
      for (auto& exchange : all) exchange->fill(rank, round);
      for (size_t i = 0; i < all.size(); ++i) GC_OK(all[i]->start(comm, streams[i % 2].handle));
      for (Stream& stream : streams) GC_OK(gpucollStreamSynchronize(stream.handle));
      for (auto& exchange : all) exchange->expect(rank, round);
    }
  });
}

TEST(InPlace, CallsOfAGroupArePutAsideApart) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    gpucollComm_t share = nullptr;
    gpucollConfig_t config = GPUCOLL_CONFIG_INITIALIZER;
    config.splitShare = 1;
    GC_OK(gpucollCommSplitConfig(comm, 0, rank, &share, &config));
    Exchanges all = make({5, 3000, 40001, 3, 100000, 250000});
    for (int round = 0; round < 3; ++round) {
      for (auto& exchange : all) exchange->fill(rank, round);
      GC_OK(gpucollGroupStart());
      for (size_t i = 0; i < all.size(); ++i) GC_OK(all[i]->start(i < 4 ? comm : share, stream.handle));
      GC_OK(gpucollGroupEnd());
      GC_OK(gpucollStreamSynchronize(stream.handle));
      for (auto& exchange : all) exchange->expect(rank, round);
    }
    GC_OK(gpucollCommDestroy(share));
  });
}

// What was captured keeps its place when a later call needs a larger one.
TEST(InPlace, GraphsKeepTheirPlace) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    gpucollGraph_t graphs[2] = {};
    Exchanges all = make({20000, 60000, 200000});
    for (size_t g = 0; g < 2; ++g) {
      GC_OK(gpucollStreamBeginCapture(stream.handle));
      GC_OK(all[g]->start(comm, stream.handle));
      GC_OK(gpucollStreamEndCapture(stream.handle, &graphs[g]));
    }
    for (int round = 0; round < 4; ++round) {
      for (auto& exchange : all) exchange->fill(rank, round);
      if (round == 2) {
        GC_OK(all[2]->start(comm, stream.handle));
      }
      for (gpucollGraph_t graph : graphs) GC_OK(gpucollGraphLaunch(graph, stream.handle));
      GC_OK(gpucollStreamSynchronize(stream.handle));
      for (size_t g = 0; g < 2; ++g) all[g]->expect(rank, round);
      if (round == 2) all[2]->expect(rank, round);
    }
    for (gpucollGraph_t graph : graphs) GC_OK(gpucollGraphDestroy(graph));
  });
}

// One rank's buffers are two.
TEST(InPlace, RanksNeedNotDoAlike) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    for (size_t count : {3, 2000, 300000}) {
      Exchange exchange(count);
      exchange.fill(rank, 0);
      DeviceBuffer in(count * kRanks * sizeof(int32_t)), out(count * kRanks * sizeof(int32_t));
      if (rank == 1) {
        in.put(std::vector<int32_t>(count * kRanks, 7));
        GC_OK(gpucollAlltoAll(in.at(), out.at(), count, gpucollInt32, comm, stream.handle));
      } else {
        GC_OK(exchange.start(comm, stream.handle));
      }
      GC_OK(gpucollStreamSynchronize(stream.handle));
      const std::vector<int32_t> wanted(count, 7);
      if (rank == 0) {
        EXPECT_EQ(exchange.block_from(1), wanted);
      }
    }
  });
}

}  // namespace
