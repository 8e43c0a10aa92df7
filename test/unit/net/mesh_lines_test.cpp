// One-shots through a mesh over a network, whose lines a host's thread brings.
#include "net/mesh_lines.h"

#include <span>

#include "../../proto/mesh_program.h"

namespace gpucoll {
namespace {

using net::MeshMemory;
using net::ReceivingLines;
using net::SendingLines;
using proto::Function;
using proto::StepFrame;
using proto::StepKind;
using test::Launch;

constexpr Function kReduces[] = {Function::all_reduce, Function::reduce_scatter, Function::reduce, Function::scan,
                                 Function::exscan};
constexpr Function kMoves[] = {Function::all_gather, Function::broadcast, Function::all_to_all, Function::gather,
                               Function::scatter};
constexpr uint64_t kMost = proto::kNetworkMeshData / sizeof(float);

// Both ends of the lines from each rank to each other one.
class Host {
 public:
  // Moves at most one operation of each pair; returns whether there was any.
  bool operator()(test::World& world, int n_ranks) {
    bool any = false;
    for (int from = 0; from < n_ranks; ++from)
      for (int to = 0; to < n_ranks; ++to)
        if (from != to) any |= move(pair_of(world, n_ranks, from, to));
    return any;
  }

 private:
  struct Pair {
    SendingLines sending;
    ReceivingLines receiving;
  };
  static bool move(Pair& pair) {
    StepFrame frame;
    const uint8_t* data;
    const auto moved = pair.sending.next(&frame, &data);
    EXPECT_TRUE(moved);
    if (!moved || !*moved) return false;
    const auto place = pair.receiving.place(frame);
    EXPECT_TRUE(place);
    if (!place) return false;
    std::memcpy(*place, data, proto::data_bytes(frame));
    pair.receiving.arrived(frame);
    return true;
  }
  Pair& pair_of(test::World& world, int n_ranks, int from, int to) {
    std::unique_ptr<Pair>& pair = pairs_[{from, to}];
    if (!pair)
      pair.reset(new Pair{SendingLines({world.mesh_of(from, to), n_ranks, from}),
                          ReceivingLines({world.mesh_of(to, to), n_ranks, from})});
    return *pair;
  }
  std::map<std::pair<int, int>, std::unique_ptr<Pair>> pairs_;
};

void run(int n_ranks, int threads, std::vector<Launch> launches) {
  Host host;
  test::Options options;
  options.host = [&](test::World& world) { return host(world, n_ranks); };
  test::run_operations<test::OneShots, proto::Sum<float>>(n_ranks, threads, std::move(launches), options);
}

TEST(NetworkMesh, EveryFunctionAtOddCounts) {
  for (const int n : {2, 3, 8}) {
    for (const std::span<const Function> functions : {std::span(kReduces), std::span(kMoves)}) {
      Launch launch;
      for (const Function function : functions)
        for (const uint64_t count : {0, 1, 3, 4, 601})
          launch.push_back({count, 1, count % 2 == 1, 4, 12, function, static_cast<size_t>(n) / 2});
      std::vector<Launch> launches;
      for (const test::Op& op : launch) launches.push_back({op});
      run(n, 4, launches);
    }
  }
}

TEST(NetworkMesh, ItsMostBytes) { run(2, 8, {{{kMost}}, {{kMost - 1}}, {{1}}, {{kMost, 1, true}}}); }

// Ranks drift apart by an operation, and a host that is late finds two posts.
TEST(NetworkMesh, HundredsOfOperations) {
  std::mt19937 random(5);
  for (const int n : {2, 3}) {
    std::vector<Launch> launches;
    for (int i = 0; i < 60; ++i) {
      Launch launch;
      for (int k = 0; k < 4; ++k)
        launch.push_back({random() % kMost, 1, false, 0, 0, kReduces[random() % 5], random() % static_cast<size_t>(n)});
      launches.push_back(std::move(launch));
    }
    run(n, 3, launches);
  }
}

// Words of older operations, and packs that are not all there.
TEST(MeshLines, AreTakenOnceAllAreThere) {
  constexpr int kRanks = 3;
  std::vector<uint64_t> image(proto::network_mesh_bytes(kRanks) / sizeof(uint64_t));
  auto* const memory = reinterpret_cast<uint8_t*>(image.data());
  SendingLines sending({memory, kRanks, 1});
  StepFrame frame;
  const uint8_t* data;
  for (uint32_t flag = 1; flag < 6; ++flag) {
    uint8_t* const lines = memory + proto::mesh_offset(kRanks, 0, flag, 1, proto::kNetworkMeshLines);
    for (uint32_t p = 0; p < 3; ++p) {
      EXPECT_FALSE(*sending.next(&frame, &data));
      proto::ll_store(lines, p, {{flag, p, 7, 8}}, flag, proto::kNetworkMeshPacks);
      *reinterpret_cast<uint64_t*>(memory + proto::mesh_post_offset(kRanks, flag)) = proto::mesh_post(flag, 3);
    }
    ASSERT_TRUE(*sending.next(&frame, &data));
    EXPECT_EQ(frame.kind, StepKind::kPacks);
    EXPECT_EQ(frame.step, flag);
    EXPECT_EQ(proto::data_bytes(frame), 48u);
    for (uint32_t p = 0; p < 3; ++p) {
      proto::Pack pack;
      std::memcpy(&pack, data + p * sizeof pack, sizeof pack);
      EXPECT_EQ(pack.word[0], flag);
      EXPECT_EQ(pack.word[1], p);
      EXPECT_EQ(pack.word[3], 8u);
    }
  }
}

TEST(MeshLines, RefuseWhatIsNoOperation) {
  std::vector<uint64_t> memory(proto::network_mesh_bytes(2) / sizeof(uint64_t));
  const MeshMemory mesh = {reinterpret_cast<uint8_t*>(memory.data()), 2, 0};
  ReceivingLines receiving(mesh);
  StepFrame frame = {};
  frame.kind = StepKind::kPacks;
  frame.step = 2;
  frame.record = 1;
  EXPECT_EQ(receiving.place(frame).status().code(), Code::remote);
  frame.step = 1;
  frame.record = proto::kNetworkMeshPacks + 1;
  EXPECT_EQ(receiving.place(frame).status().code(), Code::remote);
  frame.record = proto::kNetworkMeshPacks;
  EXPECT_TRUE(receiving.place(frame));

  memory[proto::mesh_post_offset(2, 1) / sizeof(uint64_t)] = proto::mesh_post(1, proto::kNetworkMeshPacks + 1);
  const uint8_t* data;
  EXPECT_EQ(SendingLines(mesh).next(&frame, &data).status().code(), Code::internal);
}

}  // namespace
}  // namespace gpucoll
