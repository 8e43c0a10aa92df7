// The command line of gpucoll-perf: what it means, and that what means nothing is told in one sentence.
#include "perf/options.h"

#include <gtest/gtest.h>

#include <sstream>

namespace gpucoll::perf {
namespace {

Result<Options> parse(const std::string& line) {
  std::istringstream stream("gpucoll-perf " + line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

std::vector<size_t> counts(const std::string& line, int ranks) {
  auto options = parse(line);
  EXPECT_TRUE(options.ok()) << options.status().what();
  auto calls = plan(*options, 0, ranks);
  EXPECT_TRUE(calls.ok()) << calls.status().what();
  std::vector<size_t> list;
  for (const Call& call : *calls) list.push_back(call.count);
  return list;
}

TEST(PerfOptions, SizesAndFactor) {
  EXPECT_EQ(counts("allreduce -b 1K -e 64K -f 4", 2), (std::vector<size_t>{256, 1024, 4096, 16384}));
  EXPECT_EQ(counts("allreduce -b 0 -e 16 -d int32", 2), (std::vector<size_t>{0, 1, 2, 4}));
  EXPECT_EQ(counts("allgather -b 64 -e 64 -d double", 4), (std::vector<size_t>{2}));
  EXPECT_EQ(counts("bcast -b 100M -e 100M -d int8", 3), (std::vector<size_t>{100 << 20}));
}

TEST(PerfOptions, AllMeansEveryValidCombination) {
  auto options = parse("allreduce -d all -o all -b 64 -e 64");
  ASSERT_TRUE(options.ok());
  auto calls = plan(*options, 0, 2);
  ASSERT_TRUE(calls.ok());
  // 8 integers x 10, 5 reals x 4, 2 complex x 2, bool and byte x 3, 6 pairs x 2
  EXPECT_EQ(calls->size(), 8u * 10 + 5 * 4 + 2 * 2 + 2 * 3 + 6 * 2);
  for (const Call& call : *calls) EXPECT_TRUE(fits(call.type, call.op));
}

TEST(PerfOptions, AnOperationMeansNothingToBcast) {
  EXPECT_EQ(counts("bcast -d all -o all -b 64 -e 64", 2).size(), static_cast<size_t>(kTypes));
}

TEST(PerfOptions, TheCApiHasMore) {
  auto options = parse("sendrecv --api --pipelined");
  ASSERT_TRUE(options.ok()) << options.status().what();
  EXPECT_TRUE(options->api && options->pipelined);
  // A count beyond MPI's int.
  EXPECT_FALSE(plan(*parse("allreduce -d int8 -b 4G -e 4G"), 0, 2).ok());
  EXPECT_TRUE(plan(*parse("allreduce -d int8 -b 4G -e 4G --api"), 0, 2).ok());
  EXPECT_FALSE(plan(*parse("allreduce -d int8 -b 4G -e 4G --api --baseline host"), 0, 2).ok());
  EXPECT_FALSE(plan(*parse("pair --api"), 0, 1).ok());
}

TEST(PerfOptions, PointToPointTestsPairTheHalvesOfTheRanks) {
  auto options = parse("bandwidth --window 5 -b 1K -e 1K -d double");
  ASSERT_TRUE(options.ok()) << options.status().what();
  EXPECT_FALSE(plan(*options, 0, 3).ok());
  for (const auto& [rank, to, from] : {std::tuple{1, 3, -1}, std::tuple{2, -1, 0}}) {
    const Call call = plan(*options, rank, 4)->at(0);
    EXPECT_EQ(call.count, 128u);
    EXPECT_EQ(call.window, 5);
    EXPECT_EQ(partners_of(call).to, to);
    EXPECT_EQ(partners_of(call).from, from);
    EXPECT_EQ(input_elements(call), to < 0 ? 0 : 5 * 128u);
    EXPECT_EQ(output_elements(call), from < 0 ? 0 : 5 * 128u);
    EXPECT_EQ(table_bytes(call), 1024u);
  }
  const Call latency = plan(*parse("latency"), 3, 4)->at(0);
  EXPECT_EQ(latency.window, 1);
  EXPECT_EQ(partners_of(latency).to, 1);
  EXPECT_EQ(partners_of(latency).from, 1);
}

TEST(PerfOptions, MemoryOfBothSides) {
  EXPECT_EQ(memory_text(*parse("latency")), "device,device");
  EXPECT_EQ(memory_text(*parse("bibw --memory pinned,host")), "pinned,host");
  for (const char* words : {"host", "host,", ",host", "host,host,host", "host,gpu", "all"})
    EXPECT_FALSE(parse(std::string("bibw --memory ") + words).ok()) << words;
}

TEST(PerfOptions, Shapes) {
  struct Want {
    const char* text;
    size_t elements, extent;
    std::vector<size_t> first;  // the places of the first elements
  };
  const Want wants[] = {{"vector:3:2:5", 6, 12, {0, 1, 5, 6, 10, 11}},
                        {"face:4:x", 16, 64, {0, 4, 8, 12, 16}},
                        {"face:4:y", 16, 64, {0, 1, 2, 3, 16}},
                        {"face:4:z", 16, 64, {0, 1, 2, 3, 4}},
                        {"face:1:x", 1, 1, {0}},
                        {"indexed:3", 6, 12, {1, 4, 5, 9, 10, 11}},
                        {"struct:2", 6, 8, {0, 2, 3, 4, 6, 7}}};
  for (const Want& want : wants) {
    auto shape = parse_type_shape(want.text);
    ASSERT_TRUE(shape.ok()) << shape.status().what();
    EXPECT_EQ((*shape)->elements, want.elements) << want.text;
    EXPECT_EQ((*shape)->extent, want.extent) << want.text;
    std::vector<size_t> places;
    for (size_t i = 0; i < (*shape)->extent && places.size() < want.first.size(); ++i)
      if ((*shape)->data[i]) places.push_back(i);
    EXPECT_EQ(places, want.first) << want.text;
  }
  for (const char* text : {"", "vector", "vector:1:2", "vector:1:2:3:4", "vector:2:3:2", "vector:0:1:1", "vector:a:1:1",
                           "face:3", "face:3:w", "face:1291:x", "indexed:-1", "struct:400000000", "struct:99999999999"})
    EXPECT_FALSE(parse_type_shape(text).ok()) << text;
}

TEST(PerfOptions, MessagesWithGapsAreOfDoublesBesideContiguousOnes) {
  auto options = parse("latency --type-shape contiguous,struct:2 -b 8 -e 16");
  ASSERT_TRUE(options.ok()) << options.status().what();
  EXPECT_EQ(options->baseline, BaselineChoice::contiguous);
  auto calls = plan(*options, 0, 2);
  ASSERT_TRUE(calls.ok() && calls->size() == 3u);
  EXPECT_EQ(calls->at(0).count, 1u);
  EXPECT_EQ(table_bytes(calls->at(2)), 48u);
  EXPECT_EQ(send_elements(calls->at(2)), 8u);
  EXPECT_EQ(parse("latency --type-shape struct:2 -d int32 --baseline host")->baseline, BaselineChoice::host);
}

TEST(PerfOptions, LatencyTakesMoreCalls) {
  EXPECT_EQ(parse("latency")->iterations, 200);
  EXPECT_EQ(parse("latency --latency")->iterations, 1000);

  EXPECT_EQ(parse("allreduce")->iterations, 20);
  EXPECT_EQ(parse("allreduce --latency")->iterations, 1000);
  EXPECT_EQ(parse("allreduce --latency -n 7")->iterations, 7);
}

TEST(PerfOptions, OverlapMeansNonblockingCallsOfMpi) {
  EXPECT_TRUE(parse("allreduce --overlap host")->nonblocking);
  EXPECT_FALSE(parse("allreduce --overlap host --api")->nonblocking);
  EXPECT_FALSE(parse("allreduce --overlap host --persistent")->nonblocking);
}

TEST(PerfOptions, ABarrierIsOneRow) { EXPECT_EQ(counts("barrier -d all", 3), (std::vector<size_t>{0})); }

// Blocks lie one behind the other, differ, and are together as much as equal ones; what a rank sends is what its peer
// receives.
TEST(PerfOptions, UnevenBlocks) {
  for (const Collective collective : {Collective::allgatherv, Collective::alltoallv}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      Call call;
      call.collective = collective;
      call.ranks = ranks;
      call.count = 10;
      for (int rank = 0; rank < ranks; ++rank) {
        size_t next = 0;
        for (int peer = 0; peer < ranks; ++peer) {
          const Block block = block_of(call, rank, peer);
          EXPECT_EQ(block.offset, next) << rank << " of " << ranks << ", block " << peer;
          if (collective == Collective::alltoallv) {
            EXPECT_EQ(block.elements, block_of(call, peer, rank).elements);
          }
          next += block.elements;
        }
        EXPECT_EQ(next, 10u * static_cast<size_t>(ranks));
      }
      if (ranks > 1) {
        EXPECT_NE(block_of(call, 0, 0).elements, block_of(call, 0, 1).elements);
      }
    }
  }
}

TEST(PerfOptions, PartnersOfMessages) {
  Call call;
  call.collective = Collective::sendrecv;
  call.ranks = 3;
  call.rank = 2;
  EXPECT_EQ(partners_of(call).to, 0);
  EXPECT_EQ(partners_of(call).from, 1);
  call.collective = Collective::pair;
  EXPECT_EQ(partners_of(call).to, -1);  // no rank 3
  EXPECT_EQ(partners_of(call).from, -1);
  call.rank = 1;
  EXPECT_EQ(partners_of(call).to, -1);
  EXPECT_EQ(partners_of(call).from, 0);
}

TEST(PerfOptions, MistakesAreOneSentence) {
  for (const char* line : {"",
                           "foo",
                           "allreduce -b 8 -e 4",
                           "allreduce -d flaot",
                           "allreduce -o avg",
                           "allreduce -d float -o band",
                           "allreduce -b 64Q",
                           "allreduce -n x",
                           "allreduce --wat",
                           "allreduce -f 1",
                           "allreduce -f nan",
                           "allreduce -n 0",
                           "allreduce -w -1",
                           "allreduce -c 2",
                           "allreduce --baseline mpi",
                           "allreduce -b -5",
                           "sendrecv --nonblocking",
                           "pair --overlap host",
                           "latency --api",
                           "latency --in-place",
                           "bandwidth --nonblocking",
                           "bibw --persistent",
                           "bibw --overlap host",
                           "bandwidth --window 0",
                           "pair --in-place --api",
                           "alltoall --in-place --api",
                           "allreduce --pipelined",
                           "allreduce --api --pipelined --latency",
                           "allreduce --api --pipelined --overlap host",
                           "allreduce --latency --overlap host",
                           "allreduce --overlap gpu",
                           "allreduce --overlap kernel --overlap-blocks 0",
                           "allreduce --api --nonblocking",
                           "allreduce --api --persistent",
                           "allreduce --nonblocking --persistent",
                           "allreduce --repeat 0",
                           "allreduce --tolerance -1",
                           "allgatherv --api",
                           "reduce_scatterv --api",
                           "alltoallv --api --in-place",
                           "barrier --in-place",
                           "allreduce --registered"}) {
    auto options = parse(line);
    ASSERT_FALSE(options.ok()) << line;
    EXPECT_EQ(options.status().code(), Code::invalid_argument) << line;
    std::string what = options.status().what();
    EXPECT_FALSE(what.empty()) << line;
    EXPECT_EQ(what.find('\n'), std::string::npos) << line << ": " << what;
  }
}

TEST(PerfOptions, RefusesWhatMpiCannotCount) {
  auto options = parse("allreduce -b 4G -e 4G -d int8");
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(plan(*options, 0, 2).ok());
  EXPECT_TRUE(plan(*parse("allreduce -b 4G -e 4G -d double"), 0, 2).ok());
  EXPECT_FALSE(plan(*parse("bcast -r 2"), 0, 2).ok());
}

TEST(PerfOptions, BusFactors) {
  Call call;
  call.ranks = 4;
  EXPECT_DOUBLE_EQ(bus_factor(call), 1.5);
  call.collective = Collective::alltoall;
  EXPECT_DOUBLE_EQ(bus_factor(call), 0.75);
  call.collective = Collective::bcast;
  EXPECT_DOUBLE_EQ(bus_factor(call), 1);
}

}  // namespace
}  // namespace gpucoll::perf
