#include "perf/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace gpucoll::perf {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

size_t piece_elements(const Call& call) { return kPieceBytes / info(call.type).bytes; }
size_t recv_bytes(const Call& call) { return recv_elements(call) * info(call.type).bytes; }

// Collectives whose result is the same on every rank.
bool same_everywhere(const Call& call) {
  const Collective kind = even(call.collective);
  return kind == Collective::allreduce || kind == Collective::allgather || kind == Collective::bcast;
}

Status mpi_status(int rc, const char* what) {
  if (rc == MPI_SUCCESS) return {};
  return Status::error(Code::remote, "%s failed with MPI error %d", what, rc);
}

}  // namespace

Checker::Checker(const Buffers& buffers, MPI_Comm comm)
    : buffers_(buffers), comm_(comm), got_(kPieceBytes), want_(kPieceBytes), scratch_(kPieceBytes) {
  MPI_Comm_rank(comm, &rank_);
}

Status Checker::prepare(const Call& call, const Recipe& recipe) {
  wrong_ = 0;
  example_.clear();
  GC_TRY(buffers_.recv.fill(0, kPoison, recv_bytes(call) + Buffers::kGuardBytes));
  const size_t bytes = info(call.type).bytes, total = input_elements(call);
  const Memory& target = input_in_recv(call) ? buffers_.recv : buffers_.send;
  for (size_t first = 0; first < total; first += piece_elements(call)) {
    size_t n = std::min(piece_elements(call), total - first);
    generate(recipe, call.rank, first, n, want_.data());
    GC_TRY(target.write((input_offset(call) + first) * bytes, want_.data(), n * bytes));
  }
  return {};
}

Result<Verdict> Checker::check(Runner& runner, const Call& call) {
  if (call.collective == Collective::barrier) return check_barrier(runner, call);
  const Recipe made = recipe(call, ++run_);
  GC_TRY(prepare(call, made));
  GC_TRY(run_once(runner, call));
  GC_TRY(inspect_output(call, made));
  GC_TRY(inspect_guard(call));
  GC_TRY(inspect_send(call, made));
  return gather();
}

Result<uint64_t> Checker::fingerprint(Runner& runner, const Call& call, Verdict* verdict) {
  Recipe made = recipe(call, kFingerprintRun);
  made.inexact = true;
  GC_TRY(prepare(call, made));
  GC_TRY(run_once(runner, call));
  GC_TRY(hash_output(call));
  if (same_everywhere(call)) GC_TRY(compare_ranks(call));
  *verdict = gather();
  std::vector<uint64_t> hashes(static_cast<size_t>(call.ranks));
  GC_TRY(mpi_status(MPI_Gather(&hash_, 1, MPI_UINT64_T, hashes.data(), 1, MPI_UINT64_T, 0, comm_), "MPI_Gather"));
  return hash_values(Type::uint64, 0, hashes.data(), hashes.size());
}

// One rank comes late, each in its turn: nobody may leave before. The ranks of a node have one clock; what ranks of
// other nodes say of theirs means nothing.
Result<Verdict> Checker::check_barrier(Runner& runner, const Call& call) {
  using Clock = std::chrono::steady_clock;
  const auto now = [] { return static_cast<int64_t>(Clock::now().time_since_epoch().count()); };
  wrong_ = 0;
  if (static_cast<int>(++run_ % static_cast<uint64_t>(call.ranks)) == rank_)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  int64_t came = now(), last = 0;
  GC_TRY(run_once(runner, call));
  const int64_t left = now();
  MPI_Comm node = MPI_COMM_NULL;
  GC_TRY(
      mpi_status(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type"));
  MPI_Allreduce(&came, &last, 1, MPI_INT64_T, MPI_MAX, node);
  MPI_Comm_free(&node);
  if (left < last) note(1, "left the barrier before all had come");
  return gather();
}

void Checker::note(uint64_t wrong, const std::string& example) {
  if (wrong_ == 0) example_ = fmt::format("rank {}: {}", rank_, example);
  wrong_ += wrong;
}

Status Checker::inspect_output(const Call& call, const Recipe& recipe) {
  size_t bytes = info(call.type).bytes;
  size_t total = output_elements(call);
  for (size_t first = 0; first < total; first += piece_elements(call)) {
    size_t n = std::min(piece_elements(call), total - first);
    expected(call, recipe, first, n, want_.data(), scratch_.data());
    GC_TRY(buffers_.recv.read((output_offset(call) + first) * bytes, got_.data(), n * bytes));
    size_t at = 0;
    size_t wrong = count_wrong(call.type, got_.data(), want_.data(), n, &at);
    if (wrong)
      note(wrong, fmt::format("element {} is {} instead of {}", first + at, show(call.type, &got_[at * bytes]),
                              show(call.type, &want_[at * bytes])));
  }
  return {};
}

Status Checker::hash_output(const Call& call) {
  const size_t bytes = info(call.type).bytes, total = output_elements(call);
  hash_ = 0;
  for (size_t first = 0; first < total; first += piece_elements(call)) {
    const size_t n = std::min(piece_elements(call), total - first);
    GC_TRY(buffers_.recv.read((output_offset(call) + first) * bytes, got_.data(), n * bytes));
    hash_ = hash_values(call.type, hash_, got_.data(), n);
  }
  return {};
}

Status Checker::inspect_guard(const Call& call) {
  GC_TRY(buffers_.recv.read(recv_bytes(call), got_.data(), Buffers::kGuardBytes));
  for (size_t i = 0; i < Buffers::kGuardBytes; ++i) {
    if (static_cast<unsigned char>(got_[i]) == kPoison) continue;
    note(1, fmt::format("byte {} behind the receive buffer was overwritten", i));
    break;
  }
  return {};
}

Status Checker::inspect_send(const Call& call, const Recipe& recipe) {
  if (input_in_recv(call)) return {};
  size_t bytes = info(call.type).bytes;
  size_t total = input_elements(call);
  for (size_t first = 0; first < total; first += piece_elements(call)) {
    size_t n = std::min(piece_elements(call), total - first);
    generate(recipe, call.rank, first, n, want_.data());
    GC_TRY(buffers_.send.read(first * bytes, got_.data(), n * bytes));
    size_t at = 0;
    size_t wrong = count_wrong(call.type, got_.data(), want_.data(), n, &at);
    if (wrong) note(wrong, fmt::format("element {} of the send buffer was changed", first + at));
  }
  return {};
}

Status Checker::compare_ranks(const Call& call) {
  uint64_t low = 0, high = 0;
  GC_TRY(mpi_status(MPI_Allreduce(&hash_, &low, 1, MPI_UINT64_T, MPI_MIN, comm_), "MPI_Allreduce on host memory"));
  GC_TRY(mpi_status(MPI_Allreduce(&hash_, &high, 1, MPI_UINT64_T, MPI_MAX, comm_), "MPI_Allreduce on host memory"));
  if (low != high && rank_ == 0)
    note(1, fmt::format("the bits of the result of {} differ between ranks", name(call.collective)));
  return {};
}

Verdict Checker::gather() const {
  Verdict verdict;
  MPI_Allreduce(&wrong_, &verdict.wrong, 1, MPI_UINT64_T, MPI_SUM, comm_);
  if (verdict.wrong == 0) return verdict;
  int mine = wrong_ ? rank_ : INT32_MAX, lowest = 0;
  MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, comm_);
  char text[200] = "";
  std::strncpy(text, example_.c_str(), sizeof text - 1);
  MPI_Bcast(text, sizeof text, MPI_CHAR, lowest, comm_);
  verdict.example = text;
  return verdict;
}

}  // namespace gpucoll::perf
