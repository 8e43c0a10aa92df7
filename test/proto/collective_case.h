// One collective on every rank, run and compared bit for bit with the order of reduction that its algorithm promises.
#pragma once
#include <memory>

#include "plan_runner.h"

namespace gpucoll::test {

struct Case {
  proto::Function function;
  proto::Algorithm algorithm;
  proto::Protocol protocol;
  int n_ranks, n_channels, threads;
  uint64_t count;  // elements, as in the C API
  uint32_t slot_bytes = 128;
  bool in_place = false;
  uint64_t first_step = 0;
  int first_channel = 0;
  int root = 0;
  uint32_t chunk_bytes = 0;
  int items = 1;
  bool in_fifo = false;
  size_t send_offset = 0, recv_offset = 0;  // bytes from a multiple of 16
  proto::Reduction reduction = {};
  bool scalar_in_memory = false;
  uint32_t looks = 0, grants = 0;  // bit r: rank r looks for grants, grants its output
  bool zero_copy = false;          // on all ranks' buffers
  int closed_rank = -1;            // whose nobody knows then: so as the algorithm says
};

inline bool is_scan(proto::Function function) {
  return function == proto::Function::scan || function == proto::Function::exscan;
}
inline bool reduces(proto::Function function) {
  using proto::Function;
  return function == Function::all_reduce || function == Function::reduce || function == Function::reduce_scatter ||
         is_scan(function);
}
// Whether that rank gets a result.
inline bool has_result(proto::Function function, int root, size_t rank) {
  using proto::Function;
  return function == Function::reduce ? static_cast<int>(rank) == root : function == Function::exscan ? rank > 0 : true;
}
inline bool has_root(proto::Function function) {
  return function == proto::Function::reduce || function == proto::Function::broadcast;
}

// Then ranks are reduced in their order.
inline bool is_through_mesh(proto::Algorithm algorithm) {
  return algorithm == proto::Algorithm::one_shot || algorithm == proto::Algorithm::all_pairs;
}

inline int place_of(int rank, int channel, int n) {
  for (int p = 0; p < n; ++p) {
    if (rank_at(channel, p, n) == rank) return p;
  }
  return -1;
}

// The values of one item on all ranks, and what comes of them, as bytes: all that must be compiled for each reduction.
class Values {
 public:
  virtual ~Values() = default;
  virtual size_t element_bytes() const = 0;
  // In elements.
  virtual uint64_t sent() const = 0;
  virtual uint64_t received() const = 0;
  // What `rank` brings, and what it has in its result.
  virtual void write_in(size_t rank, uint8_t* at) const = 0;
  virtual void write_out(size_t rank, uint8_t* at) const = 0;
};

template <class Red>
class ValuesOf : public Values {
 public:
  using T = typename Red::Element;

  ValuesOf(const Case& c, uint64_t seed) : case_(c), n_(static_cast<size_t>(c.n_ranks)), in_(n_) {
    std::mt19937_64 random(seed + c.count * 7 + n_);
    for (auto& of_rank : in_) {
      of_rank.resize(sent());
      for (T& value : of_rank) draw(value, random);
    }
  }
  size_t element_bytes() const override { return sizeof(T); }
  uint64_t sent() const override { return case_.count * (case_.function == proto::Function::reduce_scatter ? n_ : 1); }
  uint64_t received() const override { return case_.count * (case_.function == proto::Function::all_gather ? n_ : 1); }
  void write_in(size_t rank, uint8_t* at) const override { fill(at, in_[rank]); }
  void write_out(size_t rank, uint8_t* at) const override { fill(at, out(rank)); }

 private:
  using Range = coll::device::Range;

  std::vector<T> out(size_t rank) const {
    using proto::Function;
    std::vector<T> result;
    switch (case_.function) {
      case Function::broadcast: return in_[static_cast<size_t>(case_.root)];
      case Function::all_gather:
        for (const auto& of_rank : in_) result.insert(result.end(), of_rank.begin(), of_rank.end());
        return result;
      default: break;
    }
    result.resize(case_.count);
    for (int c = 0; c < case_.n_channels; ++c) reduce_channel(c, rank, result);
    return result;
  }
  void reduce_channel(int index, size_t rank, std::vector<T>& result) const {
    const auto n_channels = static_cast<uint32_t>(case_.n_channels);
    const Range share = coll::device::channel_range(case_.count, sizeof(T), n_channels, static_cast<uint32_t>(index));
    const int channel = case_.first_channel + index;
    const bool scatters = case_.function == proto::Function::reduce_scatter;
    const uint64_t from = scatters ? rank * case_.count : 0;
    if (is_scan(case_.function)) {
      const size_t ranks = rank + (case_.function == proto::Function::scan ? 1 : 0);
      for (uint64_t i = share.first; ranks > 0 && i < share.first + share.count; ++i) result[i] = by_rank(i, ranks);
    } else if (is_through_mesh(case_.algorithm)) {
      for (uint64_t i = share.first; i < share.first + share.count; ++i) result[i] = complete(by_rank(from + i, n_));
    } else if (case_.algorithm == proto::Algorithm::tree) {
      for (uint64_t i = share.first; i < share.first + share.count; ++i) result[i] = complete(in_tree(channel, 0, i));
    } else if (case_.function == proto::Function::all_reduce) {
      reduce_rounds(channel, share, result);
    } else {
      const int owner = scatters ? static_cast<int>(rank) : case_.root;
      for (uint64_t i = share.first; i < share.first + share.count; ++i)
        result[i] = complete(in_ring(channel, place_of(owner, channel, case_.n_ranks), from + i));
    }
  }
  // Each round has a chunk for each place.
  void reduce_rounds(int channel, Range share, std::vector<T>& result) const {
    for (uint64_t done = 0; done < share.count;) {
      const uint64_t left = share.count - done;
      const uint64_t chunk = coll::device::round_chunk(left, sizeof(T), static_cast<uint32_t>(n_), most());
      for (uint64_t i = 0; i < std::min(left, chunk * n_); ++i) {
        const uint64_t at = share.first + done + i;
        result[at] = complete(in_ring(channel, static_cast<int>(i / chunk), at));
      }
      done += chunk * n_;
    }
  }
  template <class Protocol>
  uint64_t chunk_bytes() const {
    using Prims = proto::Primitives<proto::Family<Red>, gpu::emu::ThreadBlockPart, Protocol>;
    return Prims::chunk_elements(shape_of(case_.slot_bytes)) * sizeof(T);
  }
  uint64_t most() const {
    uint64_t bytes = case_.protocol == proto::Protocol::simple ? chunk_bytes<proto::Simple<>>()
                     : case_.protocol == proto::Protocol::ll   ? chunk_bytes<proto::Ll>()
                                                               : chunk_bytes<proto::Ll128>();
    if (case_.chunk_bytes >= 128) bytes = std::min(bytes, uint64_t{case_.chunk_bytes});
    return (bytes >= 128 ? bytes / 128 * 128 : bytes / 16 * 16) / sizeof(T);
  }

  T own(int rank, uint64_t i) const {
    const T x = in_[static_cast<size_t>(rank)][i];
    if constexpr (proto::kHasPre<Red>) return Red::pre(x, case_.reduction);
    return x;
  }
  T complete(T x) const {
    if constexpr (proto::kHasPost<Red>) return Red::post(x, case_.reduction);
    return x;
  }
  // Of the first ranks.
  T by_rank(uint64_t i, size_t ranks) const {
    T value = own(0, i);
    for (size_t r = 1; r < ranks; ++r) value = Red::apply(value, own(static_cast<int>(r), i));
    return value;
  }
  // From the rank after the place round to the place.
  T in_ring(int channel, int place, uint64_t i) const {
    T value = own(rank_at(channel, place + 1, case_.n_ranks), i);
    for (int p = place + 2; p <= place + case_.n_ranks; ++p)
      value = Red::apply(value, own(rank_at(channel, p, case_.n_ranks), i));
    return value;
  }
  // What place p of the tree sends upwards: see World.
  T in_tree(int channel, int p, uint64_t i) const {
    const T mine = own(rank_at(channel, p, case_.n_ranks), i);
    if (2 * p + 1 >= case_.n_ranks) return mine;
    T value = in_tree(channel, 2 * p + 1, i);
    if (2 * p + 2 < case_.n_ranks) value = Red::apply(value, in_tree(channel, 2 * p + 2, i));
    return Red::apply(value, mine);
  }

  Case case_;
  size_t n_;
  std::vector<std::vector<T>> in_;
};

// The memory of one item on one rank.
class CaseMemory {
 public:
  CaseMemory(const Case& c, const Values& values, size_t rank) : case_(c), values_(values), rank_(rank) {
    const bool gathers = c.function == proto::Function::all_gather;
    send_ = Buffer((gathers && c.in_place ? values.received() : values.sent()) * values.element_bytes(), c.send_offset);
    recv_ = Buffer(values.received() * values.element_bytes(), c.recv_offset);
    values.write_in(rank, send());
  }
  size_t element_bytes() const { return values_.element_bytes(); }
  uint8_t* send() {
    const bool inside = case_.in_place && case_.function == proto::Function::all_gather;
    return send_.data() + (inside ? own_block() : 0);
  }
  uint8_t* recv() {
    if (!case_.in_place) return recv_.data();
    return send_.data() + (case_.function == proto::Function::reduce_scatter ? own_block() : 0);
  }
  void check() {
    if (has_result(case_.function, case_.root, rank_)) {
      Buffer want(values_.received() * element_bytes());
      values_.write_out(rank_, want.data());
      expect_same(recv(), want, "the result differs");
    } else if (!case_.in_place) {
      expect_same(recv_.data(), Buffer(recv_.bytes()), "wrote a result where there is none");
    }
    if (!case_.in_place || (!has_result(case_.function, case_.root, rank_) && is_scan(case_.function))) {
      Buffer want(values_.sent() * element_bytes());
      values_.write_in(rank_, want.data());
      expect_same(send_.data(), want, "wrote into the input");
    }
    EXPECT_TRUE(send_.same_around() && recv_.same_around()) << "wrote outside of the buffers, rank " << rank_;
  }

 private:
  size_t own_block() const { return rank_ * case_.count * element_bytes(); }
  void expect_same(const uint8_t* is, Buffer want, const char* what) const {
    ASSERT_TRUE(want.bytes() == 0 || std::memcmp(is, want.data(), want.bytes()) == 0) << what << ", rank " << rank_;
  }

  const Case& case_;
  const Values& values_;
  size_t rank_;
  Buffer send_, recv_;
};

inline proto::WorkItem item_of(const Case& c, CaseMemory& memory, size_t rank) {
  proto::WorkItem work{};
  proto::CollectiveItem& item = work.collective;
  const bool is_root = static_cast<int>(rank) == c.root;
  item.send = c.function == proto::Function::broadcast && !is_root && !c.in_place ? nullptr : memory.send();
  item.recv = memory.recv();
  item.count = c.count * (reduces(c.function) ? 1 : memory.element_bytes());
  item.argument = c.reduction.argument;
  item.argument_high = c.reduction.argument_high;
  if (c.scalar_in_memory) {
    item.argument = reinterpret_cast<uint64_t>(&c.reduction.argument);
    item.scalar_in_memory = 1;
  }
  item.root = static_cast<uint32_t>(c.root);
  item.chunk_bytes = c.chunk_bytes;
  item.function = c.function;
  item.next_rank = static_cast<uint8_t>((static_cast<int>(rank) + 1) % c.n_ranks);
  item.first_channel = static_cast<uint16_t>(c.first_channel);
  item.n_channels = static_cast<uint16_t>(c.n_channels);
  item.threads = static_cast<uint16_t>(c.threads);
  if ((c.looks >> rank & 1) != 0) item.direct |= proto::kLooksForGrants;
  if ((c.grants >> rank & 1) != 0) {
    item.direct |= proto::kGrants;
    item.granted = memory.recv();
  }
  return work;
}

// values: those of each item.
inline void run_case(EmuKernel kernel, const Case& c, const std::vector<std::unique_ptr<Values>>& values) {
  SCOPED_TRACE(testing::Message() << "function " << static_cast<int>(c.function) << ", algorithm "
                                  << static_cast<int>(c.algorithm) << ", protocol " << static_cast<int>(c.protocol)
                                  << ", " << c.n_ranks << " ranks, " << c.n_channels << " channels, " << c.threads
                                  << " threads, " << c.count << " elements, in place " << c.in_place << ", root "
                                  << c.root << ", looking " << c.looks << ", granting " << c.grants << ", zero-copy "
                                  << c.zero_copy << ", closed " << c.closed_rank);
  const auto n = static_cast<size_t>(c.n_ranks);
  World world(c.n_ranks, c.first_channel + c.n_channels, c.slot_bytes, c.first_step);
  if (c.algorithm == proto::Algorithm::one_shot || c.zero_copy) world.add_mesh();
  if (c.algorithm == proto::Algorithm::all_pairs) world.add_line_mesh(c.first_step);
  std::vector<std::vector<CaseMemory>> memory(values.size());
  const uint64_t mask = ((uint64_t{1} << c.n_channels) - 1) << c.first_channel;
  std::vector<PlanMaker> plans(n, PlanMaker(mask));
  for (size_t r = 0; r < n; ++r) {
    std::vector<proto::WorkItem> items;
    for (size_t i = 0; i < memory.size(); ++i) {
      memory[i].reserve(n);
      items.push_back(item_of(c, memory[i].emplace_back(c, *values[i], r), r));
    }
    const proto::Batch kind{0, c.function, c.algorithm, c.protocol, c.reduction.op, 0, 0};
    if (!c.zero_copy) {
      plans[r].add(kind, items);
      continue;
    }
    for (proto::WorkItem& item : items) {
      item.collective.open = static_cast<int>(r) != c.closed_rank;
      plans[r].add(kind, item, mask, addresses_of(item.collective));
    }
  }
  run_plans(kernel, world, plans, c.threads, c.in_fifo);
  // Each item has been tried on all buffers, also where it then went the other way.
  for (int r = 0; c.zero_copy && r < c.n_ranks; ++r)
    EXPECT_EQ(world.comm(r).channel[c.first_channel].openings, static_cast<uint32_t>(c.items));
  for (auto& of_item : memory) {
    for (auto& of_rank : of_item) of_rank.check();
  }
}

// kernel: of a family in which Red has the place c.reduction.op.
template <class Red>
void run_case(EmuKernel kernel, const Case& c) {
  std::vector<std::unique_ptr<Values>> values;
  for (int i = 0; i < c.items; ++i) values.push_back(std::make_unique<ValuesOf<Red>>(c, static_cast<uint64_t>(i)));
  run_case(kernel, c, values);
}

}  // namespace gpucoll::test
