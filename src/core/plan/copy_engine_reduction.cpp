#include "core/plan/copy_engine_reduction.h"

#include <algorithm>

#include "base/integers.h"
#include "base/params.h"
#include "proto/format/local_reduction.h"

namespace gpucoll::core {
namespace {

// A share is cut into at least so many pieces, a large one into one more: neither the first one's way nor the last
// one's reduction is hidden. More cost some microseconds each, of the host as well.
constexpr uint64_t kPieces = 2, kLargeShare = uint64_t{64} << 20, kLeastPiece = uint64_t{1} << 20;
// A reduce or reduce_scatter has so many times the bytes of an allreduce when copy engines are faster: half as much is
// on the links, and kernels move it without an end of its own for results.
constexpr uint64_t kWithoutResults = 4;
// Shares and pieces begin at multiples of this.
constexpr uint64_t kAlignment = 128;
// Pieces whose operands are under way, have come or are being reduced.
constexpr uint32_t kAhead = 3;
// There is landing memory for so many of the largest pieces from each rank: a stream that waits for room before a copy
// loses some microseconds, and three pieces and their results do not.
constexpr uint64_t kLargestPlaces = 6;
// Places of one round. Of a reduce, the results of ranks that do not keep them lie behind what lands.
uint64_t places_of_round(int n_ranks) { return static_cast<uint64_t>(n_ranks > 2 ? n_ranks : 1); }

uint64_t round_up(uint64_t value, uint64_t unit) { return ceil_div(value, unit) * unit; }

// All but the last one of a share, which has two thirds of that: what comes last is hidden the least.
uint64_t piece_bytes(uint64_t share, uint64_t most) {
  const uint64_t least = share > kLargeShare ? kPieces + 1 : kPieces;
  const uint64_t n = std::max(least, ceil_div(3 * share + most, 3 * most));
  return std::min(most, std::max(kLeastPiece, round_up(ceil_div(3 * share, 3 * n - 1), kAlignment)));
}

// Bytes of the data, from their beginning.
struct Range {
  uint64_t first = 0, bytes = 0;
};

// Says which rank reduces which part of a task's data. The root of a reduce gets either the operands, where only one
// other rank has any, or results alone: either way no more than its size.
class Shares {
 public:
  Shares(const CollectiveTask& task, int n_ranks) : n_(n_ranks) {
    const bool reduce = task.function == Function::reduce;
    root_ = reduce ? static_cast<int>(task.root) : -1;
    bytes_ = share_ = task.count * task.element_bytes;
    if (task.function == Function::reduce_scatter) {
      bytes_ *= static_cast<uint64_t>(n_);
    } else {
      const int owners = !reduce ? n_ : n_ == 2 ? 1 : n_ - 1;
      share_ = round_up(ceil_div(bytes_, static_cast<uint64_t>(owners)), kAlignment);
    }
  }
  uint64_t largest() const { return share_; }
  bool all_are_the_roots() const { return root_ >= 0 && n_ == 2; }
  Range of(int rank) const {
    if (root_ >= 0 && (n_ == 2) != (rank == root_)) return {};
    const int place = root_ < 0 ? rank : n_ == 2 ? 0 : rank - (rank > root_);
    const uint64_t first = std::min(static_cast<uint64_t>(place) * share_, bytes_);
    return {first, std::min(share_, bytes_ - first)};
  }

 private:
  int n_, root_;
  uint64_t bytes_, share_;
};

// Piece `index` of every share of a task.
struct Piece {
  const CollectiveTask* task;
  Shares shares;
  uint64_t bytes, index;

  Range of(int rank) const {
    Range range = shares.of(rank);
    const uint64_t skipped = std::min(index * bytes, range.bytes);
    return {range.first + skipped, std::min(bytes, range.bytes - skipped)};
  }
  // Returns whether results go to other ranks.
  bool is_given() const {
    return task->function == Function::all_reduce ||
           (task->function == Function::reduce && !shares.all_are_the_roots());
  }
  bool gives_to(int rank) const {
    return task->function == Function::all_reduce ||
           (task->function == Function::reduce && task->root == static_cast<uint32_t>(rank));
  }
  uint8_t* operand(const Range& range) const {
    return static_cast<uint8_t*>(const_cast<void*>(task->send)) + range.first;
  }
  // REQUIRES: the rank has a result.
  uint8_t* result(const Range& range, int rank) const {
    const uint64_t before = task->function == Function::reduce_scatter ? shares.of(rank).first : 0;
    return static_cast<uint8_t*>(task->recv) + (range.first - before);
  }
};

class Schedule {
 public:
  Schedule(int rank, const CommProperties& shape, uint8_t* landing, uint64_t first_round)
      : rank_(rank), shape_(shape), landing_(landing) {
    made_.n_ranks = shape.n_ranks;
    made_.first_round = first_round;
  }

  void add(const CollectiveTask& task) {
    const Shares shares(task, shape_.n_ranks);
    const uint64_t bytes = piece_bytes(shares.largest(), shape_.copy_piece_bytes);
    for (uint64_t i = 0; i * bytes < shares.largest(); ++i) pieces_.push_back({&task, shares, bytes, i});
    made_.place_bytes = std::max(made_.place_bytes, bytes);
  }

  CopyReductionPlan make() {
    const size_t n = pieces_.size();
    if (n == 0) return std::move(made_);
    made_.steps.reserve(n * static_cast<size_t>(shape_.n_ranks));
    made_.places = landing_bytes(shape_) / (places_of_round(shape_.n_ranks) * made_.place_bytes);
    for (size_t k = 0; k < std::min<size_t>(n, kAhead); ++k) reduce(k);
    for (size_t k = 0; k < n; ++k) {
      if (pieces_[k].is_given()) give(k);
      if (k + kAhead < n) reduce(k + kAhead);
    }
    return std::move(made_);
  }

 private:
  int next(int distance) const { return (rank_ + distance) % shape_.n_ranks; }

  // A round of operands: every rank's of every other one's share.
  void reduce(size_t k) {
    const Piece& piece = pieces_[k];
    const uint64_t round = made_.first_round + made_.rounds++;
    const Range mine = piece.of(rank_);
    CopyReductionPlan::Step& step = made_.steps.emplace_back();
    step.round = round;
    for (int distance = 1; distance < shape_.n_ranks; ++distance) {
      const Range theirs = piece.of(next(distance));
      send(round, next(distance), piece.operand(theirs), theirs.bytes, 0);
      if (mine.bytes) step.sources.push_back(next(distance));
    }
    if (mine.bytes) plan_reduction(step, piece, mine, round);
    step.waits_for_sends = mine.bytes && !keeps_result(piece);
    results_.push_back({round, made_.steps.size()});
  }

  // A round of results.
  void give(size_t k) {
    const Piece& piece = pieces_[k];
    const uint64_t round = made_.first_round + made_.rounds++;
    const size_t before = made_.steps.size();
    const Range mine = piece.of(rank_);
    for (int distance = 1; distance < shape_.n_ranks; ++distance) {
      const int to = next(distance), from = next(shape_.n_ranks - distance);
      if (piece.gives_to(to))
        send(round, to, result_of(piece, mine, results_[k].round), mine.bytes,
             static_cast<uint32_t>(results_[k].steps));
      const Range theirs = piece.of(from);
      if (!piece.gives_to(rank_) || !theirs.bytes) continue;
      CopyReductionPlan::Step& step = made_.steps.emplace_back();
      step.round = round;
      step.sources.push_back(from);
      step.last = false;
      plan_delivery(step, piece, theirs, round, from);
    }
    if (made_.steps.size() == before) made_.steps.emplace_back().round = round;
    made_.steps.back().last = true;
  }

  void send(uint64_t round, int peer, const uint8_t* from, uint64_t bytes, uint32_t after) {
    if (bytes) made_.sends.push_back({round, peer, from, bytes, after});
  }

  uint8_t* landed(uint64_t round, int from) const { return landing_ + made_.landing_offset(round, rank_, from); }
  bool keeps_result(const Piece& piece) const {
    return piece.task->function == Function::reduce_scatter || piece.gives_to(rank_);
  }
  uint8_t* result_of(const Piece& piece, const Range& mine, uint64_t round) const {
    if (keeps_result(piece)) return piece.result(mine, rank_);
    return landing_ + made_.result_offset(round);
  }

  uint64_t elements_of(const Piece& piece, const Range& range) const { return range.bytes / piece.task->element_bytes; }
  void plan_local(CopyReductionPlan::Step& step, const Piece& piece, const LocalOperands& of) const {
    const LocalTask local = local_task(*piece.task, of);
    step.kernel = local.kernel;
    step.blocks = local_blocks(of.count * local.element_bytes, most_local_blocks(shape_));
    step.reduction = local.reduction;
    step.reduction.waited = 1;
  }
  void plan_reduction(CopyReductionPlan::Step& step, const Piece& piece, const Range& mine, uint64_t round) const {
    const int lowest = rank_ == 0 ? 1 : 0;
    plan_local(step, piece,
               {piece.operand(mine), landed(round, lowest), result_of(piece, mine, round), elements_of(piece, mine),
                made_.place_bytes, static_cast<uint32_t>(rank_), static_cast<uint32_t>(shape_.n_ranks)});
  }
  void plan_delivery(CopyReductionPlan::Step& step, const Piece& piece, const Range& theirs, uint64_t round,
                     int from) const {
    plan_local(step, piece,
               {landed(round, from), nullptr, piece.result(theirs, rank_), elements_of(piece, theirs), 0, 0, 1});
  }

  // For each piece: the round of its operands, and how many steps have been launched when it is reduced.
  struct Result {
    uint64_t round;
    size_t steps;
  };
  const int rank_;
  const CommProperties& shape_;
  uint8_t* const landing_;
  std::vector<Piece> pieces_;
  std::vector<Result> results_;
  CopyReductionPlan made_;
};

}  // namespace

uint64_t least_copy_reduction(Function function, const CommProperties& shape) {
  if (shape.n_ranks < 2) return 0;
  switch (function) {
    case Function::all_reduce: return shape.copy_reduction_bytes;
    case Function::reduce: return kWithoutResults * shape.copy_reduction_bytes;
    case Function::reduce_scatter:
      return ceil_div(kWithoutResults * shape.copy_reduction_bytes, static_cast<uint64_t>(shape.n_ranks));
    default: return 0;
  }
}

bool reduces_by_copies(Function function, uint64_t bytes, const CommProperties& shape) {
  if (!shape.copy_reduction_bytes) return false;
  if (params().algorithm != kAlgorithmAuto || params().protocol != kProtocolAuto) return false;  // kernels are wanted
  const uint64_t least = least_copy_reduction(function, shape);
  return least != 0 && bytes >= least;
}

uint64_t copy_piece_bytes(int n_ranks, uint64_t wanted) {
  constexpr uint64_t kMostLanding = uint64_t{512} << 20;
  const uint64_t most = kMostLanding / (kLargestPlaces * places_of_round(n_ranks));
  return std::max(std::min(wanted, most) / kAlignment, uint64_t{1}) * kAlignment;
}

uint64_t landing_bytes(const CommProperties& shape) {
  return kLargestPlaces * places_of_round(shape.n_ranks) * shape.copy_piece_bytes;
}

int local_blocks(uint64_t bytes, int most) noexcept {
  return static_cast<int>(std::min(ceil_div(bytes, proto::kLocalTile), static_cast<uint64_t>(most)));
}

int most_local_blocks(const CommProperties& shape) noexcept {
  constexpr int kMostBlocks = 128, kMostEmulated = 2;
  return shape.emulated ? kMostEmulated : kMostBlocks;
}

size_t CopyReductionPlan::sends_before(uint32_t step) const {
  const auto may_go = [&](const Send& send) {
    return send.after <= step && (step == steps.size() || used_before(send.round) <= steps[step].round);
  };
  return static_cast<size_t>(std::find_if_not(sends.begin(), sends.end(), may_go) - sends.begin());
}

uint64_t CopyReductionPlan::offset(uint64_t round, int index) const {
  return ((round - first_round) % places * places_of_round(n_ranks) + static_cast<uint64_t>(index)) * place_bytes;
}

CopyReductionPlan plan_copy_reduction(const TaskQueue& queue, int rank, const CommProperties& shape, uint8_t* landing,
                                      uint64_t first_round) {
  Schedule schedule(rank, shape, landing, first_round);
  for (const CollectiveTask& task : queue.collectives)
    if (reduces_by_copies(task, shape)) schedule.add(task);
  return schedule.make();
}

bool any_copy_reduction(const TaskQueue& queue, const CommProperties& shape) {
  return std::any_of(queue.collectives.begin(), queue.collectives.end(),
                     [&](const CollectiveTask& task) { return reduces_by_copies(task, shape); });
}

void plan_launch(const CopyReductionPlan::Step& step, const CommProperties& shape, bool results_on_host,
                 PlannedLaunch* launch) {
  launch->stage = Stage::step;
  launch->plan.results_on_host = results_on_host;
  if (!step.kernel) return;
  launch->kernel = step.kernel;
  launch->threads = shape.threads;
  launch->plain_blocks = step.blocks;
  launch->plan.n_items = proto::kItemsOfLocalReduction;
  proto::local_reduction(launch->plan) = step.reduction;
}

}  // namespace gpucoll::core
