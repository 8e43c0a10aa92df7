// Reductions drawn at random: allreduce, reduce, reduce_scatter(_block), scan, exscan and reduce_local, against the
// operation applied rank after rank.
//
// Thread safety: none. Ownership: a Reduce owns its type and buffers.
#pragma once
#include <numeric>

#include "generated_operations.h"

namespace generated {

class Reduce : public Case {
 public:
  Reduce(uint64_t seed, const Group& group, Form form, const std::vector<Operation>& operations);
  ~Reduce() override { Operations::shapes.erase(type_.handle); }
  void check() override;

 private:
  enum class F { allreduce, reduce, reduce_scatter, reduce_scatter_block, scan, exscan, reduce_local };
  static F drawn(const Group& group, Form form, uint64_t seed) {
    const int kinds = group.inter ? 4 : form == Form::blocking && seed % 8 == 0 ? 7 : 6;
    return static_cast<F>(mix(seed, 2) % static_cast<uint64_t>(kinds));
  }
  bool scatters() const { return function_ == F::reduce_scatter || function_ == F::reduce_scatter_block; }
  bool is_root() const { return function_ == F::reduce && group_.side == root_side_ && group_.rank == root_; }
  bool beside_root() const { return group_.inter && function_ == F::reduce && group_.side == root_side_; }
  bool sends() const { return !beside_root(); }
  bool receives() const { return function_ != F::reduce || is_root(); }
  bool is_in_place() const {
    return in_place_ && function_ != F::reduce_local && (function_ != F::reduce || is_root());
  }
  // The first rank's result of an exclusive scan means nothing.
  bool nothing_comes() const { return function_ == F::exscan && group_.rank == 0; }

  void draw_counts();
  Bytes values(int side, int rank, int first, int n) const;
  Bytes result(int first, int n) const;
  std::string words() const override;
  void fill() override;
  int call() override;

  F function_;
  const Operation& operation_;
  int total_ = 0, root_ = 0, root_side_ = 0;
  bool in_place_ = false;
  std::vector<int> counts_;  // what each rank of this side gets
  Type type_;
  std::unique_ptr<Side> send_, recv_;
};

inline Type element_type(const Operation& operation, uint64_t seed) {
  Random random(seed);
  if (operation.units == 1) return Type(operation.base);
  // Open MPI 4.1 writes beside its own buffers where the first byte of a type is not at 0.
  const Type old(operation.base);
  if (random.one_in(2)) return vector(old, operation.units, 1, 1 + random.below(4), random.one_in(2));
  return resized(vector(old, operation.units, 1, 2, false), 0, 4 * random.below(3));
}

inline Reduce::Reduce(uint64_t seed, const Group& group, Form form, const std::vector<Operation>& operations)
    : Case(seed, group, form),
      function_(drawn(group, form, seed)),
      operation_(operations[mix(seed, 3) % operations.size()]),
      // The same on all ranks, as MPI wants it.
      type_(element_type(operation_, mix(seed, 4))) {
  if (operation_.units > 1) Operations::shapes[type_.handle] = type_.shape;
  draw_counts();
  root_side_ = group.inter ? static_cast<int>(draw(5) % 2) : 0;
  const int ranks = group.side == root_side_ ? group.size : group.peers;
  root_ = static_cast<int>(draw(6) % static_cast<uint64_t>(ranks));
  in_place_ = !group.inter && draw(7) % 3 == 0;
  const ptrdiff_t extent = type_.shape.extent();
  const int lead = operation_.base.alignment * static_cast<int>(draw(8, group.rank) % 3);
  const int mine = scatters() ? counts_[static_cast<size_t>(group.rank)] : total_;
  if (sends() && !is_in_place())
    send_ =
        std::make_unique<Side>(where(false, root_), std::vector<Block>{{total_, 0, &type_}}, draw(9, group.rank), lead);
  if (!receives()) return;
  const int rest = is_in_place() ? total_ - mine : 0;
  const std::vector<Block> blocks = {{mine, 0, &type_}, {rest, mine * extent, &type_}};
  recv_ = std::make_unique<Side>(where(true, root_), blocks, draw(10, group.rank), lead);
  // MPI's own leave something else between result and end of the input in place.
  recv_->leave_open(1);
  if (nothing_comes()) recv_->leave_open(0);
}

inline void Reduce::draw_counts() {
  static const std::vector<int> sizes = {0, 1, 1, 2, 3, 7, 33, 100, 1000, 5003, 30011};
  Random random(draw(11));
  const int most = random.of(sizes);
  const int all = group_.inter ? group_.size * group_.peers : group_.size;
  if (function_ == F::reduce_scatter_block) {
    total_ = (most / all + (most % all > 0)) * all;
    counts_.assign(static_cast<size_t>(group_.size), total_ / group_.size);
  } else if (function_ == F::reduce_scatter) {
    // Cut anywhere, on each side of an intercommunicator elsewhere.
    total_ = most;
    std::vector<int> cuts = {0, total_};
    for (int r = 1; r < group_.size; r++) cuts.push_back(static_cast<int>(draw(12, group_.side, r) % u(total_ + 1)));
    std::sort(cuts.begin(), cuts.end());
    for (size_t r = 1; r < cuts.size(); r++) counts_.push_back(cuts[r] - cuts[r - 1]);
  } else {
    total_ = most;
  }
}

inline Bytes Reduce::values(int side, int rank, int first, int n) const {
  const int bytes = type_.shape.size();
  Bytes all(static_cast<size_t>(n * bytes) + 16);
  const uint64_t seed = mix(draw(13, side, rank), u(run_), u(group_.color));
  for (int i = 0; i < n; i++) {
    uint8_t element[32];
    operation_.value(mix(seed, u(first + i)), element);
    std::memcpy(&all[static_cast<size_t>(i * bytes)], element, static_cast<size_t>(bytes));
  }
  return all;
}

inline Bytes Reduce::result(int first, int n) const {
  const int side = group_.inter ? 1 - group_.side : 0;
  int ranks = group_.peers;
  if (function_ == F::scan) ranks = group_.rank + 1;
  if (function_ == F::exscan) ranks = group_.rank;
  if (function_ == F::reduce_local) ranks = 2;
  const int bytes = type_.shape.size();
  Bytes sum = values(side, ranks - 1, first, n);
  for (int r = ranks - 2; r >= 0; r--) {
    const Bytes more = values(side, r, first, n);
    for (int i = 0; i < n; i++) {
      uint8_t a[32], b[32];
      std::memcpy(a, &more[static_cast<size_t>(i * bytes)], static_cast<size_t>(bytes));
      std::memcpy(b, &sum[static_cast<size_t>(i * bytes)], static_cast<size_t>(bytes));
      operation_.combine(a, b);
      std::memcpy(&sum[static_cast<size_t>(i * bytes)], b, static_cast<size_t>(bytes));
    }
  }
  return sum;
}

inline void Reduce::fill() {
  const int me = function_ == F::reduce_local ? 0 : group_.rank;
  if (send_) {
    send_->clear();
    send_->put(0, values(group_.side, me, 0, total_));
    send_->write();
  }
  if (!recv_) return;
  recv_->clear();
  const int mine = scatters() ? counts_[static_cast<size_t>(group_.rank)] : total_;
  if (is_in_place()) {
    recv_->put(0, values(group_.side, me, 0, mine));
    recv_->put(1, values(group_.side, me, mine, total_ - mine));
  }
  if (function_ == F::reduce_local) recv_->put(0, values(0, 1, 0, total_));
  recv_->write();
}

inline void Reduce::check() {
  if (send_) compare("send", *send_);
  if (!recv_) return;
  if (scatters()) {
    const int mine = counts_[static_cast<size_t>(group_.rank)];
    recv_->put(0, result(std::accumulate(counts_.begin(), counts_.begin() + group_.rank, 0), mine));
  } else if (!nothing_comes()) {
    recv_->put(0, result(0, total_));
  }
  compare("receive", *recv_);
}

inline std::string Reduce::words() const {
  static const char* const names[] = {"allreduce", "reduce", "reduce_scatter", "reduce_scatter_block",
                                      "scan",      "exscan", "reduce_local"};
  std::string text =
      names[static_cast<int>(function_)] + std::string(" of ") + std::to_string(total_) + " " + operation_.name;
  if (operation_.units > 1) text += " in " + type_.name;
  if (function_ == F::reduce) text += ", root " + std::to_string(root_);
  return text + (in_place_ ? ", in place" : "");
}

inline int Reduce::call() {
  void* s = is_in_place() ? MPI_IN_PLACE : send_ ? send_->pointer() : nullptr;
  void* r = recv_ ? recv_->pointer() : nullptr;
  int root = root_;
  if (beside_root()) root = is_root() ? MPI_ROOT : MPI_PROC_NULL;
  const MPI_Datatype type = type_.handle;
  const MPI_Op op = operation_.op;
  switch (function_) {
    case F::allreduce: return GC_BEGIN(Allreduce, allreduce, s, r, total_, type, op);
    case F::reduce: return GC_BEGIN(Reduce, reduce, s, r, total_, type, op, root);
    case F::reduce_scatter: return GC_BEGIN(Reduce_scatter, reduce_scatter, s, r, counts_.data(), type, op);
    case F::reduce_scatter_block:
      return GC_BEGIN(Reduce_scatter_block, reduce_scatter_block, s, r, counts_[0], type, op);
    case F::scan: return GC_BEGIN(Scan, scan, s, r, total_, type, op);
    case F::exscan: return GC_BEGIN(Exscan, exscan, s, r, total_, type, op);
    default: return MPI_Reduce_local(s, r, total_, type, op);
  }
}

}  // namespace generated
