// The same calls again and again: kept launches, graphs of small collectives, both among others.
#include <algorithm>
#include <barrier>
#include <memory>
#include <random>
#include <string>

#include "abi/abi.h"
#include "ranks.h"

namespace {

using gpucoll_test::DeviceBuffer;
using gpucoll_test::on_ranks;
using gpucoll_test::Stream;
using gpucoll_test::value;

constexpr int kRanks = 3;
using Ints = std::vector<int32_t>;

enum class What { all_reduce, max, reduce_scatter, reduce, broadcast, all_gather, all_to_all, shift };
constexpr What kAll[] = {What::all_reduce, What::max,        What::reduce_scatter, What::reduce,
                         What::broadcast,  What::all_gather, What::all_to_all,     What::shift};

// A call with buffers of its own, that lie where they lie.
class Call {
 public:
  Call(What what, size_t count, int root) : what_(what), count_(count), root_(root) {}

  void fill(int rank, int round) {
    Ints data(count_ * kRanks);
    for (size_t i = 0; i < data.size(); ++i) data[i] = datum(rank, round, i);
    in_.put(data);
  }
  gpucollResult_t start(gpucollComm_t comm, int rank, gpucollStream_t stream) const {
    char *const in = in_.at(), *const out = out_.at();
    switch (what_) {
      case What::all_reduce: return gpucollAllReduce(in, out, count_, gpucollInt32, gpucollSum, comm, stream);
      case What::max: return gpucollAllReduce(in, out, count_, gpucollInt32, gpucollMax, comm, stream);
      case What::reduce_scatter: return gpucollReduceScatter(in, out, count_, gpucollInt32, gpucollSum, comm, stream);
      case What::reduce: return gpucollReduce(in, out, count_, gpucollInt32, gpucollSum, root_, comm, stream);
      case What::broadcast: return gpucollBroadcast(in, out, count_, gpucollInt32, root_, comm, stream);
      case What::all_gather: return gpucollAllGather(in, out, count_, gpucollInt32, comm, stream);
      case What::all_to_all: return gpucollAlltoAll(in, out, count_, gpucollInt32, comm, stream);
      case What::shift: break;
    }
    gpucollGroupStart();
    gpucollSend(in, count_, gpucollInt32, (rank + root_) % kRanks, comm, stream);
    gpucollRecv(out, count_, gpucollInt32, (rank + kRanks - root_) % kRanks, comm, stream);
    return gpucollGroupEnd();
  }
  void expect(int rank, int round) {
    const Ints wanted = result(rank, round);
    ASSERT_EQ(out_.get<int32_t>(wanted.size()), wanted)
        << "rank " << rank << ", round " << round << ", call " << static_cast<int>(what_) << " of " << count_;
  }

 private:
  int32_t datum(int rank, int round, size_t i) const {
    return 100 * round + 10 * value(rank, i + static_cast<size_t>(root_)) + rank;
  }
  Ints result(int rank, int round) const {
    if (what_ == What::reduce && rank != root_) return {};
    Ints all;
    const size_t n = what_ == What::all_gather || what_ == What::all_to_all ? count_ * kRanks : count_;
    for (size_t i = 0; i < n; ++i) all.push_back(element(rank, round, i));
    return all;
  }
  int32_t element(int rank, int round, size_t i) const {
    const auto of = [&](int source, size_t at) { return datum(source, round, at); };
    const size_t own = count_ * static_cast<size_t>(rank);
    switch (what_) {
      case What::all_reduce:
      case What::reduce: return of(0, i) + of(1, i) + of(2, i);
      case What::max: return std::max({of(0, i), of(1, i), of(2, i)});
      case What::reduce_scatter: return of(0, own + i) + of(1, own + i) + of(2, own + i);
      case What::broadcast: return of(root_, i);
      case What::all_gather: return of(static_cast<int>(i / count_), i % count_);
      case What::all_to_all: return of(static_cast<int>(i / count_), own + i % count_);
      case What::shift: break;
    }
    return of((rank + kRanks - root_) % kRanks, i);
  }

  What what_;
  size_t count_;
  int root_;
  DeviceBuffer in_{count_ * kRanks * sizeof(int32_t)}, out_{count_ * kRanks * sizeof(int32_t)};
};

using Calls = std::vector<std::unique_ptr<Call>>;
Calls make_calls(std::initializer_list<size_t> counts) {
  Calls calls;
  for (size_t count : counts)
    for (What what : kAll) calls.push_back(std::make_unique<Call>(what, count, calls.size() % 2 ? 2 : 1));
  return calls;
}

// Each rank launches the same graphs and calls in the same order, on streams of its own choice.
TEST(Repeat, SmallCollectivesInGraphsAmongOthers) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream a, b;
    Calls calls = make_calls({1, 37, 3001});
    std::vector<gpucollGraph_t> graphs(3);
    for (size_t g = 0; g < graphs.size(); ++g) {
      GC_OK(gpucollStreamBeginCapture(a.handle));
      for (size_t c = g; c < calls.size(); c += graphs.size()) GC_OK(calls[c]->start(comm, rank, a.handle));
      GC_OK(gpucollStreamEndCapture(a.handle, &graphs[g]));
    }
    std::mt19937 same(5), own(static_cast<unsigned>(rank));
    for (int round = 0; round < 12; ++round) {
      for (auto& call : calls) call->fill(rank, round);
      std::vector<size_t> order = {0, 1, 2};
      std::shuffle(order.begin(), order.end(), same);
      for (size_t g : order) {
        GC_OK(gpucollGraphLaunch(graphs[g], own() % 2 ? a.handle : b.handle));
        GC_OK(calls[same() % calls.size()]->start(comm, rank, own() % 2 ? a.handle : b.handle));
      }
      for (Stream* stream : {&a, &b}) GC_OK(gpucollStreamSynchronize(stream->handle));
      for (auto& call : calls) call->expect(rank, round);
    }
    for (gpucollGraph_t graph : graphs) GC_OK(gpucollGraphDestroy(graph));
  });
}

// Two calls in turn, now and then on another stream or with one more between them.
TEST(Repeat, CallsInTurnOnTheSameBuffers) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream a, b;
    Calls calls = make_calls({1, 37, 3001});
    for (size_t c = 0; c < calls.size(); ++c) {
      Call *const first = calls[c].get(), *const second = calls[(c + 5) % calls.size()].get();
      for (int round = 0; round < 10; ++round) {
        const gpucollStream_t stream = round == 6 ? b.handle : a.handle;
        for (Call* call : {first, second}) {
          call->fill(rank, round);
          GC_OK(call->start(comm, rank, stream));
        }
        if (round % 4 == 3) {
          GC_OK(calls[(c + 9) % calls.size()]->start(comm, rank, b.handle));
        }
        for (Stream* all : {&a, &b}) GC_OK(gpucollStreamSynchronize(all->handle));
        for (Call* call : {first, second}) call->expect(rank, round);
      }
    }
  });
}

// Of every call one that differs from it in the root alone, or in the operation alone.
TEST(Repeat, CallsThatDifferInOneThing) {
  on_ranks(kRanks, [](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer in(37 * sizeof(int32_t)), out(37 * sizeof(int32_t));
    const auto expect = [&](int32_t wanted) {
      GC_OK(gpucollStreamSynchronize(stream.handle));
      EXPECT_EQ(out.get<int32_t>(37), Ints(37, wanted)) << "rank " << rank;
    };
    for (int round = 0; round < 20; ++round) {
      const int root = round < 9 ? 1 : round % kRanks;
      in.put(Ints(37, 100 * round + rank));
      GC_OK(gpucollBroadcast(in.at(), out.at(), 37, gpucollInt32, root, comm, stream.handle));
      expect(100 * round + root);
      const gpucollRedOp_t op = round < 9 || round % 2 ? gpucollMax : gpucollMin;
      GC_OK(gpucollAllReduce(in.at(), out.at(), 37, gpucollInt32, op, comm, stream.handle));
      expect(100 * round + (op == gpucollMax ? kRanks - 1 : 0));
    }
  });
}

// A float that does not survive beside a large one shows in which order ranks were added: the ring's depends on the
// element, that of all-pairs does not.
TEST(Repeat, CallsAreMadeAnewWhenAParameterForcesAnotherAlgorithm) {
  constexpr size_t kCount = 3000;
  const gc_abi* const abi = gpucoll_abi(GC_ABI_VERSION);
  ASSERT_NE(abi, nullptr);
  std::barrier<> all(kRanks);
  on_ranks(kRanks, [&](gpucollComm_t comm, int rank) {
    Stream stream;
    DeviceBuffer in(kCount * sizeof(float)), out(kCount * sizeof(float));
    constexpr float kOperands[] = {1e8f, -1e8f, 1};
    in.put(std::vector<float>(kCount, kOperands[rank]));
    for (const char* algorithm : {"ring", "all_pairs"}) {
      all.arrive_and_wait();
      if (rank == 0) {
        EXPECT_EQ(abi->set_param("algorithm", algorithm), 0);
      }
      all.arrive_and_wait();
      for (int round = 0; round < 6; ++round) {
        GC_OK(gpucollAllReduce(in.at(), out.at(), kCount, gpucollFloat32, gpucollSum, comm, stream.handle));
        GC_OK(gpucollStreamSynchronize(stream.handle));
      }
      const bool ordered = out.get<float>(kCount) == std::vector<float>(kCount, 1);
      EXPECT_EQ(ordered, std::string(algorithm) == "all_pairs");
    }
    all.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(abi->set_param("algorithm", "auto"), 0);
    }
  });
}

}  // namespace
