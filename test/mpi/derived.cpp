// Collectives on derived types in device memory, drawn at random: each rank's type of its own for the same data, nested
// vectors, indexed, structs, subarrays, resized, negative displacements; freed right after the call, or while it is
// under way, so that the next ones get their addresses. Each is checked against a plain computation by the types' own
// pieces, and by whether it ran on the device. usage: derived [CASES [SEED]]
//
// Everything about a case follows from its seed, so every rank knows every other rank's arguments. Whole allocations
// are compared, so a byte written into a gap is seen.
#include <algorithm>
#include <functional>
#include <random>

#include "abi/abi.h"
#include "mpi_test.h"

namespace {
using namespace mpi_test;

// A type of some MPI_INTs, and where they lie, in order: the list is made beside the type, not from it.
struct Type {
  MPI_Datatype type = MPI_INT;
  std::vector<ptrdiff_t> places = {0};  // in bytes, of one element
  ptrdiff_t extent = 4;
  const char* kind = "int";
};

using Random = std::mt19937_64;
int below(Random& random, int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); }

void resize(Type* t, ptrdiff_t low, ptrdiff_t extent) {
  MPI_Datatype old = t->type;
  MPI_Type_create_resized(old, low, extent, &t->type);
  if (old != MPI_INT) MPI_Type_free(&old);
  t->extent = extent;
}

// Frees what was below, as programs do.
void replace(Type* t, MPI_Datatype made, const char* kind) {
  if (t->type != MPI_INT) MPI_Type_free(&t->type);
  t->type = made;
  t->kind = kind;
}

// Copies of the places, moved.
std::vector<ptrdiff_t> repeated(const std::vector<ptrdiff_t>& places, const std::vector<ptrdiff_t>& at) {
  std::vector<ptrdiff_t> all;
  for (ptrdiff_t by : at)
    for (ptrdiff_t place : places) all.push_back(place + by);
  return all;
}

// Room that the places take, made the extent: types below need not care about bounds.
ptrdiff_t room(const Type& t) {
  const auto [low, high] = std::minmax_element(t.places.begin(), t.places.end());
  return (std::max(*high + 4, t.extent) - std::min<ptrdiff_t>(*low, 0) + 3) / 4 * 4;
}

void add_vector(Type* t, Random& random, bool backwards) {
  const int count = 1 + below(random, 4), length = 1 + below(random, 2);
  const ptrdiff_t step = std::abs(t->extent) * length + room(*t) + 4 * below(random, 3),
                  stride = backwards ? -step : step;
  MPI_Datatype made;
  MPI_Type_create_hvector(count, length, stride, t->type, &made);
  std::vector<ptrdiff_t> at;
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < length; ++j) at.push_back(i * stride + j * t->extent);
  t->places = repeated(t->places, at);
  replace(t, made, backwards ? "backward vector" : "vector");
}

void add_indexed(Type* t, Random& random) {
  const int n = 1 + below(random, 6);
  std::vector<int> lengths;
  std::vector<MPI_Aint> displacements;
  std::vector<ptrdiff_t> at;
  ptrdiff_t next = -4 * below(random, 40);
  for (int i = 0; i < n; ++i) {
    lengths.push_back(i == 0 ? 1 : below(random, 3));  // some data
    displacements.push_back(next);
    for (int j = 0; j < lengths.back(); ++j) at.push_back(next + j * t->extent);
    next += std::abs(t->extent) * lengths.back() + room(*t) + 4 * below(random, 5);
  }
  MPI_Datatype made;
  MPI_Type_create_hindexed(n, lengths.data(), displacements.data(), t->type, &made);
  t->places = repeated(t->places, at);
  replace(t, made, "indexed");
}

// Single ints around elements of the type.
void add_struct(Type* t, Random& random) {
  const ptrdiff_t wide = room(*t) + 8 + 4 * below(random, 3);
  const int lengths[] = {1, 1, 2};
  const MPI_Aint displacements[] = {2 * wide, 0, -16};
  const MPI_Datatype types[] = {MPI_INT, t->type, MPI_INT};
  const ptrdiff_t low = *std::min_element(t->places.begin(), t->places.end());
  const MPI_Aint moved[] = {displacements[0], -low, displacements[2]};
  MPI_Datatype made;
  MPI_Type_create_struct(3, lengths, moved, types, &made);
  std::vector<ptrdiff_t> places = {moved[0]};
  for (ptrdiff_t place : t->places) places.push_back(place - low);
  places.push_back(-16);
  places.push_back(-12);
  t->places = places;
  replace(t, made, "struct");
}

void add_subarray(Type* t, Random& random) {
  const ptrdiff_t cell = room(*t);
  resize(t, 0, cell);
  const int sizes[] = {3, 4, 5}, parts[] = {1 + below(random, 3), 1 + below(random, 4), 1 + below(random, 3)};
  const int starts[] = {below(random, 4 - parts[0]), below(random, 5 - parts[1]), below(random, 6 - parts[2])};
  MPI_Datatype made;
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, t->type, &made);
  std::vector<ptrdiff_t> at;
  for (int i = 0; i < parts[0]; ++i)
    for (int j = 0; j < parts[1]; ++j)
      for (int k = 0; k < parts[2]; ++k)
        at.push_back(cell * ((starts[0] + i) * sizes[1] * sizes[2] + (starts[1] + j) * sizes[2] + starts[2] + k));
  t->places = repeated(t->places, at);
  replace(t, made, "subarray");
}

void grow(Type* t, Random& random) {
  switch (below(random, 5)) {
    case 0: add_vector(t, random, false); break;
    case 1: add_vector(t, random, true); break;
    case 2: add_indexed(t, random); break;
    case 3: add_struct(t, random); break;
    default: add_subarray(t, random); break;
  }
  // Elements side by side, with room between them, sometimes backwards.
  const ptrdiff_t low = *std::min_element(t->places.begin(), t->places.end());
  const ptrdiff_t wide = *std::max_element(t->places.begin(), t->places.end()) + 4 - low + 4 * below(random, 3);
  resize(t, low, below(random, 4) == 0 ? -wide : wide);
}

// Nested up to `levels` deep; the number of ints in an element follows from the draw.
Type make_type(uint64_t seed, int levels) {
  Random random(seed);
  Type t;
  for (int i = 0; i < levels; ++i) grow(&t, random);
  if (t.type != MPI_INT && below(random, 4) == 0) {
    MPI_Datatype made;
    MPI_Type_dup(t.type, &made);
    replace(&t, made, "dup");
  }
  if (t.type != MPI_INT) MPI_Type_commit(&t.type);
  return t;
}
void free_type(Type* t) {
  if (t->type != MPI_INT) MPI_Type_free(&t->type);
}

// ---- a buffer: blocks of elements ----

struct Layout {
  Type type;
  std::vector<int> counts;        // elements, by block
  std::vector<ptrdiff_t> starts;  // of blocks, in bytes from the address that MPI gets
  ptrdiff_t low = 0, high = 4;

  void see() {
    for (size_t b = 0; b < counts.size(); ++b)
      for (int i = 0; i < ints(b); ++i) {
        low = std::min(low, place(b, i));
        high = std::max(high, place(b, i) + 4);
      }
  }
  int ints(size_t block) const { return counts[block] * static_cast<int>(type.places.size()); }
  // Of the i-th int of a block.
  ptrdiff_t place(size_t block, int i) const {
    const int per = static_cast<int>(type.places.size());
    return starts[block] + (i / per) * type.extent + type.places[static_cast<size_t>(i % per)];
  }
};

// A buffer on the device and what must be in it.
class Buffer {
 public:
  Buffer(const Layout& layout, uint64_t seed)
      : layout_(layout),
        memory_(Where::device, static_cast<size_t>(layout.high - layout.low) + 64),
        image_(memory_.bytes()) {
    for (size_t i = 0; i < image_.size(); ++i) image_[i] = static_cast<uint8_t>(mix(seed, i));
  }
  char* address() const { return memory_.at(32 - layout_.low); }
  void set(size_t block, int i, int value) { std::memcpy(&image_[at(block, i)], &value, 4); }
  void write() { memory_.write(image_.data()); }
  void check(const std::string& name, const char* side) const {
    std::vector<uint8_t> got(image_.size());
    memory_.read(got.data());
    if (checked(got == image_)) return;
    const auto from = std::mismatch(got.begin(), got.end(), image_.begin()).first - got.begin();
    fail("%s: %s buffer differs from byte %td on", name.c_str(), side, from - 32 + layout_.low);
  }

 private:
  size_t at(size_t block, int i) const { return static_cast<size_t>(32 - layout_.low + layout_.place(block, i)); }
  const Layout& layout_;
  Memory memory_;
  std::vector<uint8_t> image_;
};

// ---- a case ----

enum Function {
  kBcast,
  kGather,
  kGatherv,
  kScatter,
  kScatterv,
  kAllgather,
  kAllgatherv,
  kAlltoall,
  kAlltoallv,
  kAlltoallw,
  kEnd
};
const char* const kNames[] = {"bcast",     "gather",     "gatherv",  "scatter",   "scatterv",
                              "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};

class Case {
 public:
  explicit Case(uint64_t seed) : seed_(seed), random_(mix(seed)) {
    function_ = static_cast<Function>(below(random_, kEnd));
    root_ = below(random_, g_size);
    in_place_ = below(random_, 3) == 0 && function_ != kBcast;
    most_ = below(random_, 4);
    // Not where MPI's own would run: these do not all keep types that are freed while they are under way.
    nonblocking_ = below(random_, 3) == 0 && !ends_in_mpi() && !varies() && most_ > 0;
  }
  void run();

 private:
  bool ends_in_mpi() const { return g_size == 1 && function_ == kBcast; }
  bool gathers() const { return function_ == kGather || function_ == kGatherv; }
  bool scatters() const { return function_ == kScatter || function_ == kScatterv; }
  bool all_gathers() const { return function_ == kAllgather || function_ == kAllgatherv; }
  bool all_to_all() const { return function_ >= kAlltoall; }
  bool varies() const {
    return function_ == kGatherv || function_ == kScatterv || function_ == kAllgatherv || function_ >= kAlltoallv;
  }
  // In ints, which both sides' elements must add up to: element types are of 1 int, or of this rank's own type.
  int ints(int from, int to) const {
    if (gathers() || all_gathers()) to = 0;
    if (scatters()) from = 0;
    if (in_place_ && all_to_all() && from > to) std::swap(from, to);
    const int n = varies()
                      ? static_cast<int>(mix(seed_, 5, mix(static_cast<uint64_t>(from), static_cast<uint64_t>(to))) % 5)
                      : most_;
    return n * unit_;
  }
  int value(int from, int to, int i) const {
    if (gathers() || all_gathers() || function_ == kBcast) to = 0;
    return static_cast<int>(mix(seed_, static_cast<uint64_t>(from * 64 + to), static_cast<uint64_t>(i)));
  }
  Layout layout(uint64_t which, int blocks, const std::function<int(int)>& ints_of, bool plain);
  std::string name() const {
    return "case " + std::to_string(seed_) + (nonblocking_ ? ": i" : ": ") + kNames[function_] + " of " +
           send_.type.kind + " to " + recv_.type.kind + (in_place_ ? ", in place" : "") + ", root " +
           std::to_string(root_);
  }
  bool sends() const { return function_ != kBcast && !(scatters() && g_rank != root_); }
  bool receives() const { return !(gathers() && g_rank != root_); }
  bool in_place_here() const { return in_place_ && ((!gathers() && !scatters()) || g_rank == root_); }
  int call(void* send, void* recv);
  void fill(Buffer* send, Buffer* recv);
  void expect(Buffer* recv);

  uint64_t seed_;
  Random random_;
  Function function_;
  int root_, most_, unit_ = 1;
  bool in_place_;
  Layout send_, recv_;
  bool nonblocking_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::vector<MPI_Datatype> send_types_, recv_types_;
  std::vector<int> send_places_, recv_places_;  // in elements, or bytes for alltoallw
};

// A type whose ints divide the unit, at some distance from block to block; plain: ints without gaps.
Layout Case::layout(uint64_t which, int blocks, const std::function<int(int)>& ints_of, bool plain) {
  Layout l;
  const uint64_t own = mix(seed_, which, static_cast<uint64_t>(g_rank));
  if (!plain) l.type = make_type(own, 1 + static_cast<int>(own % 3));
  if (unit_ % static_cast<int>(l.type.places.size()) != 0) {
    free_type(&l.type);
    l.type = Type();
  }
  const int per = static_cast<int>(l.type.places.size());
  int at = 0;
  for (int b = 0; b < blocks; ++b) {
    l.counts.push_back(ints_of(b) / per);
    l.starts.push_back(at * l.type.extent);
    at += l.counts.back();
    if (varies() && blocks > 1) at += static_cast<int>(mix(own, static_cast<uint64_t>(b)) % 3);
  }
  l.see();
  return l;
}

int Case::call(void* send, void* recv) {
  const MPI_Comm c = MPI_COMM_WORLD;
  const MPI_Datatype st = send_.type.type, rt = recv_.type.type;
  const int sn = send_.counts.empty() ? 0 : send_.counts[0], rn = recv_.counts.empty() ? 0 : recv_.counts[0];
  const int *sns = send_.counts.data(), *rns = recv_.counts.data(), *sp = send_places_.data(),
            *rp = recv_places_.data();
  const void* s = in_place_here() && !scatters() ? MPI_IN_PLACE : send;
  void* r = in_place_here() && scatters() ? MPI_IN_PLACE : recv;
  send_types_.assign(static_cast<size_t>(g_size), st);
  recv_types_.assign(static_cast<size_t>(g_size), rt);
#define GC_CALL(X, x, ...) return nonblocking_ ? MPI_I##x(__VA_ARGS__, &request_) : MPI_##X(__VA_ARGS__)
  switch (function_) {
    case kBcast: GC_CALL(Bcast, bcast, recv, rn, rt, root_, c);
    case kGather: GC_CALL(Gather, gather, s, sn, st, r, rn, rt, root_, c);
    case kGatherv: GC_CALL(Gatherv, gatherv, s, sn, st, r, rns, rp, rt, root_, c);
    case kScatter: GC_CALL(Scatter, scatter, s, sn, st, r, rn, rt, root_, c);
    case kScatterv: GC_CALL(Scatterv, scatterv, s, sns, sp, st, r, rn, rt, root_, c);
    case kAllgather: GC_CALL(Allgather, allgather, s, sn, st, r, rn, rt, c);
    case kAllgatherv: GC_CALL(Allgatherv, allgatherv, s, sn, st, r, rns, rp, rt, c);
    case kAlltoall: GC_CALL(Alltoall, alltoall, s, sn, st, r, rn, rt, c);
    case kAlltoallv: GC_CALL(Alltoallv, alltoallv, s, sns, sp, st, r, rns, rp, rt, c);
    default: GC_CALL(Alltoallw, alltoallw, s, sns, sp, send_types_.data(), r, rns, rp, recv_types_.data(), c);
  }
#undef GC_CALL
}

// What this rank sends; in place, where it is received.
void Case::fill(Buffer* send, Buffer* recv) {
  const auto own = [&](Buffer* buffer, const Layout& l, size_t block, int to) {
    for (int i = 0; i < l.ints(block); ++i) buffer->set(block, i, value(g_rank, to, i));
  };
  if (function_ == kBcast) {
    if (g_rank == root_) own(recv, recv_, 0, 0);
  } else if (all_to_all() || (scatters() && sends())) {
    for (int to = 0; to < g_size; ++to) {
      if (in_place_here() && all_to_all())
        own(recv, recv_, static_cast<size_t>(to), to);
      else
        own(send, send_, static_cast<size_t>(to), to);
    }
  } else if (sends()) {
    if (in_place_here())
      own(recv, recv_, static_cast<size_t>(g_rank), 0);
    else
      own(send, send_, 0, 0);
  }
}

void Case::expect(Buffer* recv) {
  const auto from = [&](size_t block, int rank) {
    for (int i = 0; i < recv_.ints(block); ++i) recv->set(block, i, value(rank, g_rank, i));
  };
  if (!receives() || (scatters() && in_place_here())) return;
  if (function_ == kBcast || scatters()) return from(0, root_);
  for (int rank = 0; rank < g_size; ++rank) from(static_cast<size_t>(rank), rank);
}

void Case::run() {
  // The same on all ranks: what any of this case's types may have.
  static const int kUnits[] = {1, 2, 4, 6, 12, 24, 48};
  unit_ = kUnits[mix(seed_, 9) % 7] * 60;
  const int n = g_size;
  const bool one_sent = !all_to_all() && !scatters();
  send_ = layout(
      1,
      !sends()   ? 0
      : one_sent ? 1
                 : n,
      [&](int b) { return one_sent ? ints(g_rank, root_) : ints(g_rank, b); },
      mix(seed_, 20, static_cast<uint64_t>(g_rank)) % 5 == 0);
  const bool one_received = function_ == kBcast || scatters();
  recv_ = layout(
      2,
      !receives()    ? 0
      : one_received ? 1
                     : n,
      [&](int b) { return one_received ? ints(root_, g_rank) : ints(b, g_rank); },
      mix(seed_, 21, static_cast<uint64_t>(g_rank)) % 5 == 0);
  for (auto [l, places] : {std::pair(&send_, &send_places_), std::pair(&recv_, &recv_places_)})
    for (ptrdiff_t start : l->starts)
      places->push_back(static_cast<int>(function_ == kAlltoallw ? start : start / l->type.extent));
  Buffer send(send_, mix(seed_, 30)), recv(recv_, mix(seed_, 31));
  fill(&send, &recv);
  send.write();
  recv.write();
  const uint64_t before = gpucoll_abi(GC_ABI_VERSION)->runs();
  const int rc = call(send.address(), recv.address());
  free_type(&send_.type);
  free_type(&recv_.type);
  MPI_Wait(&request_, MPI_STATUS_IGNORE);
  if (!checked(rc == MPI_SUCCESS)) fail("%s: error %d", name().c_str(), rc);
  expect(&recv);
  send.check(name(), "send");
  recv.check(name(), "receive");
  const bool runs = gpucoll_abi(GC_ABI_VERSION)->runs() != before;
  // Without any bytes there is nothing to judge by but in the v-variants.
  if (!varies() && !checked(runs == (!ends_in_mpi() && most_ > 0)))
    fail("%s: it %s on the device", name().c_str(), runs ? "ran" : "did not run");
}

// ---- types that come and go ----

size_t resident_kb() {
  long pages = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return static_cast<size_t>(pages) * 4;
}

// An irregular type made, used and freed again and again takes no more memory in the end.
void types_come_and_go() {
  constexpr int kRounds = 3000, kWarm = 500, kRuns = 300;
  Memory memory(Where::device, kRuns * 16);
  size_t after_warm = 0;
  for (int round = 0; round < kRounds; ++round) {
    int lengths[kRuns], places[kRuns];
    for (int i = 0; i < kRuns; ++i) {
      lengths[i] = 1 + (i * 7 + round) % 2;
      places[i] = 4 * i + i % 2;
    }
    MPI_Datatype type;
    MPI_Type_indexed(kRuns, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Bcast(memory.at(0), 1, type, round % g_size, MPI_COMM_WORLD);
    MPI_Type_free(&type);
    if (round == kWarm) after_warm = resident_kb();
  }
  const size_t grown = resident_kb() - std::min(resident_kb(), after_warm);
  if (kFreedIsUsedAgain && !checked(grown < 1024))
    fail("%d rounds of a new type took %zu KiB more", kRounds - kWarm, grown);
}

// Hundreds of thousands of blocks, of which every other one is longer; and through host memory, as the root has no
// other.
void many_blocks(Where root) {
  constexpr int kBlocks = 200'000;
  std::vector<int> lengths(kBlocks), places(kBlocks), values(4 * kBlocks), sent;
  for (int i = 0; i < kBlocks; ++i) {
    lengths[static_cast<size_t>(i)] = 1 + static_cast<int>(mix(1, static_cast<uint64_t>(i)) % 2);
    places[static_cast<size_t>(i)] = 4 * i;
  }
  MPI_Datatype type;
  MPI_Type_indexed(kBlocks, lengths.data(), places.data(), MPI_INT, &type);
  MPI_Type_commit(&type);
  Memory memory(g_rank == 0 ? root : Where::device, values.size() * sizeof(int));
  for (size_t i = 0; i < values.size(); ++i) values[i] = g_rank == 0 ? static_cast<int>(i) : -1;
  memory.write(values.data());
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);  // where ranks with host memory wait for nobody yet
  const uint64_t before = gpucoll_abi(GC_ABI_VERSION)->runs();
  const double start = MPI_Wtime();
  MPI_Bcast(memory.at(0), 1, type, 0, comm);
  const bool runs = gpucoll_abi(GC_ABI_VERSION)->runs() != before;
  if (!checked(runs == (g_size > 1 && root == Where::device))) fail("many blocks: ran in the wrong place");
  if (g_rank == 0)
    std::printf("bcast of %d blocks from %s memory: %.1f ms\n", kBlocks, name_of(root), 1e3 * (MPI_Wtime() - start));
  memory.read(values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const bool data = static_cast<int>(i % 4) < lengths[i / 4];
    if (!checked(values[i] == (data || g_rank == 0 ? static_cast<int>(i) : -1)))
      return fail("int %zu of many blocks is %d", i, values[i]);
  }
  MPI_Comm_free(&comm);
  MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  const uint64_t cases = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 400;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1000;
  use_own_device();
  for (uint64_t i = 0; i < cases; ++i) Case(seed + i).run();
  many_blocks(Where::device);
  many_blocks(Where::host);
  types_come_and_go();
  return mpi.finish("derived");
}
