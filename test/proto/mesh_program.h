// Operations of any functions through a mesh, launch after launch: every rank, block and thread a CPU thread; launches
// of a rank follow one another, ranks drift apart as they like. Results are compared bit for bit with the order of
// ranks.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <thread>

#include "plan_runner.h"

namespace gpucoll::test {

using proto::Function;

inline constexpr size_t kMostItems = 30;  // of a plan, with the holes that PlanMaker leaves

struct Op {
  uint64_t count;  // elements, as in the C API
  int n_channels = 1;
  bool in_place = false;
  size_t send_offset = 0, recv_offset = 0;  // bytes from a multiple of 16
  Function function = Function::all_reduce;
  size_t root = 0;
  uint32_t chunk_bytes = 0;
  int threads = 0;       // 0: all of a block
  int closed_rank = -1;  // zero-copy: whose addresses nobody knows
};
inline bool is_one_of(const Op& op, std::initializer_list<Function> functions) {
  return std::find(functions.begin(), functions.end(), op.function) != functions.end();
}
inline bool moves(const Op& op) {
  return is_one_of(
      op, {Function::broadcast, Function::all_gather, Function::all_to_all, Function::gather, Function::scatter});
}
using Launch = std::vector<Op>;

struct Options {
  uint32_t last_flag = 0;  // of the mesh, before the first operation
  int first_channel = 0;
  bool in_fifo = false, captured = false;
  proto::Reduction reduction = {};
  uint64_t first_step = 0;  // of the line mesh
  uint32_t first_opening = 0;
  std::function<bool(World&)> host = {};  // of a network mesh: moves lines once; false: none were there
};

// What ThreadSanitizer looks for is the same for all types, which take long to compile.
#if defined(__SANITIZE_THREAD__)
#define GC_FEW_TYPES
#endif

template <class Red>  // or CopyOf
void run_one_shots(const gpu::EmuBlock& block, const proto::Plan& plan) {
  coll::device::run_one_shots<Red>(gpu::emu::ThreadBlock(block), static_cast<uint32_t>(block.block),
                                   static_cast<uint32_t>(block.n_blocks), plan, block.shared);
}

// How operations are planned, and what runs them. As one-shots, either all of a launch move or none does.
struct OneShots {
  static constexpr bool kCountsFlags = true, kOpens = false;
  static void add(PlanMaker& maker, const Launch&, const std::vector<proto::WorkItem>& items) {
    maker.add({0, Function::all_reduce, proto::Algorithm::one_shot, proto::Protocol::ll, 0, 0, 0}, items);
  }
  template <class Red>
  static void run(const gpu::EmuBlock& block, const proto::Plan& plan, const Launch& launch) {
    moves(launch[0]) ? run_one_shots<proto::CopyOf<uint8_t>>(block, plan) : run_one_shots<Red>(block, plan);
  }
};
// So that operations of any functions follow each other.
template <class Red>
struct AllPairsOrMoving {
  static constexpr bool kMessages = false;
  template <class Block>
  static void run(const Block& block, const proto::Batch& batch, const coll::device::Work& work,
                  const coll::device::Opened& opened) {
    using coll::device::AllPairsVariant;
    const bool moves = test::moves({.count = 0, .function = batch.function});
    moves ? AllPairsVariant<proto::CopyOf<uint8_t>>::run(block, batch, work, opened)
          : AllPairsVariant<Red>::run(block, batch, work, opened);
  }
};
struct AllPairs {
  static constexpr bool kCountsFlags = false, kOpens = false;
  static void add(PlanMaker& maker, const Launch& launch, const std::vector<proto::WorkItem>& items) {
    for (size_t i = 0; i < launch.size(); ++i)
      maker.add({0, launch[i].function, proto::Algorithm::all_pairs, proto::Protocol::ll128, 0, 0, 0}, {items[i]},
                ((uint64_t{1} << launch[i].n_channels) - 1) << items[i].collective.first_channel);
  }
  template <class Red>
  static void run(const gpu::EmuBlock& block, const proto::Plan& plan, const Launch&) {
    kernel_of<AllPairsOrMoving<Red>>(block, plan);
  }
};

// On all ranks' buffers, where Op::closed_rank is not one of them: then by lines.
struct ZeroCopies {
  static constexpr bool kCountsFlags = false, kOpens = true;
  static proto::Batch kind(const Op& op) {
    return {0, op.function, proto::Algorithm::all_pairs, proto::Protocol::ll128, 0, 0, 0};
  }
  static uint64_t channels(const Op& op, const proto::CollectiveItem& item) {
    return ((uint64_t{1} << op.n_channels) - 1) << item.first_channel;
  }
  static void add(PlanMaker& maker, const Launch& launch, const std::vector<proto::WorkItem>& items) {
    for (size_t i = 0; i < launch.size(); ++i) {
      const proto::CollectiveItem& item = items[i].collective;
      std::vector<proto::WorkItem> addresses = addresses_of(item);
      if (item.open == 0) {  // what is there then is nobody's buffer
        static std::vector<uint8_t> nobodys(1 << 20);
        for (proto::WorkItem& a : addresses) std::fill_n(a.addresses.at, proto::kZeroCopyRanks, nobodys.data());
      }
      maker.add(kind(launch[i]), items[i], channels(launch[i], item), std::move(addresses));
    }
  }
  template <class Red>
  static void run(const gpu::EmuBlock& block, const proto::Plan& plan, const Launch&) {
    using coll::device::ZeroCopyOrAllPairs, coll::device::AllPairsVariant;
    kernel_of<std::conditional_t<proto::kMayOpen<Red>, ZeroCopyOrAllPairs<Red>, AllPairsVariant<Red>>>(block, plan);
  }
};

template <class Red, class Way>
class Program {
 public:
  using T = typename Red::Element;

  Program(int n_ranks, int threads, std::vector<Launch> launches, const Options& options)
      : n_(n_ranks), threads_(threads), launches_(std::move(launches)), options_(options), world_(n_ranks, 1, 128) {
    options.host ? world_.add_network_mesh() : world_.add_mesh();
    world_.add_line_mesh(options.first_step);
    for (int r = 0; r < n_; ++r)
      for (proto::ChannelComm& comm : world_.comm(r).channel) comm.openings = options.first_opening;
    for (int r = 0; r < n_; ++r) world_.comm(r).counters = {kDone, options.last_flag, {}};
    for (const Launch& launch : launches_) {
      int blocks = 0;
      for (const Op& op : launch) {
        draw_op(op);
        blocks = std::max(blocks, op.n_channels);
      }
      blocks_.push_back(blocks);
      most_blocks_ = std::max(most_blocks_, blocks);
    }
    make_plans();
  }

  void run() {
    Watch watch(world_);
    std::vector<std::unique_ptr<gpu::emu::BlockBarrier>> launch_ends;
    for (int r = 0; r < n_; ++r) launch_ends.push_back(std::make_unique<gpu::emu::BlockBarrier>());
    std::jthread host([this](const std::stop_token& stop) {
      while (options_.host && !stop.stop_requested())
        if (!options_.host(world_)) std::this_thread::yield();
    });
    run_grids(n_, most_blocks_, threads_, [&](int rank, gpu::EmuBlock block) {
      for (size_t l = 0; l < launches_.size(); ++l) {
        block.n_blocks = blocks_[l];
        const proto::Plan& plan = plans_[l * static_cast<size_t>(n_) + static_cast<size_t>(rank)];
        if (block.block < block.n_blocks) Way::template run<Red>(block, plan, launches_[l]);
        launch_ends[static_cast<size_t>(rank)]->arrive_and_wait(false, most_blocks_ * threads_);
      }
    });
    ASSERT_FALSE(watch.ran_out()) << "ranks wait for ever";
    check();
  }

 private:
  static constexpr uint64_t kDone = 76;        // launches before
  using Values = std::vector<std::vector<T>>;  // of each rank

  size_t ranks() const { return static_cast<size_t>(n_); }
  uint64_t sent(const Op& op) const {
    const bool blocks = is_one_of(op, {Function::reduce_scatter, Function::all_to_all, Function::scatter});
    return op.count * (blocks ? ranks() : 1);
  }
  uint64_t received(const Op& op) const {
    const bool blocks = is_one_of(op, {Function::all_gather, Function::all_to_all, Function::gather});
    return op.count * (blocks ? ranks() : 1);
  }
  static bool has_result(const Op& op, size_t rank) {
    if (op.function == Function::exscan) return rank > 0;
    return !is_one_of(op, {Function::reduce, Function::gather}) || rank == op.root;
  }

  // In place, in_ has both buffers.
  void draw_op(const Op& op) {
    std::mt19937_64 random(ops_.size() + op.count);
    ops_.push_back(op);
    in_.emplace_back();
    out_.emplace_back();
    want_.emplace_back();
    const uint64_t most = op.in_place ? std::max(sent(op), received(op)) : sent(op);
    Values values(ranks(), std::vector<T>(sent(op)));
    for (size_t r = 0; r < ranks(); ++r) {
      in_.back().emplace_back(most * sizeof(T), op.send_offset);
      for (uint64_t i = 0; i < sent(op); ++i) {
        draw(values[r][i], random);
        write_members(input(ops_.size() - 1, r) + i * sizeof(T), values[r][i]);
      }
    }
    if (!op.in_place) out_.back() = std::vector<Buffer>(ranks(), Buffer(received(op) * sizeof(T), op.recv_offset));
    for (size_t r = 0; r < ranks(); ++r) {
      want_.back().emplace_back(received(op) * sizeof(T), 0xa5);
      for (uint64_t i = 0; i < received(op); ++i)
        write_members(want_.back().back().data() + i * sizeof(T), expected(op, values, r, i));
    }
  }
  T expected(const Op& op, const Values& values, size_t rank, uint64_t i) const {
    if (op.function == Function::broadcast) return values[op.root][i];
    if (op.function == Function::scatter) return values[op.root][rank * op.count + i];
    if (op.function == Function::all_to_all) return values[i / op.count][rank * op.count + i % op.count];
    if (is_one_of(op, {Function::all_gather, Function::gather})) return values[i / op.count][i % op.count];
    const size_t n = values.size();
    const uint64_t at = op.function == Function::reduce_scatter ? rank * op.count + i : i;
    const size_t ranks = op.function == Function::scan ? rank + 1 : op.function == Function::exscan ? rank : n;
    T value = own(values[0][at]);
    for (size_t r = 1; r < ranks; ++r) value = Red::apply(value, own(values[r][at]));
    if constexpr (proto::kHasPost<Red>) value = Red::post(value, options_.reduction);
    return value;
  }
  T own(T x) const {
    if constexpr (proto::kHasPre<Red>) return Red::pre(x, options_.reduction);
    return x;
  }
  uint8_t* input(size_t op, size_t rank) {
    const Op& o = ops_[op];
    const bool inside =
        o.in_place && (o.function == Function::all_gather || (o.function == Function::gather && rank == o.root));
    return in_[op][rank].data() + (inside ? rank * ops_[op].count * sizeof(T) : 0);
  }
  uint8_t* output(size_t op, size_t rank) {
    if (!ops_[op].in_place) return out_[op][rank].data();
    const Op& o = ops_[op];
    const bool inside = o.function == Function::reduce_scatter || (o.function == Function::scatter && rank == o.root);
    return in_[op][rank].data() + (inside ? rank * ops_[op].count * sizeof(T) : 0);
  }

  void make_plans() {
    done_.resize(ranks());
    plans_.resize(launches_.size() * ranks());
    size_t first = 0;
    for (size_t l = 0; l < launches_.size(); ++l) {
      for (size_t r = 0; r < static_cast<size_t>(n_); ++r) {
        std::vector<proto::WorkItem> items;
        for (size_t i = 0; i < launches_[l].size(); ++i) items.push_back(item_of(launches_[l][i], first + i, r));
        const uint64_t mask = ((uint64_t{1} << blocks_[l]) - 1) << options_.first_channel;
        PlanMaker& maker = makers_.emplace_back(mask);
        Way::add(maker, launches_[l], items);
        const size_t index = l * static_cast<size_t>(n_) + r;
        plans_[index] = maker.make(options_.in_fifo);
        plans_[index].comm = &world_.comm(static_cast<int>(r));
        // Every other one tells nobody: captured ones are launched among others.
        if (!options_.captured || l % 2 != 0) plans_[index].done_word = &done_[r];
      }
      first += launches_[l].size();
    }
  }

  proto::WorkItem item_of(const Op& op, size_t index, size_t rank) {
    proto::WorkItem work{};
    proto::CollectiveItem& item = work.collective;
    const bool sends = !is_one_of(op, {Function::broadcast, Function::scatter}) || rank == op.root;
    item.send = sends ? input(index, rank) : nullptr;
    item.recv = has_result(op, rank) ? output(index, rank) : nullptr;
    item.count = op.count * (moves(op) ? sizeof(T) : 1);
    item.function = op.function;
    item.next_rank = static_cast<uint8_t>((rank + 1) % ranks());
    item.root = static_cast<uint32_t>(op.root);
    item.argument = options_.reduction.argument;
    item.first_channel = static_cast<uint16_t>(options_.first_channel);
    item.n_channels = static_cast<uint16_t>(op.n_channels);
    item.chunk_bytes = op.chunk_bytes;
    item.threads = static_cast<uint16_t>(op.threads ? op.threads : threads_);
    item.open = static_cast<int>(rank) != op.closed_rank;
    return work;
  }

  void check() {
    const uint64_t told = options_.captured ? launches_.size() / 2 : launches_.size();
    uint32_t last_flag = options_.last_flag;
    for (size_t op = 0; Way::kCountsFlags && op < ops_.size(); ++op) last_flag = proto::next_mesh_flag(last_flag);
    for (int r = 0; r < n_; ++r) {
      const proto::LaunchCounters& counters = world_.comm(r).counters;
      EXPECT_EQ(done_[static_cast<size_t>(r)], told ? kDone + told : 0);
      EXPECT_EQ(counters.done, kDone + told);
      EXPECT_EQ(counters.mesh_flag, last_flag);
      EXPECT_EQ(world_.blocks_done(r), 0u);
    }
    if constexpr (Way::kOpens) check_openings();
    for (size_t op = 0; op < want_.size(); ++op) {
      for (size_t r = 0; r < static_cast<size_t>(n_); ++r) {
        const size_t bytes = has_result(ops_[op], r) ? want_[op][r].size() : 0;
        ASSERT_TRUE(bytes == 0 || std::memcmp(output(op, r), want_[op][r].data(), bytes) == 0)
            << "the result differs: rank " << r << " of " << n_ << ", operation " << op << ", function "
            << static_cast<int>(ops_[op].function) << ", " << bytes << " bytes";
        ASSERT_TRUE(in_[op][r].same_around() && (ops_[op].in_place || out_[op][r].same_around()))
            << "wrote outside of the buffer: operation " << op;
      }
    }
  }

  // Channel by channel, each operation has opened buffers, and gone by lines only where one was closed.
  void check_openings() {
    constexpr bool kMay = !proto::kHasOwnPre<Red> && !proto::kPadded<T>;
    for (int c = 0; c < proto::kMaxChannels; ++c) {
      uint32_t opened = options_.first_opening;
      bool by_lines = false;
      for (const Op& op : ops_) {
        if (c < options_.first_channel || c >= options_.first_channel + op.n_channels) continue;
        opened += kMay ? 1 : 0;
        by_lines |= !kMay || op.closed_rank >= 0;
      }
      for (int r = 0; r < n_; ++r) {
        const proto::ChannelComm& comm = world_.comm(r).channel[c];
        EXPECT_EQ(comm.openings, opened);
        if (!by_lines) {
          EXPECT_EQ(comm.line_mesh->step, options_.first_step);
        }
      }
    }
  }

  int n_, threads_;
  std::vector<Launch> launches_;
  const Options options_;
  World world_;
  std::vector<Op> ops_;
  std::vector<std::vector<Buffer>> in_, out_;  // [operation][rank]; no out_ where in place
  std::vector<std::vector<std::vector<uint8_t>>> want_;
  std::vector<int> blocks_;
  std::vector<uint64_t> done_;      // of each rank
  std::deque<PlanMaker> makers_;    // which hold the items of plans
  std::vector<proto::Plan> plans_;  // [launch][rank]
  int most_blocks_ = 1;
};

template <class Way, class Red>
void run_operations(int n_ranks, int threads, std::vector<Launch> launches, const Options& options = {}) {
  SCOPED_TRACE(testing::Message() << n_ranks << " ranks, " << threads << " threads");
  Program<Red, Way>(n_ranks, threads, std::move(launches), options).run();
}

// Elements of every size, and such as have gaps.
template <class Way>
void run_every_element(int n_ranks, int threads, const Launch& launch) {
  run_operations<Way, proto::Sum<uint8_t>>(n_ranks, threads, {launch});
  run_operations<Way, proto::Max<int16_t>>(n_ranks, threads, {launch});
  run_operations<Way, proto::Sum<double>>(n_ranks, threads, {launch});
  run_operations<Way, proto::Sum<proto::Complex<double>>>(n_ranks, threads, {launch});
  run_operations<Way, proto::Maxloc<proto::ShortInt>>(n_ranks, threads, {launch});
  run_operations<Way, proto::Minloc<proto::DoubleInt>>(n_ranks, threads, {launch});
}

// One rank of two runs.
template <class Way>
void expect_latch_ends_operations() {
  World world(2, 1, 128);
  world.add_mesh();
  world.add_line_mesh();
  std::vector<float> data(3000, 1.0f);
  proto::WorkItem item{};
  item.collective.send = item.collective.recv = data.data();
  item.collective.count = data.size();
  item.collective.n_channels = 2;
  item.collective.threads = 3;
  const Launch launch = {{data.size(), 2}, {data.size(), 2}};
  PlanMaker maker(3);
  Way::add(maker, launch, {item, item});
  expect_latch_ends(world, maker.make(false), 3, [](const gpu::EmuBlock& block, const proto::Plan& plan) {
    Way::template run<proto::Sum<float>>(block, plan, {{1}});
  });
}

}  // namespace gpucoll::test
