#include "core/plan/copy_engine_reduction.h"

#include <algorithm>

#include "base/integers.h"
#include "base/mutant.h"
#include "base/params.h"
#include "proto/format/local_reduction.h"

// Mutants (base/mutant.h): 170 gives a place back that is still to be sent from.

namespace gpucoll::core {
namespace {

// A reduce_scatter and a reduce go by copies from so many times the bytes of an allreduce on: kernels move them without
// an end of their own for results.
constexpr uint64_t kReduceScatter = 2, kReduce = 2;
// Chunks and pieces begin at multiples of this.
constexpr uint64_t kAlignment = 128;
// There is landing memory for so many of the largest pieces, and for more of smaller ones.
constexpr uint64_t kLargestPlaces = 4;
// So many pieces of a chunk follow each other in a step of a ring: one is reduced while the other one is copied. Each
// copy costs its link 4 us beyond its bytes (docs/measurements), so there are no more.
constexpr uint64_t kPiecesOfStep = 2;
// The last piece of all comes in so many parts: nothing else hides its way into the output.
constexpr uint64_t kLastParts = 3;
// A piece is held in its place until it is sent on, in the next step at the latest.
constexpr uint64_t kHeld = kPiecesOfStep + kLastParts - 1;
// Pieces have at least this part of the largest one's bytes: to put a copy on its stream and tell of it takes the host
// as long as a copy of some MiB takes.
constexpr uint64_t kLeastPart = 16;

uint64_t round_up(uint64_t value, uint64_t unit) { return ceil_div(value, unit) * unit; }

// A part of the data.
struct Range {
  uint64_t first = 0, bytes = 0;
  Range piece(uint64_t index, uint64_t of_bytes) const {
    const uint64_t skipped = std::min(index * of_bytes, bytes);
    return {first + skipped, std::min(of_bytes, bytes - skipped)};
  }
};

class Schedule {
 public:
  Schedule(const TaskQueue& queue, int rank, const CommProperties& shape, uint8_t* landing, uint64_t first_round)
      : n_(shape.n_ranks), rank_(rank), shape_(shape), landing_(landing), most_(shape.copies.piece) {
    made_.first_round = first_round;
    for (const CollectiveTask& task : queue.collectives)
      if (reduces_by_copies(task, shape) && holds(task)) made_.held = kHeld;
    if (made_.held > 0) most_ /= 2;  // there must be two places for each that is held: see sends_before
    for (const CollectiveTask& task : queue.collectives)
      if (reduces_by_copies(task, shape)) made_.place_bytes = std::max(made_.place_bytes, piece_of(task));
    if (made_.place_bytes == 0) return;
    made_.places = landing_bytes(shape) / made_.place_bytes;
    for (const CollectiveTask& task : queue.collectives)
      if (reduces_by_copies(task, shape)) add(task);
    if (made_.steps.empty()) made_.steps.emplace_back().round = made_.first_round + made_.rounds - 1;
    plan_consumed();
  }
  CopyReductionPlan take() { return std::move(made_); }

 private:
  // From when on the place of a round is free: so many steps have been launched, so many sends have ended.
  struct Use {
    uint32_t steps = 0;
    size_t sends = 0;
  };
  // Where a piece lies that has been received and worked on, and from when on.
  struct Kept {
    const uint8_t* at = nullptr;
    uint32_t after = 0;
    uint64_t round = 0;
    bool in_landing = false;
  };

  // `before`: the piece that comes is the result of some ranks' operands already. `complete`: with this rank's operand
  // it is the result of all.
  struct Reduced {
    bool before, complete;
  };
  static constexpr Reduced kMoves = {false, true};

  static uint64_t bytes_of(const CollectiveTask& task) { return task.count * task.element_bytes; }
  static uint8_t* operand(const CollectiveTask& task, const Range& range) {
    return static_cast<uint8_t*>(const_cast<void*>(task.send)) + range.first;
  }
  int wrapped(int rank) const { return ((rank % n_) + n_) % n_; }

  uint64_t chunk_bytes(const CollectiveTask& task) const {
    if (task.function == Function::reduce_scatter) return bytes_of(task);
    return round_up(ceil_div(bytes_of(task), static_cast<uint64_t>(n_)), kAlignment);
  }
  // Pieces of a task are equal: as many as follow each other in a step, unless they were too small or too large.
  uint64_t piece_of(const CollectiveTask& task) const {
    const uint64_t all = task.function == Function::reduce ? bytes_of(task) : chunk_bytes(task);
    const uint64_t wanted = std::min(std::max(ceil_div(all, kPiecesOfStep), least()), most_);
    return std::min(round_up(ceil_div(all, ceil_div(all, wanted)), kAlignment), most_);
  }
  uint64_t part_of(uint64_t piece_bytes) const {
    return std::min(piece_bytes, std::max(round_up(ceil_div(piece_bytes, kLastParts), kAlignment), least()));
  }
  uint64_t least() const { return round_up(ceil_div(shape_.copies.piece, kLeastPart), kAlignment); }
  // Returns whether pieces stay in their places until they are sent on, as there is no output for them.
  bool holds(const CollectiveTask& task) const { return task.function == Function::reduce_scatter && n_ > 2; }
  Range chunk(const CollectiveTask& task, int index) const {
    const uint64_t bytes = chunk_bytes(task), first = static_cast<uint64_t>(wrapped(index)) * bytes;
    if (task.function == Function::reduce_scatter) return {first, bytes};
    const uint64_t all = bytes_of(task), begin = std::min(first, all);
    return {begin, std::min(bytes, all - begin)};
  }

  void add(const CollectiveTask& task) {
    if (task.function == Function::reduce) return add_to_root(task);
    const uint64_t bytes = piece_of(task), pieces = ceil_div(chunk_bytes(task), bytes);
    for (uint64_t first = 0; first < pieces; first += kPiecesOfStep)
      add_ring(task, bytes, first, std::min(pieces, first + kPiecesOfStep));
  }

  // Takes pieces [first, last) of all chunks round the ring: in each step a rank sends what it has received in the one
  // before, beginning with a chunk of its own.
  void add_ring(const CollectiveTask& task, uint64_t bytes, uint64_t first, uint64_t last) {
    const bool all = task.function == Function::all_reduce, ends = last * bytes >= chunk_bytes(task);
    const int reducing = n_ - 1, steps = all ? 2 * reducing : reducing;
    std::vector<Kept> kept(last - first);
    for (int step = 0; step < steps; ++step)
      for (uint64_t piece = first; piece < last; ++piece) {
        const int sent = rank_ - step - (all ? 0 : 1);
        const Range out = chunk(task, sent).piece(piece, bytes), in = chunk(task, sent - 1).piece(piece, bytes);
        Kept& moving = kept[piece - first];
        if (step == 0) moving = {operand(task, out)};
        const bool is_last = ends && step == steps - 1 && piece == last - 1;
        const uint64_t part_bytes = is_last ? part_of(bytes) : bytes;
        Kept received;
        for (uint64_t part = 0; part * part_bytes < bytes; ++part) {
          const uint64_t round = next_round();
          send(round, moving, out, out.piece(part, part_bytes));
          received = receive(task, round, step, in.piece(part, part_bytes));
        }
        moving = received;
      }
  }

  // Works on what comes in a step of a ring: the operands of one rank more, or the result.
  Kept receive(const CollectiveTask& task, uint64_t round, int step, const Range& in) {
    const bool all = task.function == Function::all_reduce, complete = step == n_ - 2;
    if (step > n_ - 2) return deliver(task, round, in, result(task, in));
    const Reduced how = {step > 0, complete};
    return all || complete ? reduce(task, round, in, result(task, in), how) : reduce_in_place(task, round, in, how);
  }

  // Reduces between two ranks: one sends all, and the root reduces it.
  void add_to_root(const CollectiveTask& task) {
    const bool is_root = rank_ == static_cast<int>(task.root);
    const Range all = {0, bytes_of(task)};
    const uint64_t bytes = piece_of(task);
    for (uint64_t first = 0; first < all.bytes;) {
      // Smaller ones at the end.
      const uint64_t left = all.bytes - first;
      const Range piece = {first, std::min(left, left > bytes ? bytes : part_of(bytes))};
      const uint64_t round = next_round();
      if (is_root)
        reduce(task, round, piece, result(task, piece), {false, true});
      else
        send(round, {operand(task, all)}, all, piece);
      first += piece.bytes;
    }
  }

  uint64_t next_round() {
    uses_.emplace_back();
    return made_.first_round + made_.rounds++;
  }
  Use& use_of(uint64_t round) { return uses_[round - made_.first_round]; }
  uint32_t launched() const { return static_cast<uint32_t>(made_.steps.size()); }
  uint8_t* landed(uint64_t round) const { return landing_ + made_.landing_offset(round); }
  // REQUIRES: the rank has a result.
  uint8_t* result(const CollectiveTask& task, const Range& range) const {
    const uint64_t before = task.function == Function::reduce_scatter ? chunk(task, rank_).first : 0;
    return static_cast<uint8_t*>(task.recv) + (range.first - before);
  }

  // Sends a part of a piece.
  void send(uint64_t round, const Kept& piece, const Range& range, const Range& part) {
    if (part.bytes == 0) return;
    made_.sends.push_back({round, piece.at + (part.first - range.first), part.bytes, piece.after});
    if (piece.in_landing) use_of(piece.round).sends = made_.sends.size();
  }

  // Add a step, and return where its result lies.
  Kept deliver(const CollectiveTask& task, uint64_t round, const Range& in, uint8_t* to) {
    return add_step(task, round, {landed(round), nullptr, to, elements_of(task, in), 0, 0, 1}, kMoves);
  }
  Kept reduce(const CollectiveTask& task, uint64_t round, const Range& in, uint8_t* to, Reduced how) {
    // The order of operands: what has come, then this rank's own.
    return add_step(task, round, {operand(task, in), landed(round), to, elements_of(task, in), 0, 1, 2}, how);
  }
  Kept reduce_in_place(const CollectiveTask& task, uint64_t round, const Range& in, Reduced how) {
    Kept kept = reduce(task, round, in, landed(round), how);
    kept.in_landing = true;
    return kept;
  }
  Kept add_step(const CollectiveTask& task, uint64_t round, const LocalOperands& of, Reduced how) {
    if (of.count == 0) return {};
    CopyReductionPlan::Step& step = made_.steps.emplace_back();
    const LocalTask local = local_task(task, of);
    step.round = round;
    step.kernel = local.kernel;
    step.blocks = local_blocks(of.count * local.element_bytes, most_local_blocks(shape_));
    step.reduction = local.reduction;
    step.reduction.waited = 1;
    step.reduction.reduced = how.before ? 1 : 0;
    step.reduction.partial = how.complete ? 0 : 1;
    use_of(round).steps = launched();
    return {of.result, launched(), round, false};
  }
  static uint64_t elements_of(const CollectiveTask& task, const Range& range) {
    return range.bytes / task.element_bytes;
  }

  // Tells of what others wait for, and at the end of all: the next group's places are free.
  void plan_consumed() {
    const uint64_t half = made_.places / 2;
    Use use;
    for (uint64_t round = 0; round < made_.rounds; ++round) {
      use.steps = std::max(use.steps, uses_[round].steps);
      if (!gc_mutant(170)) use.sends = std::max(use.sends, uses_[round].sends);
      const bool awaited = (round + 1) % half == 0 && round + 1 + half < made_.rounds;
      if (awaited || round + 1 == made_.rounds)
        made_.consumed.push_back({made_.first_round + round + 1, use.steps, use.sends});
    }
  }

  const int n_, rank_;
  const CommProperties& shape_;
  uint8_t* const landing_;
  uint64_t most_;  // bytes of a piece
  std::vector<Use> uses_;
  CopyReductionPlan made_;
};

}  // namespace

uint64_t least_copy_reduction(Function function, const CommProperties& shape) {
  if (shape.n_ranks < 2) return 0;
  switch (function) {
    case Function::all_reduce: return shape.copies.reductions;
    // More ranks would make a chain to the root: its pieces would have to be small, and each costs its link 4 us.
    case Function::reduce: return shape.n_ranks == 2 ? kReduce * shape.copies.reductions : 0;
    case Function::reduce_scatter:
      return ceil_div(kReduceScatter * shape.copies.reductions, static_cast<uint64_t>(shape.n_ranks));
    default: return 0;
  }
}

bool reduces_by_copies(Function function, uint64_t bytes, const CommProperties& shape) {
  if (!shape.copies.reductions) return false;
  if (params().algorithm != kAlgorithmAuto || params().protocol != kProtocolAuto) return false;  // kernels are wanted
  const uint64_t least = least_copy_reduction(function, shape);
  return least != 0 && bytes >= least;
}

uint64_t copy_piece_bytes(uint64_t wanted) {
  constexpr uint64_t kMostLanding = uint64_t{512} << 20;
  constexpr uint64_t kUnit = 2 * kAlignment;  // pieces may have half as many
  return std::max(std::min(wanted, kMostLanding / kLargestPlaces) / kUnit, uint64_t{1}) * kUnit;
}

uint64_t landing_bytes(const CommProperties& shape) { return kLargestPlaces * shape.copies.piece; }

int local_blocks(uint64_t bytes, int most) noexcept {
  return static_cast<int>(std::min(ceil_div(bytes, proto::kLocalTile), static_cast<uint64_t>(most)));
}

int most_local_blocks(const CommProperties& shape) noexcept {
  constexpr int kMostBlocks = 48, kMostEmulated = 2;
  return std::min(shape.emulated ? kMostEmulated : kMostBlocks, shape.max_blocks);
}

// The next rank has told that `used` rounds are used when it has done all rounds before `used + held`. That must be
// before `round`: so `held` is at most half of the places.
size_t CopyReductionPlan::sends_before(uint32_t step) const {
  const auto has_room = [&](uint64_t round) {
    const uint64_t used = used_before(round);
    return used == first_round || step == steps.size() || used + held <= steps[step].round;
  };
  const auto may_go = [&](const Send& send) { return send.after <= step && has_room(send.round); };
  return static_cast<size_t>(std::find_if_not(sends.begin(), sends.end(), may_go) - sends.begin());
}

CopyReductionPlan plan_copy_reduction(const TaskQueue& queue, int rank, const CommProperties& shape, uint8_t* landing,
                                      uint64_t first_round) {
  return Schedule(queue, rank, shape, landing, first_round).take();
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
