// Blocking collectives drawn at random, each checked against a plain computation here and by whether it ran on the
// device: exactly when every rank has some device memory, or may be left out. usage: collectives [CASES [SEED]]
//
// Everything about a case follows from its seed, so every rank knows every other rank's arguments. Whole allocations
// are compared, so a byte written where none belongs is seen.
#include <algorithm>
#include <functional>

#include "abi/abi.h"
#include "without_bytes.h"

namespace {
using namespace mpi_test;

uint64_t u(int value) { return static_cast<uint64_t>(value); }
size_t z(int value) { return static_cast<size_t>(value); }

// ---- what moves: units of some bytes, which ranks may call by different types ----

struct Spelling {
  MPI_Datatype type;
  int per_unit;  // elements
};
struct Unit {
  const char* name;
  int bytes, alignment;
  std::vector<Spelling> spellings;
};

std::vector<Unit> make_units() {
  MPI_Datatype three, parts, one;
  MPI_Type_contiguous(3, MPI_INT, &three);
  MPI_Type_commit(&three);
  const int lengths[2] = {1, 2};
  const MPI_Aint places[2] = {0, 4};
  const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Type_create_struct(2, lengths, places, types, &parts);
  MPI_Type_commit(&parts);
  MPI_Type_vector(1, 1, 5, MPI_DOUBLE, &one);
  MPI_Type_commit(&one);
  return {{"three ints", 12, 4, {{MPI_INT, 3}, {three, 1}, {parts, 1}}},
          {"char", 1, 1, {{MPI_CHAR, 1}}},
          {"bool", 1, 1, {{MPI_C_BOOL, 1}}},
          {"double", 8, 8, {{MPI_DOUBLE, 1}, {one, 1}}},
          {"2int", 8, 4, {{MPI_2INT, 1}}}};
}

// ---- a case ----

enum class Function {
  bcast,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  end
};
const char* const kNames[] = {"bcast",     "gather",     "gatherv",  "scatter",   "scatterv",
                              "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};

// A block of a buffer: units from its start.
struct Block {
  int at, count;
};

class Moves {
 public:
  Moves(uint64_t seed, const std::vector<Unit>& units, MPI_Comm comm) : seed_(seed), comm_(comm) {
    function_ = static_cast<Function>(draw(1) % u(static_cast<int>(Function::end)));
    unit_ = &units[draw(2) % units.size()];
    root_ = static_cast<int>(draw(3) % u(g_size));
    in_place_ = draw(4) % 3 == 0;
    memory_ = static_cast<int>(draw(5) % 4);
    const int sizes[] = {0, 1, 2, 3, 17, 300, 4000};
    most_ = sizes[draw(6) % 7];
    lead_ = static_cast<int>(draw(7) % 3);
  }

  std::string name() const {
    return "case " + std::to_string(seed_) + ": " + kNames[static_cast<int>(function_)] + " of up to " +
           std::to_string(most_) + " " + unit_->name + ", root " + std::to_string(root_) +
           (in_place_ ? ", in place" : "");
  }
  void run();

 private:
  uint64_t draw(uint64_t what, int a = 0, int b = 0) const { return mix(mix(seed_, what), u(a), u(b)); }

  bool rooted() const { return function_ <= Function::scatterv; }
  bool gathers() const { return function_ == Function::gather || function_ == Function::gatherv; }
  bool scatters() const { return function_ == Function::scatter || function_ == Function::scatterv; }
  bool all_gathers() const { return function_ == Function::allgather || function_ == Function::allgatherv; }
  bool varies() const {
    return function_ == Function::gatherv || function_ == Function::scatterv || function_ == Function::allgatherv ||
           function_ == Function::alltoallv || function_ == Function::alltoallw;
  }
  bool all_to_all() const { return function_ >= Function::alltoall; }

  // Units that go from one rank to another.
  int count(int from, int to) const {
    if (function_ == Function::bcast) return from == root_ ? most_ : 0;
    if (gathers() && to != root_) return 0;
    if (scatters() && from != root_) return 0;
    if (!varies()) return most_;
    // MPI_IN_PLACE wants what goes to a rank as long as what comes from it.
    if (all_gathers() || gathers()) to = 0;
    if (scatters()) from = 0;
    if (in_place_ && all_to_all() && from > to) std::swap(from, to);
    return static_cast<int>(draw(8, from, to) % u(most_ + 1));
  }
  // Where a rank's blocks lie: one after another, of the v-variants in another order with gaps.
  Block block(int owner, int other, bool receives) const {
    auto n = [&](int r) { return receives ? count(r, owner) : count(owner, r); };
    if (!receives && !all_to_all() && !scatters()) return {0, n(other)};  // one block for all
    if (receives && (scatters() || function_ == Function::bcast)) return {0, n(other)};
    int at = 0;
    for (int r = 0; r < other; r++) at += varies() ? most_ + 1 : n(r);
    if (varies()) at = (most_ + 1) * ((other + owner) % g_size);
    return {at, n(other)};
  }
  bool is_in_place(int rank) const {
    if (!in_place_ || function_ == Function::bcast) return false;
    return rooted() ? rank == root_ : true;
  }
  // Which buffers matter on a rank; MPI_IN_PLACE is none.
  bool sends(int rank) const {
    if (function_ == Function::bcast) return false;
    if (is_in_place(rank) && !scatters()) return false;
    return !scatters() || rank == root_;
  }
  bool receives(int rank) const {
    if (is_in_place(rank) && scatters()) return false;
    return !gathers() || rank == root_;
  }
  size_t bytes() const { return z((most_ + 1) * g_size * unit_->bytes + lead_bytes() + 64); }
  int lead_bytes() const { return lead_ * unit_->alignment; }

  Where where(int rank, bool receive) const {
    switch (memory_) {
      case 0: return Where::device;
      case 1: return Where::host;
      case 2: return rank == root_ ? Where::host : Where::device;
      default: return draw(9, rank, receive) & 1 ? Where::device : Where::host;
    }
  }
  uint8_t initial(int rank, bool receive, size_t i) const {
    return static_cast<uint8_t>(draw(10 + receive, rank, static_cast<int>(i)));
  }
  // What the blocks that a rank sends hold.
  std::vector<uint8_t> content(int from, int to) const;
  bool has_device_part(int rank) const;
  bool has_bytes(int rank) const;
  bool on_device() const;
  std::vector<uint8_t> image(bool receive) const;
  void expect(std::vector<uint8_t>& recv) const;
  int call(void* send, void* recv) const;

  uint64_t seed_;
  MPI_Comm comm_;
  Function function_;
  const Unit* unit_;
  int root_, memory_, most_, lead_;
  bool in_place_;
};

std::vector<uint8_t> Moves::content(int from, int to) const {
  const bool there = (is_in_place(from) && !scatters()) || function_ == Function::bcast;  // in the receive buffer
  Block b = block(from, to, false);
  if (there && function_ != Function::bcast) {
    b = block(from, all_to_all() ? to : from, true);
    b.count = count(from, to);
  }
  std::vector<uint8_t> bytes(z(b.count * unit_->bytes));
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = initial(from, there, z(lead_bytes() + b.at * unit_->bytes) + i);
  return bytes;
}

bool Moves::has_bytes(int rank) const {
  int all = function_ == Function::bcast ? most_ : 0;
  for (int r = 0; r < g_size; r++) all += (sends(rank) ? count(rank, r) : 0) + (receives(rank) ? count(r, rank) : 0);
  return all > 0;
}

// Some in device memory; a rank without any bytes is like one with host memory, where only some may have none.
bool Moves::has_device_part(int rank) const {
  int sent = 0, received = 0;
  for (int r = 0; r < g_size; r++) {
    if (sends(rank)) sent += count(rank, r);
    if (receives(rank)) received += count(r, rank);
  }
  if (function_ == Function::bcast) received = most_;
  if (sent + received == 0) return varies() && !all_gathers();
  return (sent > 0 && where(rank, false) == Where::device) || (received > 0 && where(rank, true) == Where::device);
}

bool Moves::on_device() const {
  if (g_size == 1 && function_ == Function::bcast) return false;  // it ends in MPI itself
  bool any = false;
  for (int r = 0; r < g_size; r++) {
    if (!has_device_part(r)) return false;
    any |= has_bytes(r);
  }
  return any;
}

std::vector<uint8_t> Moves::image(bool receive) const {
  std::vector<uint8_t> bytes(this->bytes());
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = initial(g_rank, receive, i);
  return bytes;
}

void Moves::expect(std::vector<uint8_t>& recv) const {
  if (!receives(g_rank)) return;
  for (int from = 0; from < g_size; from++) {
    if (from == g_rank && (function_ == Function::bcast || is_in_place(g_rank))) continue;
    if (count(from, g_rank) == 0) continue;
    const std::vector<uint8_t> bytes = content(from, g_rank);
    std::copy(bytes.begin(), bytes.end(), recv.begin() + lead_bytes() + block(g_rank, from, true).at * unit_->bytes);
  }
}

int Moves::call(void* send, void* recv) const {
  // Open MPI cuts messages by its types: its own collectives do not all survive ranks that spell them differently.
  const int speller = on_device() ? g_rank : 0;
  const Spelling mine = unit_->spellings[draw(12, speller) % unit_->spellings.size()];
  const Spelling theirs = on_device() ? unit_->spellings[draw(13, speller) % unit_->spellings.size()] : mine;
  const MPI_Datatype st = mine.type, rt = theirs.type;
  std::vector<int> scounts, splaces, rcounts, rplaces, sbytes, rbytes;
  std::vector<MPI_Datatype> stypes(z(g_size), st), rtypes(z(g_size), rt);
  for (int r = 0; r < g_size; r++) {
    const Block s = block(g_rank, r, false), d = block(g_rank, r, true);
    scounts.push_back(s.count * mine.per_unit);
    splaces.push_back(s.at * mine.per_unit);
    sbytes.push_back(s.at * unit_->bytes);
    rcounts.push_back(d.count * theirs.per_unit);
    rplaces.push_back(d.at * theirs.per_unit);
    rbytes.push_back(d.at * unit_->bytes);
  }
  const int sc = most_ * mine.per_unit, rc = most_ * theirs.per_unit;
  const int sv = count(g_rank, gathers() ? root_ : 0) * mine.per_unit, rv = count(root_, g_rank) * theirs.per_unit;
  if (is_in_place(g_rank)) (scatters() ? recv : send) = MPI_IN_PLACE;
  switch (function_) {
    case Function::bcast: return MPI_Bcast(recv, rc, rt, root_, comm_);
    case Function::gather: return MPI_Gather(send, sc, st, recv, rc, rt, root_, comm_);
    case Function::gatherv: return MPI_Gatherv(send, sv, st, recv, rcounts.data(), rplaces.data(), rt, root_, comm_);
    case Function::scatter: return MPI_Scatter(send, sc, st, recv, rc, rt, root_, comm_);
    case Function::scatterv: return MPI_Scatterv(send, scounts.data(), splaces.data(), st, recv, rv, rt, root_, comm_);
    case Function::allgather: return MPI_Allgather(send, sc, st, recv, rc, rt, comm_);
    case Function::allgatherv: return MPI_Allgatherv(send, sv, st, recv, rcounts.data(), rplaces.data(), rt, comm_);
    case Function::alltoall: return MPI_Alltoall(send, sc, st, recv, rc, rt, comm_);
    case Function::alltoallv:
      return MPI_Alltoallv(send, scounts.data(), splaces.data(), st, recv, rcounts.data(), rplaces.data(), rt, comm_);
    default:
      return MPI_Alltoallw(send, scounts.data(), sbytes.data(), stypes.data(), recv, rcounts.data(), rbytes.data(),
                           rtypes.data(), comm_);
  }
}

// Each rank its own, as far as there are enough.
int g_devices = 1;
void use_device(int index) { need(gpucollSetDevice(index % g_devices), "gpucollSetDevice"); }
void find_devices() {
  need(gpucollDeviceCount(&g_devices), "gpucollDeviceCount");
  use_device(g_rank);
}

uint64_t runs() { return gpucoll_abi(GC_ABI_VERSION)->runs(); }

// Ranks with host memory alone may have learned to wait for the others.
enum class Runs { never, maybe, once };

void check_runs(const std::string& name, uint64_t before, Runs expected) {
  const uint64_t ran = runs() - before;
  if (!checked(expected == Runs::maybe ? ran <= 1 : ran == (expected == Runs::once)))
    fail("%s: ran %d times on the device", name.c_str(), static_cast<int>(ran));
}

void check_image(const std::string& name, const char* side, const Memory& memory,
                 const std::vector<uint8_t>& expected) {
  std::vector<uint8_t> got(expected.size());
  memory.read(got.data());
  if (checked(got == expected)) return;
  const auto at = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
  fail("%s: %s buffer of %zu bytes differs from byte %td on", name.c_str(), side, got.size(), at);
}

void Moves::run() {
  Memory send(where(g_rank, false), bytes()), recv(where(g_rank, true), bytes());
  const std::vector<uint8_t> sent = image(false);
  std::vector<uint8_t> received = image(true);
  send.write(sent.data());
  recv.write(received.data());
  const uint64_t before = runs();
  const int rc = call(send.at(lead_bytes()), recv.at(lead_bytes()));
  if (!checked(rc == MPI_SUCCESS)) fail("%s: error %d", name().c_str(), rc);
  check_runs(name(), before, on_device() ? Runs::once : memory_ == 1 ? Runs::never : Runs::maybe);
  expect(received);
  check_image(name(), "send", send, sent);
  check_image(name(), "receive", recv, received);
}

// ---- reductions ----

enum class Reduction { allreduce, reduce, scan, exscan, reduce_scatter_block, reduce_scatter, end };
const char* const kReductions[] = {"allreduce", "reduce", "scan", "exscan", "reduce_scatter_block", "reduce_scatter"};

struct Pair {
  double value;
  int index;
  bool operator==(const Pair& other) const { return value == other.value && index == other.index; }
};

template <class T>
struct Kind {
  const char* name;
  MPI_Datatype type;
  MPI_Op op;
  T (*value)(uint64_t random);  // such that every order of reduction gives the same
  T (*reduce)(T a, T b);
};
const Kind<int> kSum = {"int sum", MPI_INT, MPI_SUM, [](uint64_t x) { return static_cast<int>(x % 2001) - 1000; },
                        [](int a, int b) { return a + b; }};
const Kind<float> kProduct = {"float product", MPI_FLOAT, MPI_PROD, [](uint64_t x) { return x & 1 ? -2.0f : 0.5f; },
                              [](float a, float b) { return a * b; }};
const Kind<signed char> kMax = {"char max", MPI_SIGNED_CHAR, MPI_MAX,
                                [](uint64_t x) { return static_cast<signed char>(x); },
                                [](signed char a, signed char b) { return std::max(a, b); }};
const Kind<Pair> kMaxloc = {"double_int maxloc", MPI_DOUBLE_INT, MPI_MAXLOC,
                            [](uint64_t x) {
                              return Pair{static_cast<double>(x % 5), static_cast<int>(x >> 20 & 0xff)};
                            },
                            [](Pair a, Pair b) {
                              if (a.value == b.value) return Pair{a.value, std::min(a.index, b.index)};
                              return a.value > b.value ? a : b;
                            }};

template <class T>
class Reduces {
 public:
  Reduces(uint64_t seed, const Kind<T>& kind, MPI_Comm comm) : seed_(seed), kind_(kind), comm_(comm) {
    function_ = static_cast<Reduction>(draw(1) % u(static_cast<int>(Reduction::end)));
    root_ = static_cast<int>(draw(2) % u(g_size));
    in_place_ = draw(3) % 3 == 0;
    memory_ = static_cast<int>(draw(4) % 4);
    const int sizes[] = {0, 1, 2, 5, 33, 1000, 20000};
    const int most = sizes[draw(5) % 7];
    for (int r = 0; r < g_size; r++)
      counts_.push_back(function_ == Reduction::reduce_scatter ? static_cast<int>(draw(6, r) % u(most + 1)) : most);
    for (int r = 0; r < g_size; r++) total_ += scatters() ? counts_[z(r)] : r == 0 ? most : 0;
  }
  void run();

 private:
  uint64_t draw(uint64_t what, int a = 0, int b = 0) const { return mix(mix(seed_, what), u(a), u(b)); }
  bool scatters() const { return function_ >= Reduction::reduce_scatter_block; }
  bool is_in_place(int rank) const { return in_place_ && (function_ != Reduction::reduce || rank == root_); }
  int received(int rank) const {
    if (scatters()) return counts_[z(rank)];
    if (function_ == Reduction::reduce) return rank == root_ ? total_ : 0;
    return function_ == Reduction::exscan && rank == 0 ? 0 : total_;
  }
  // The ranks whose elements this one's result is made of are the first ones.
  int reduced() const {
    return function_ == Reduction::scan ? g_rank + 1 : function_ == Reduction::exscan ? g_rank : g_size;
  }
  T value(int rank, int i) const { return kind_.value(draw(7, rank, i)); }
  T result(int i) const {
    T sum = value(0, i);
    for (int r = 1; r < reduced(); r++) sum = kind_.reduce(sum, value(r, i));
    return sum;
  }
  Where where(int rank, bool receive) const {
    switch (memory_) {
      case 0:
      case 1: return Where::device;
      case 2: return rank == root_ ? Where::host : Where::device;
      default: return draw(9, rank, receive) & 1 ? Where::device : Where::host;
    }
  }
  bool on_device() const {
    bool all = total_ > 0;
    for (int r = 0; r < g_size; r++) {
      const bool has_output = is_in_place(r) || received(r) > 0;
      all = all &&
            ((!is_in_place(r) && where(r, false) == Where::device) || (has_output && where(r, true) == Where::device));
    }
    return all;
  }
  int call(void* send, void* recv) const {
    if (is_in_place(g_rank)) send = MPI_IN_PLACE;
    switch (function_) {
      case Reduction::allreduce: return MPI_Allreduce(send, recv, total_, kind_.type, kind_.op, comm_);
      case Reduction::reduce: return MPI_Reduce(send, recv, total_, kind_.type, kind_.op, root_, comm_);
      case Reduction::scan: return MPI_Scan(send, recv, total_, kind_.type, kind_.op, comm_);
      case Reduction::exscan: return MPI_Exscan(send, recv, total_, kind_.type, kind_.op, comm_);
      case Reduction::reduce_scatter_block:
        return MPI_Reduce_scatter_block(send, recv, counts_[0], kind_.type, kind_.op, comm_);
      default: return MPI_Reduce_scatter(send, recv, counts_.data(), kind_.type, kind_.op, comm_);
    }
  }
  std::string name() const {
    return "case " + std::to_string(seed_) + ": " + kReductions[static_cast<int>(function_)] + " of " +
           std::to_string(total_) + ", " + kind_.name + ", root " + std::to_string(root_) +
           (in_place_ ? ", in place" : "");
  }

  uint64_t seed_;
  const Kind<T>& kind_;
  MPI_Comm comm_;
  Reduction function_;
  int root_, memory_, total_ = 0;
  bool in_place_;
  std::vector<int> counts_;
};

template <class T>
void Reduces<T>::run() {
  constexpr int kGuard = 3;
  std::vector<T> in(z(total_ + kGuard)), out(in), got(in);
  for (int i = 0; i < total_ + kGuard; i++) {
    in[z(i)] = value(g_rank, i);
    out[z(i)] = is_in_place(g_rank) ? in[z(i)] : kind_.value(draw(8, g_rank, i));
  }
  Memory send(where(g_rank, false), in.size() * sizeof(T)), recv(where(g_rank, true), in.size() * sizeof(T));
  send.write(in.data());
  recv.write(out.data());
  const uint64_t before = runs();
  const int rc = call(send.at(0), recv.at(0));
  if (!checked(rc == MPI_SUCCESS)) fail("%s: error %d", name().c_str(), rc);
  check_runs(name(), before, on_device() ? Runs::once : Runs::maybe);
  int first = 0;
  for (int r = 0; scatters() && r < g_rank; r++) first += counts_[z(r)];
  for (int i = 0; i < received(g_rank); i++) out[z(i)] = result(first + i);
  recv.read(got.data());
  // MPI's own leave something else between result and end of the input in place.
  const int kept = is_in_place(g_rank) && !on_device() ? total_ : received(g_rank);
  for (int i = 0; i < static_cast<int>(got.size()); i++) {
    if ((i >= received(g_rank) && i < kept) || checked(got[z(i)] == out[z(i)])) continue;
    fail("%s: element %d of %d is wrong", name().c_str(), i, received(g_rank));
    break;
  }
  send.read(got.data());
  if (!checked(got == in)) fail("%s: the send buffer has changed", name().c_str());
}

// On the device where kernels see both buffers.
template <class T>
void reduce_locally(const Kind<T>& kind, int count, Where in_where, Where inout_where) {
  const std::string name = "reduce_local of " + std::to_string(count) + ", " + kind.name;
  constexpr int kLead = 1, kGuard = 3;
  const size_t n = z(kLead + count + kGuard);
  std::vector<T> in(n), inout(n), got(n);
  for (size_t i = 0; i < n; i++) {
    in[i] = kind.value(mix(u(g_rank), i, 1));
    inout[i] = kind.value(mix(u(g_rank), i, 2));
  }
  Memory in_memory(in_where, n * sizeof(T)), inout_memory(inout_where, n * sizeof(T));
  in_memory.write(in.data());
  inout_memory.write(inout.data());
  const uint64_t before = runs();
  const int rc =
      MPI_Reduce_local(in_memory.at(kLead * sizeof(T)), inout_memory.at(kLead * sizeof(T)), count, kind.type, kind.op);
  if (!checked(rc == MPI_SUCCESS)) fail("%s: error %d", name.c_str(), rc);
  const bool on_device = count > 0 && in_where == Where::device && inout_where == Where::device;
  if (!checked(runs() - before == on_device))
    fail("%s: ran %d times on the device", name.c_str(), static_cast<int>(runs() - before));
  for (size_t i = kLead; i < z(kLead + count); i++) inout[i] = kind.reduce(in[i], inout[i]);
  inout_memory.read(got.data());
  if (!checked(got == inout)) fail("%s: the result is wrong", name.c_str());
  in_memory.read(got.data());
  if (!checked(got == in)) fail("%s: the input has changed", name.c_str());
}

void reduce_locally() {
  constexpr Where kWheres[] = {Where::device, Where::host};
  for (Where in : kWheres)
    for (Where inout : kWheres)
      for (int count : {0, 1, 1001, 100003}) {
        reduce_locally(kSum, count, in, inout);
        reduce_locally(kMax, count, in, inout);
        reduce_locally(kMaxloc, count, in, inout);
      }
}

// A communicator works on the devices that its first collective had; others are staged, on all ranks alike.
void other_device() {
  if (g_devices < 2) return;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int turn = 0; turn < 3; turn++) {
    const bool elsewhere = turn == 1 && g_rank == g_size - 1;
    use_device(g_rank + elsewhere);
    int value = g_rank == 0 ? 100 + turn : -1;
    Memory memory(Where::device, sizeof value);
    memory.write(&value);
    const uint64_t before = runs();
    MPI_Bcast(memory.at(0), 1, MPI_INT, 0, comm);
    check_runs("bcast number " + std::to_string(turn) + " on changing devices", before,
               g_size > 1 && turn != 1 ? Runs::once : Runs::never);
    memory.read(&value);
    if (!checked(value == 100 + turn)) fail("bcast number %d on changing devices gave %d", turn, value);
    use_device(g_rank);
  }
  MPI_Comm_free(&comm);
}

void run_case(uint64_t seed, const std::vector<Unit>& units, MPI_Comm comm) {
  switch (mix(seed, 77) % 10) {
    case 0: return Reduces<int>(seed, kSum, comm).run();
    case 1: return Reduces<float>(seed, kProduct, comm).run();
    case 2: return Reduces<signed char>(seed, kMax, comm).run();
    case 3: return Reduces<Pair>(seed, kMaxloc, comm).run();
    default: return Moves(seed, units, comm).run();
  }
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  const int cases = argc > 1 ? std::atoi(argv[1]) : 600;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1000;
  const std::vector<Unit> units = make_units();
  find_devices();
  Memory first_use(Where::device, 1);  // before it, a rank that is left out takes it that there are no devices
  // Two communicators, in turn: their calls are counted apart.
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  for (int i = 0; i < cases; i++) run_case(first + u(i), units, i % 5 == 0 ? copy : MPI_COMM_WORLD);
  without_bytes::test_within(copy);
  without_bytes::test_on_a_line(MPI_COMM_WORLD);
  MPI_Comm_free(&copy);
  other_device();
  reduce_locally();
  for (const Unit& unit : units)
    for (Spelling s : unit.spellings) {
      int integers, addresses, types, how;
      MPI_Type_get_envelope(s.type, &integers, &addresses, &types, &how);
      if (how != MPI_COMBINER_NAMED) MPI_Type_free(&s.type);
    }
  return mpi.finish("collectives");
}
