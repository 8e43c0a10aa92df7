#include "core/plan/tuner.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/integers.h"
#include "base/params.h"
#include "core/plan/tuning_file.h"
#include "proto/format/mesh.h"

namespace gpucoll::core {
namespace {

// How fast a protocol is on one kind of device.
struct Speed {
  double hop_us;           // from a rank's data being there until its neighbour can send them on
  double channel_gbs;      // of data out of one channel, 1e9 bytes a second
  double move_gbs;         // of data out of a device that are only moved
  double reduce_gbs;       // and of data that are reduced on their way
  uint64_t channel_bytes;  // a channel pays from this many bytes of a rank's share on
};
// Messages between two ranks: a part in LL takes less time up to ll_most bytes, as its hop is shorter and its bandwidth
// lower. Messages are cut into more parts as long as each has the least.
struct PairModel {
  uint64_t ll_most, ll_least, simple_least;
};
struct Model {
  double launch_us;          // of an operation without hops
  double chain_launch_us;    // the same of a broadcast down a chain, and of the like
  double mesh_launch_us;     // the same through a mesh
  double one_shot_round_us;  // until each thread has handed on 16 bytes
  Speed ring[proto::kProtocols];
  Speed one_shot;          // of bytes out of a device, flags included
  Speed all_pairs;         // of data
  double tree_efficiency;  // of the ring's bandwidth: two children share a block
  PairModel pair;
};
// docs/measurements
constexpr Model kGpu = {20.5,
                        17.5,
                        13,
                        1.3,
                        {{3.6, 20, 360, 350, 16384}, {1.5, 6.5, 125, 105, 4096}, {1.7, 16, 290, 250, 8192}},
                        {1.5, 20, 300, 220, 8192},
                        {4.2, 12, 270, 270, 8192},
                        0.8,
                        {8192, 2048, 32768}};
// Two cores that carry four ranks, where words with flags are slow. One-shot looks better than it is, so that programs
// on the emulated device take the same ways as on GPUs.
constexpr Model kEmulated = {40,
                             40,
                             40,
                             0,
                             {{6, 1, 2, 2, 16384}, {5, 0.04, 0.08, 0.08, 4096}, {6, 0.15, 0.3, 0.3, 8192}},
                             {5, 0.6, 1.2, 1.2, 8192},
                             {10, 0.05, 0.12, 0.12, 8192},
                             0.7,
                             {1024, 256, 32768}};

// Between nodes over sockets, where one thread moves all channels, and a few keep it busy. Links there carry Simple
// alone, but for those of a mesh.
constexpr Speed kSocket = {30, 2, 4, 4, 65536}, kSocketMesh = {25, 2, 4, 4, 65536};
constexpr Model kNetwork = {40, 40, 40, 0, {kSocket, kSocket, kSocket}, kSocketMesh, kSocket, 0.8, {0, 65536, 65536}};

constexpr double kBytesPerUs = 1000;  // of 1 GB/s

struct Path {
  Algorithm algorithm;
  Protocol protocol;
};
// In the order of preference where times are equal.
constexpr Path kPaths[] = {{Algorithm::one_shot, Protocol::ll}, {Algorithm::all_pairs, Protocol::ll128},
                           {Algorithm::ring, Protocol::simple}, {Algorithm::ring, Protocol::ll},
                           {Algorithm::ring, Protocol::ll128},  {Algorithm::tree, Protocol::simple},
                           {Algorithm::tree, Protocol::ll},     {Algorithm::tree, Protocol::ll128}};
constexpr size_t kNumPaths = sizeof kPaths / sizeof kPaths[0];

int clamp_int(uint64_t wanted, int most) {
  return static_cast<int>(std::clamp<uint64_t>(wanted, 1, static_cast<uint64_t>(std::max(most, 1))));
}
int ceil_log2(int n) { return n <= 1 ? 0 : 32 - __builtin_clz(static_cast<unsigned>(n - 1)); }
int floor_power_of_two(uint64_t n) { return n ? 1 << std::min(63 - __builtin_clzll(n), 30) : 1; }
const Model& model_of(const CommProperties& shape) {
  return shape.network ? kNetwork : shape.emulated ? kEmulated : kGpu;
}

// Broadcast, reduce and scans hand all data down a chain or a tree; the others give every rank its share at each hop.
bool is_pipeline(Function function, Algorithm algorithm) {
  return algorithm == Algorithm::tree || function == Function::broadcast || function == Function::reduce ||
         function == Function::scan || function == Function::exscan;
}

int hops(Function function, Algorithm algorithm, int n) {
  if (n < 2) return 0;
  if (algorithm == Algorithm::one_shot) return 1;
  const int one_way = algorithm == Algorithm::tree ? ceil_log2(n + 1) - 1 : n - 1;
  return function == Function::all_reduce ? 2 * std::max(one_way, 1) : std::max(one_way, 1);
}

// Bytes that a rank sends, on average.
double sent_bytes(Function function, Algorithm algorithm, uint64_t bytes, int n) {
  const auto all = static_cast<double>(bytes);
  if (n < 2) return all;  // a copy
  if (algorithm == Algorithm::one_shot) return 2 * all * (n - 1);
  switch (function) {
    case Function::all_reduce: return 2 * all * (n - 1) / n;
    case Function::all_gather:
    case Function::reduce_scatter: return all * (n - 1);
    default: return all;
  }
}

// 1e9 bytes a second out of a device, of which an allreduce reduces one half and then moves the other.
double device_gbs(Function function, const Speed& speed) {
  switch (function) {
    case Function::all_reduce: return 2 / (1 / speed.move_gbs + 1 / speed.reduce_gbs);
    case Function::reduce:
    case Function::reduce_scatter:
    case Function::scan:
    case Function::exscan: return speed.reduce_gbs;
    default: return speed.move_gbs;
  }
}

// Returns the bytes of which a channel works on a part at a hop.
uint64_t share_bytes(Function function, Algorithm algorithm, uint64_t bytes, int n) {
  return function == Function::all_reduce && algorithm == Algorithm::ring
             ? bytes / static_cast<uint64_t>(std::max(n, 1))
             : bytes;
}

// Enough threads for 16 bytes each of a channel's part, in whole warps: more only make barriers longer.
int useful_threads(uint64_t bytes, int channels, const CommProperties& shape) {
  constexpr uint64_t kPackBytes = 16;
  const auto warp = static_cast<uint64_t>(std::max(shape.warp, 1));
  const uint64_t packs = ceil_div(ceil_div(bytes, static_cast<uint64_t>(channels)), kPackBytes);
  return clamp_int(ceil_div(std::max<uint64_t>(packs, 1), warp) * warp, shape.threads);
}

// About the bytes of a chunk in which a channel's part goes down a pipeline of so many hops (kernels/split.h).
double pipeline_chunk(double channel_bytes, int n_hops) {
  constexpr double kMoveCost = 49152, kLeast = 16384;
  return std::min(channel_bytes, std::max(kLeast, std::sqrt(channel_bytes * kMoveCost / n_hops)));
}

int one_shot_channels(const CommProperties& shape) {
  return shape.network ? 1 : std::min(proto::kMeshChannels, shape.most_blocks);
}

Choice one_shot_choice(Function function, uint64_t bytes, const CommProperties& shape, const Model& model) {
  constexpr uint64_t kPackBytes = 16;
  const int n = shape.n_ranks;
  const int channels = clamp_int(ceil_div(bytes, model.one_shot.channel_bytes), one_shot_channels(shape));
  const int threads = useful_threads(bytes, channels, shape);
  const bool moves = is_exchange(function) || function == Function::all_gather || function == Function::broadcast;
  const double gbs =
      std::min(channels * model.one_shot.channel_gbs, moves ? model.one_shot.move_gbs : model.one_shot.reduce_gbs);
  const uint64_t rounds =
      ceil_div(bytes, static_cast<uint64_t>(channels) * static_cast<uint64_t>(threads) * kPackBytes);
  const double us = model.mesh_launch_us + model.one_shot.hop_us +
                    static_cast<double>(rounds) * model.one_shot_round_us +
                    sent_bytes(Function::all_reduce, Algorithm::one_shot, bytes, n) / (gbs * kBytesPerUs);
  return {Algorithm::one_shot, Protocol::ll, channels, threads, 0, us, false};
}

// Returns whether the function's buffers have a block for each rank, of `bytes` each.
bool has_blocks(Function function) {
  return is_exchange(function) || function == Function::all_gather || function == Function::reduce_scatter;
}

// Returns the bytes that a rank has for another.
uint64_t block_bytes(Function function, uint64_t bytes, const CommProperties& shape) {
  return has_blocks(function) ? bytes : ceil_div(bytes, static_cast<uint64_t>(std::max(shape.n_ranks, 1)));
}

Choice all_pairs_choice(Function function, uint64_t bytes, const CommProperties& shape, const Model& model) {
  const Speed& speed = model.all_pairs;
  const uint64_t block = block_bytes(function, bytes, shape);
  const int channels = clamp_int(ceil_div(block, speed.channel_bytes), shape.n_channels);
  const double gbs = std::min(channels * speed.channel_gbs, speed.move_gbs);
  const int steps = has_blocks(function) ? 1 : 2;
  // The root of a broadcast sends a block to each rank, which sends it to all others; that of a reduce gets the
  // results.
  const double sent = steps * static_cast<double>(block) * (shape.n_ranks - 1);
  const double us = model.mesh_launch_us + steps * speed.hop_us + sent / (gbs * kBytesPerUs);
  return {Algorithm::all_pairs, Protocol::ll128, channels, useful_threads(block, channels, shape), 0, us, false};
}

Choice predict(Function function, Path path, uint64_t bytes, const CommProperties& shape) {
  const Model& model = model_of(shape);
  if (path.algorithm == Algorithm::one_shot) return one_shot_choice(function, bytes, shape, model);
  if (path.algorithm == Algorithm::all_pairs) return all_pairs_choice(function, bytes, shape, model);
  const Speed& speed = model.ring[static_cast<int>(path.protocol)];
  const int n = shape.n_ranks, n_hops = hops(function, path.algorithm, n);
  const uint64_t share = share_bytes(function, path.algorithm, bytes, n);
  const int channels = clamp_int(ceil_div(share, speed.channel_bytes), shape.n_channels);
  const double efficiency = path.algorithm == Algorithm::tree ? model.tree_efficiency : 1;
  const double gbs = std::min(channels * speed.channel_gbs, device_gbs(function, speed)) * efficiency;
  const bool is_chain = path.algorithm == Algorithm::ring && is_pipeline(function, path.algorithm);
  const double launch_us = is_chain ? model.chain_launch_us : model.launch_us;
  Choice choice = {path.algorithm, path.protocol, channels, shape.threads, 0, launch_us, false};
  if (path.protocol != Protocol::simple) choice.threads = useful_threads(share, channels, shape);
  if (is_pipeline(function, path.algorithm) && path.protocol == Protocol::simple && n_hops > 1) {
    const double chunk = pipeline_chunk(static_cast<double>(bytes) / channels, n_hops);
    choice.us += (n_hops - 1) * chunk * channels / (gbs * kBytesPerUs);
  }
  choice.us += n_hops * speed.hop_us + sent_bytes(function, path.algorithm, bytes, n) / (gbs * kBytesPerUs);
  return choice;
}

Choice evaluate(Function function, Path path, uint64_t bytes, const CommProperties& shape) {
  Choice choice = predict(function, path, bytes, shape);
  if (!shape.table || shape.network) return choice;  // the table's times are of one node
  const double measured = shape.table->us(function, path.algorithm, path.protocol, bytes);
  if (measured >= 0) choice.us = measured;
  return choice;
}

// Returns what the parameters force: null where they force nothing.
const Algorithm* forced_algorithm() {
  static constexpr Algorithm kByChoice[] = {Algorithm::ring, Algorithm::ring, Algorithm::tree, Algorithm::one_shot,
                                            Algorithm::all_pairs};
  const bool free = params().algorithm == kAlgorithmAuto || params().algorithm == kAlgorithmZeroCopy;
  return free ? nullptr : &kByChoice[params().algorithm];
}
const Protocol* forced_protocol() {
  static constexpr Protocol kByChoice[] = {Protocol::simple, Protocol::simple, Protocol::ll, Protocol::ll128};
  return params().protocol == kProtocolAuto ? nullptr : &kByChoice[params().protocol];
}

// Returns up to how many bytes zero-copy is ahead of the ring on GPUs, which has the same bits and, from some size on,
// more bandwidth; docs/measurements/2026-11-27-clusters.md. A reduce_scatter has no such size, nor a reduce between
// two.
uint64_t most_zero_copy(Function function, const CommProperties& shape) {
  constexpr uint64_t kMost = 96 << 20;
  if (shape.emulated) return UINT64_MAX;
  if (function == Function::all_reduce) return kMost / static_cast<uint64_t>(shape.n_ranks);
  return function == Function::reduce && shape.n_ranks > 2 ? kMost : UINT64_MAX;
}

// bytes: as for candidates(). Each rank's part of a reduce_scatter is whole packs.
bool wants_zero_copy(Function function, uint64_t bytes, const CommProperties& shape) {
  if (shape.zero_copy_bytes == 0 || !shape.mesh) return false;
  const bool scatters = function == Function::reduce_scatter;
  if (!scatters && function != Function::all_reduce && function != Function::reduce) return false;
  if (scatters && bytes % sizeof(proto::Pack) != 0) return false;
  if (params().algorithm == kAlgorithmZeroCopy) return true;
  const uint64_t all = scatters ? bytes * static_cast<uint64_t>(shape.n_ranks) : bytes;
  return !forced_algorithm() && all >= shape.zero_copy_bytes && all <= most_zero_copy(function, shape);
}

// How it goes on where not all buffers are known: with the same bits, as that is known sooner in one run than in
// another. A tree has an order that zero-copy does not know; of rings its kernel has those by Simple.
bool may_carry_zero_copy(Path path) {
  return path.algorithm == Algorithm::all_pairs ||
         (path.algorithm == Algorithm::ring && path.protocol == Protocol::simple);
}

// With as many channels as are of use to it.
Choice with_zero_copy(Choice choice, Function function, uint64_t bytes, const CommProperties& shape) {
  constexpr uint64_t kChannelBytes = 4096;
  choice.zero_copy =
      may_carry_zero_copy({choice.algorithm, choice.protocol}) && wants_zero_copy(function, bytes, shape);
  if (!choice.zero_copy) return choice;
  const uint64_t block = block_bytes(function, bytes, shape);
  choice.channels = std::max(choice.channels, clamp_int(ceil_div(block, kChannelBytes), shape.n_channels));
  choice.threads = std::max(choice.threads, useful_threads(block, choice.channels, shape));
  return choice;
}

// A few paths, without a heap.
struct Paths {
  std::array<Path, kNumPaths> list;
  size_t n = 0;
  // Keeps those that pred accepts, unless there is none.
  template <class Predicate>
  void prefer(Predicate&& pred) {
    size_t kept = 0;
    for (size_t i = 0; i < n; ++i)
      if (pred(list[i])) std::swap(list[kept++], list[i]);
    if (kept > 0) n = kept;
  }
};

Paths possible_paths(Function function, uint64_t bytes, const CommProperties& shape, bool has_one_shot) {
  Paths paths;
  for (Path path : kPaths)
    if (!obstacle(function, path.algorithm, path.protocol, bytes, shape, has_one_shot)) paths.list[paths.n++] = path;
  if (params().algorithm == kAlgorithmZeroCopy) paths.prefer(may_carry_zero_copy);
  if (const Algorithm* forced = forced_algorithm())
    paths.prefer([forced](const Path& path) { return path.algorithm == *forced; });
  if (const Protocol* forced = forced_protocol())
    paths.prefer([forced](const Path& path) { return path.protocol == *forced; });
  // For the sake of zero-copy: others are little faster than what may carry it, where the parameters leave that.
  if (wants_zero_copy(function, bytes, shape))
    paths.prefer([](const Path& path) { return path.algorithm == Algorithm::one_shot || may_carry_zero_copy(path); });
  return paths;
}

// A channel's share may be a whole granule of 128 bytes above the mean, hence the distance from the mesh's limit.
uint64_t most_one_shot_bytes(const CommProperties& shape) {
  const uint64_t most = shape.network
                            ? proto::kNetworkMeshData
                            : static_cast<uint64_t>(one_shot_channels(shape)) * (proto::kMeshChannelData - 128);
  return std::min(shape.one_shot_bytes / static_cast<uint64_t>(std::max(shape.n_ranks, 1)), most);
}

const char* one_shot_obstacle(uint64_t bytes, const CommProperties& shape, bool has_one_shot) {
  if (!has_one_shot) return "this reduction has no one-shot kernel";
  if (!shape.mesh) return "there is no mesh";
  if (bytes > most_one_shot_bytes(shape)) return "more than one_shot_bytes / ranks";
  return nullptr;
}

const char* all_pairs_obstacle(Function function, uint64_t bytes, const CommProperties& shape) {
  if (!shape.line_mesh) return "there is no line mesh";
  return block_bytes(function, bytes, shape) > shape.all_pairs_bytes ? "more than all_pairs_bytes" : nullptr;
}

// By measured times, where the tuning file has both of them.
bool pair_in_ll(uint64_t bytes, const CommProperties& shape, int most_parts) {
  if (shape.network) return false;
  const Protocol* forced = forced_protocol();
  if (forced && *forced != Protocol::ll128) return *forced == Protocol::ll;
  if (shape.table) {
    const double ll = shape.table->us(Function::send_recv, Algorithm::pairwise, Protocol::ll, bytes);
    const double simple = shape.table->us(Function::send_recv, Algorithm::pairwise, Protocol::simple, bytes);
    if (ll >= 0 && simple >= 0) return ll < simple;
  }
  return bytes <= model_of(shape).pair.ll_most * static_cast<uint64_t>(most_parts);
}

}  // namespace

const char* obstacle(Function function, Algorithm algorithm, Protocol protocol, uint64_t bytes,
                     const CommProperties& shape, bool has_one_shot) {
  if (!supported(function, algorithm, protocol)) return "there is no such kernel";
  if (protocol != Protocol::simple && algorithm != Algorithm::one_shot && shape.network)
    return "links between nodes carry Simple alone";
  if (protocol == Protocol::ll128 && !shape.ll128)
    return "not every link keeps 128-byte stores whole (parameter ll128_links)";
  if (algorithm == Algorithm::all_pairs) return all_pairs_obstacle(function, bytes, shape);
  return algorithm == Algorithm::one_shot ? one_shot_obstacle(bytes, shape, has_one_shot) : nullptr;
}

std::vector<Choice> candidates(Function function, uint64_t bytes, const CommProperties& shape, bool has_one_shot) {
  const Paths paths = possible_paths(function, bytes, shape, has_one_shot);
  std::vector<Choice> list;
  for (size_t i = 0; i < paths.n; ++i)
    list.push_back(with_zero_copy(evaluate(function, paths.list[i], bytes, shape), function, bytes, shape));
  std::stable_sort(list.begin(), list.end(), [](const Choice& a, const Choice& b) { return a.us < b.us; });
  return list;
}

Choice choose(Function function, uint64_t bytes, const CommProperties& shape, bool has_one_shot) {
  const Paths paths = possible_paths(function, bytes, shape, has_one_shot);
  Choice best = evaluate(function, paths.list[0], bytes, shape);
  for (size_t i = 1; i < paths.n; ++i) {
    const Choice other = evaluate(function, paths.list[i], bytes, shape);
    if (other.us < best.us) best = other;
  }
  return with_zero_copy(best, function, bytes, shape);
}

PairChoice choose_pair(uint64_t bytes, const CommProperties& shape) {
  const PairModel& model = model_of(shape).pair;
  // All peers together fill the channels about twice.
  const int peers = std::max(shape.n_ranks - 1, 1);
  const int most = std::max(1, std::min(shape.n_pair_channels, 2 * shape.n_pair_channels >> ceil_log2(peers)));
  const bool ll = pair_in_ll(bytes, shape, most);
  const uint64_t wanted = ceil_div(bytes, ll ? model.ll_least : model.simple_least);
  const int parts = std::min(floor_power_of_two(wanted), most);
  // One half of a block sends, the other one receives; in LL a pack leads each part (proto/line_work.h).
  const uint64_t with_leads = bytes + 16 * static_cast<uint64_t>(parts);
  const int threads = ll ? std::min(2 * useful_threads(with_leads, parts, shape), shape.threads) : shape.threads;
  return {parts, ll ? Protocol::ll : Protocol::simple, threads};
}

const char* name(Function function) {
  switch (function) {
    case Function::send_recv: return "sendrecv";
    case Function::broadcast: return "broadcast";
    case Function::all_gather: return "allgather";
    case Function::all_reduce: return "allreduce";
    case Function::reduce: return "reduce";
    case Function::reduce_scatter: return "reduce_scatter";
    case Function::scan: return "scan";
    case Function::exscan: return "exscan";
    case Function::all_to_all: return "alltoall";
    case Function::gather: return "gather";
    case Function::scatter: return "scatter";
  }
  return "?";
}
const char* name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring: return "ring";
    case Algorithm::tree: return "tree";
    case Algorithm::one_shot: return "one_shot";
    case Algorithm::pairwise: return "pairwise";
    case Algorithm::all_pairs: return "all_pairs";
  }
  return "?";
}
const char* name(Protocol protocol) {
  switch (protocol) {
    case Protocol::simple: return "simple";
    case Protocol::ll: return "ll";
    case Protocol::ll128: return "ll128";
  }
  return "?";
}

}  // namespace gpucoll::core
