#include "core/copy_reductions.h"

#include <algorithm>

#include "base/params.h"
#include "proto/format/local_reduction.h"

namespace gpucoll::core {
namespace {

// A share is cut into about so many pieces: the last one's reduction may not be hidden, and each costs some time.
constexpr uint64_t kPieces = 4, kLeastPiece = uint64_t{1} << 20;
// Shares and pieces begin at multiples of this, and operands land as the own one lies: whole packs line up.
constexpr uint64_t kAlignment = 128;

// Pieces whose operands arrive, have arrived or are being reduced. One from each of several ranks takes long enough for
// the reduction of the one before it.
uint32_t pieces_ahead(int n_ranks) { return n_ranks > 2 ? 2 : 3; }

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
uint64_t round_up(uint64_t value, uint64_t unit) { return ceil_div(value, unit) * unit; }

uint64_t slot_bytes(const CommShape& shape) { return shape.copy_piece_bytes + kAlignment; }

// Bytes of the data, from their beginning.
struct Range {
  uint64_t first = 0, bytes = 0;
};

// Who reduces which part of a task's data. To the root of a reduce come either the operands, where only one other rank
// has any, or results alone: either way no more than its size.
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

// In every step of it each rank has something for another one: for each piece first for the next rank, then for the one
// behind it, and so on. Where the root of a reduce has no operand to get, it gets a result.
class Schedule {
 public:
  Schedule(int rank, const CommShape& shape, uint8_t* landing)
      : rank_(rank), shape_(shape), ahead_(pieces_ahead(shape.n_ranks)), landing_(landing) {}

  void add(const CollectiveTask& task) {
    const Shares shares(task, shape_.n_ranks);
    const uint64_t wanted = std::max(kLeastPiece, round_up(ceil_div(shares.largest(), kPieces), kAlignment));
    const uint64_t bytes = std::min(shape_.copy_piece_bytes, wanted);
    for (uint64_t i = 0; i * bytes < shares.largest(); ++i) pieces_.push_back({&task, shares, bytes, i});
  }

  CopyReductions make() {
    const auto n = static_cast<uint32_t>(pieces_.size());
    for (uint32_t k = 0; k < std::min(n, ahead_); ++k)
      for (int distance = 1; distance < shape_.n_ranks; ++distance) bring_operand(k, distance, 0);
    for (uint32_t k = 0; k < n; ++k) {
      made_.steps.push_back(launch(k));
      for (int distance = 1; distance < shape_.n_ranks; ++distance) {
        give_result(k, distance);
        if (k + ahead_ < n) bring_operand(k + ahead_, distance, k + 1);
      }
    }
    return std::move(made_);
  }

 private:
  int next(int i) const { return (rank_ + i) % shape_.n_ranks; }
  int previous(int i) const { return (rank_ + shape_.n_ranks - i) % shape_.n_ranks; }

  uint8_t* slot(uint32_t k, int place, const uint8_t* like) const {
    const auto n = static_cast<uint64_t>(shape_.n_ranks);
    const uint64_t index = k % ahead_ * n + static_cast<uint64_t>(place);
    return landing_ + index * slot_bytes(shape_) + reinterpret_cast<uintptr_t>(like) % kAlignment;
  }
  uint8_t* landing_of(uint32_t k, int from, const uint8_t* like) const {
    return slot(k, from < rank_ ? from : from - 1, like);
  }
  bool keeps_result(const Piece& piece) const {
    return piece.task->function == Function::reduce_scatter || piece.gives_to(rank_);
  }
  uint8_t* result_of(uint32_t k, const Range& range) const {
    const Piece& piece = pieces_[k];
    return keeps_result(piece) ? piece.result(range, rank_) : slot(k, shape_.n_ranks - 1, piece.operand(range));
  }

  // From this rank to the one at a distance, and to this one from the other at the same distance.
  void bring_operand(uint32_t k, int distance, uint32_t ready) {
    const Piece& piece = pieces_[k];
    const Range mine = piece.of(rank_), theirs = piece.of(next(distance));
    if (theirs.bytes)
      made_.messages.sends.push_back({next(distance), piece.operand(theirs), theirs.bytes, ready, kAtEnd});
    uint8_t* const to = landing_of(k, previous(distance), piece.operand(mine));
    if (mine.bytes) made_.messages.recvs.push_back({previous(distance), to, mine.bytes, ready, k});
  }

  // A result that lies in landing memory must have left before the next one takes its place.
  void give_result(uint32_t k, int distance) {
    const Piece& piece = pieces_[k];
    const Range mine = piece.of(rank_), theirs = piece.of(previous(distance));
    const uint32_t needed = keeps_result(piece) || k + ahead_ >= pieces_.size() ? kAtEnd : k + ahead_;
    if (mine.bytes && piece.gives_to(next(distance)))
      made_.messages.sends.push_back({next(distance), result_of(k, mine), mine.bytes, k + 1, needed});
    if (theirs.bytes && piece.gives_to(rank_))
      made_.messages.recvs.push_back({previous(distance), piece.result(theirs, rank_), theirs.bytes, k + 1, kAtEnd});
  }

  PlannedLaunch launch(uint32_t k) const {
    PlannedLaunch launch;
    launch.stage = Stage::step;
    const Piece& piece = pieces_[k];
    const Range mine = piece.of(rank_);
    if (!mine.bytes) return launch;
    launch.kernel = piece.task->local;
    launch.threads = shape_.threads;
    launch.plain_blocks = local_blocks(mine.bytes, most_local_blocks(shape_));
    launch.plan.n_items = 1;
    const uint8_t* const own = piece.operand(mine);
    proto::local_reduction(launch.plan) = {own,
                                           slot(k, 0, own),
                                           result_of(k, mine),
                                           slot_bytes(shape_),
                                           mine.bytes / piece.task->element_bytes,
                                           piece.task->argument,
                                           static_cast<uint32_t>(rank_),
                                           static_cast<uint32_t>(shape_.n_ranks),
                                           piece.task->op,
                                           {}};
    return launch;
  }

  const int rank_;
  const CommShape& shape_;
  const uint32_t ahead_;
  uint8_t* const landing_;
  std::vector<Piece> pieces_;
  CopyReductions made_;
};

}  // namespace

bool reduces_by_copies(Function function, uint64_t bytes, const CommShape& shape) {
  if (!shape.copy_reduction_bytes || shape.n_ranks < 2) return false;
  if (params().algorithm != kAlgorithmAuto || params().protocol != kProtocolAuto) return false;  // kernels are wanted
  switch (function) {
    case Function::all_reduce:
    case Function::reduce: return bytes >= shape.copy_reduction_bytes;
    case Function::reduce_scatter: return bytes * static_cast<uint64_t>(shape.n_ranks) >= shape.copy_reduction_bytes;
    default: return false;
  }
}

uint64_t copy_piece_bytes(int n_ranks, uint64_t wanted) {
  constexpr uint64_t kMostLanding = uint64_t{512} << 20;
  const uint64_t most = kMostLanding / (pieces_ahead(n_ranks) * static_cast<uint64_t>(n_ranks));
  return std::max(std::min(wanted, most) / kAlignment, uint64_t{1}) * kAlignment;
}

uint64_t landing_bytes(const CommShape& shape) {
  return pieces_ahead(shape.n_ranks) * static_cast<uint64_t>(shape.n_ranks) * slot_bytes(shape);
}

int local_blocks(uint64_t bytes, int most) noexcept {
  return static_cast<int>(std::min(ceil_div(bytes, proto::kLocalTile), static_cast<uint64_t>(most)));
}

int most_local_blocks(const CommShape& shape) noexcept {
  constexpr int kMostBlocks = 128, kMostEmulated = 2;
  return shape.emulated ? kMostEmulated : kMostBlocks;
}

CopyReductions plan_copy_reductions(const TaskQueue& queue, int rank, const CommShape& shape, uint8_t* landing) {
  Schedule schedule(rank, shape, landing);
  for (const CollectiveTask& task : queue.collectives)
    if (reduces_by_copies(task, shape)) schedule.add(task);
  CopyReductions made = schedule.make();
  for (PlannedLaunch& step : made.steps) step.plan.results_on_host = queue.results_on_host;
  return made;
}

}  // namespace gpucoll::core
