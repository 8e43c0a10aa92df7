// One-sided communication on windows of device memory: all operations and ways of synchronisation, against a model of
// each rank's memory on the host.
#include "device_windows.h"

#include <complex>
#include <memory>

namespace {
using namespace windows;

int g_round = 0;

void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

bool reaches(const Window& window, int rank) { return has_memory(window.kinds(), rank); }

// Packed data in memory of some kind.
class Packed {
 public:
  Packed(Where where, const Bytes& bytes) : memory_(where, bytes.size()), bytes_(bytes) { memory_.write(bytes.data()); }
  void* data() const { return memory_.at(0); }
  Bytes now() const { return memory_.image(); }

 private:
  Memory memory_;
  Bytes bytes_;
};

Where origin_of(int turn) { return (g_rank + turn) % 3 == 0 ? Where::host : Where::device; }

void expect_bytes(const std::string& what, const Bytes& now, const Bytes& should) {
  const auto found = std::mismatch(should.begin(), should.end(), now.begin());
  if (!checked(found.first == should.end())) fail("%s: wrong byte at %ld", what.c_str(), found.first - should.begin());
}

// ---- puts and gets ----

struct Transfer {
  const Epoch& epoch;
  const TypeKind& kind;
  int count, at;
  std::string title(const Window& window, const char* function) const {
    return std::string(function) + " of " + std::to_string(count) + " " + kind.name + " at " + std::to_string(at) +
           " between " + epoch.name + ", " + name_of(window.kinds());
  }
};

// The type is gone before the operation is complete.
void puts(Window& window, const Transfer& t) {
  const int round = ++g_round;
  Type type(t.kind);
  const auto ints = static_cast<size_t>(t.count * type.bytes());
  window.clear();
  if (reaches(window, g_rank))
    unpack(bytes_of(previous(), round, ints), window.model().data() + t.at * window.unit(), t.count, type.get());
  Packed origin(origin_of(round), bytes_of(g_rank, round, ints));
  barrier();
  t.epoch.run(window.get(), next(), previous(), [&] {
    if (reaches(window, next()))
      MPI_Put(origin.data(), static_cast<int>(ints / 4), MPI_INT, next(), t.at, t.count, type.get(), window.get());
    type.release();
  });
  window.expect_model(t.title(window, "MPI_Put"));
}

void gets(Window& window, const Transfer& t) {
  const int round = ++g_round;
  Type type(t.kind);
  const auto ints = static_cast<size_t>(t.count * type.bytes());
  window.model() = bytes_of(g_rank, round, window.model().size());
  window.store();
  const size_t from = static_cast<size_t>(t.at * unit_of(next()));
  const Bytes there = bytes_of(next(), round, from + type.span(t.count));
  Packed result(origin_of(round), Bytes(ints, 7));
  const bool has_target = reaches(window, next());
  barrier();
  t.epoch.run(window.get(), next(), previous(), [&] {
    if (has_target)
      MPI_Get(result.data(), static_cast<int>(ints / 4), MPI_INT, next(), t.at, t.count, type.get(), window.get());
  });
  expect_bytes(t.title(window, "MPI_Get"), result.now(),
               has_target ? pack(there.data() + from, t.count, type.get()) : Bytes(ints, 7));
  window.expect_model(t.title(window, "MPI_Get"));
}

void transfers() {
  constexpr size_t kBytes = 60000;
  for (const Kinds kinds : kKinds) {
    Window window(kinds, kBytes);
    int turn = 0;
    for (const TypeKind& kind : kTypeKinds)
      for (const int count : {1, 7, 0}) {
        const Transfer t{kEpochs[turn++ % std::size(kEpochs)], kind, count, turn * 5 % 31};
        puts(window, t);
        gets(window, t);
      }
    for (const Epoch& epoch : kEpochs) {
      puts(window, {epoch, kTypeKinds[0], 12345, 3});
      gets(window, {epoch, kTypeKinds[0], 12345, 3});
      puts(window, {epoch, kTypeKinds[3], 4001, 1});
    }
  }
}

// ---- accumulates ----

struct Op {
  const char* name;
  MPI_Op op;
};
struct Element {
  const char* name;
  MPI_Datatype type;
  std::vector<Op> ops;
  void (*fill)(uint8_t* array, int count, uint64_t who);  // small values, so that any order gives the same result
};

template <class T>
void fill_numbers(uint8_t* array, int count, uint64_t who) {
  for (int i = 0; i < count; ++i) {
    const T value = static_cast<T>(1 + mix(who, static_cast<uint64_t>(i)) % 3);
    std::memcpy(array + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
  }
}
template <class T>
struct Pair {
  T value;
  int index;
};
template <class T>
void fill_pairs(uint8_t* array, int count, uint64_t who) {
  for (int i = 0; i < count; ++i) {
    auto* const pair = reinterpret_cast<Pair<T>*>(array) + i;
    pair->value = static_cast<T>(mix(who, static_cast<uint64_t>(i)) % 4);
    pair->index = static_cast<int>(mix(who, static_cast<uint64_t>(i), 1) % 100);
  }
}

const std::vector<Op> kArithmetic = {
    {"sum", MPI_SUM}, {"product", MPI_PROD}, {"minimum", MPI_MIN}, {"maximum", MPI_MAX}};
const std::vector<Op> kOfIntegers = {{"sum", MPI_SUM},          {"product", MPI_PROD},     {"minimum", MPI_MIN},
                                     {"maximum", MPI_MAX},      {"logical and", MPI_LAND}, {"logical or", MPI_LOR},
                                     {"logical xor", MPI_LXOR}, {"bits and", MPI_BAND},    {"bits or", MPI_BOR},
                                     {"bits xor", MPI_BXOR}};
const std::vector<Op> kOfComplex = {{"sum", MPI_SUM}};
const std::vector<Op> kOfPairs = {{"minimum's place", MPI_MINLOC}, {"maximum's place", MPI_MAXLOC}};

const std::vector<Element>& elements() {
  static const std::vector<Element> all = {
      {"int", MPI_INT, kOfIntegers, fill_numbers<int>},
      {"signed char", MPI_SIGNED_CHAR, kOfIntegers, fill_numbers<signed char>},
      {"short", MPI_SHORT, kOfIntegers, fill_numbers<short>},
      {"uint64", MPI_UINT64_T, kOfIntegers, fill_numbers<uint64_t>},
      {"float", MPI_FLOAT, kArithmetic, fill_numbers<float>},
      {"double", MPI_DOUBLE, kArithmetic, fill_numbers<double>},
      {"long double", MPI_LONG_DOUBLE, kArithmetic, fill_numbers<long double>},
      {"complex", MPI_C_DOUBLE_COMPLEX, kOfComplex, fill_numbers<std::complex<double>>},
      {"2 ints", MPI_2INT, kOfPairs, fill_pairs<int>},
      {"float and int", MPI_FLOAT_INT, kOfPairs, fill_pairs<float>},
      {"double and int", MPI_DOUBLE_INT, kOfPairs, fill_pairs<double>},
      {"long and int", MPI_LONG_INT, kOfPairs, fill_pairs<long>},
      {"short and int", MPI_SHORT_INT, kOfPairs, fill_pairs<short>},
  };
  return all;
}

size_t extent_of(MPI_Datatype type) {
  MPI_Aint lower, extent;
  MPI_Type_get_extent(type, &lower, &extent);
  return static_cast<size_t>(extent);
}

// Elements with the gaps of their type as they were.
Bytes values_of(const Element& e, int count, uint64_t who) {
  Bytes values(static_cast<size_t>(count) * extent_of(e.type), 0xa5);
  e.fill(values.data(), count, who);
  return values;
}

// How the target's elements lie: one behind the other, or with a gap after every two.
MPI_Datatype layout_of(const Element& e, bool gaps) {
  MPI_Datatype type;
  MPI_Type_vector(3, 2, gaps ? 3 : 2, e.type, &type);
  MPI_Type_commit(&type);
  return type;
}

// All ranks accumulate into the same elements of every rank's memory at once.
void accumulate_at_all(Window& window, const Element& e, const Op& op, bool gaps, int blocks) {
  constexpr int kInBlock = 6;
  const int count = blocks * kInBlock;
  MPI_Datatype type = layout_of(e, gaps);
  window.clear();
  Bytes& model = window.model();
  const bool has = reaches(window, g_rank);
  const int at = 48 / window.unit();
  if (has) {
    const Bytes first = values_of(e, count, 1000);
    unpack(pack(first.data(), count, e.type), model.data() + 48, blocks, type);
    Bytes sum = first;
    for (int r = 0; r < g_size; ++r) {
      const Bytes more = values_of(e, count, static_cast<uint64_t>(r));
      MPI_Reduce_local(more.data(), sum.data(), count, e.type, op.op);
    }
    window.store();
    unpack(pack(sum.data(), count, e.type), model.data() + 48, blocks, type);
  }
  Packed mine(origin_of(++g_round), values_of(e, count, static_cast<uint64_t>(g_rank)));
  MPI_Win_fence(0, window.get());
  for (int r = 0; r < g_size; ++r)
    if (reaches(window, r))
      MPI_Accumulate(mine.data(), count, e.type, r, 48 / unit_of(r), blocks, type, op.op, window.get());
  MPI_Type_free(&type);
  MPI_Win_fence(0, window.get());
  window.expect_model(std::string(op.name) + " of " + std::to_string(count) + " " + e.name + (gaps ? ", spread" : "") +
                      " at " + std::to_string(at));
}

void accumulates() {
  for (const Kinds kinds : kKinds) {
    Window window(kinds, 40000);
    for (const Element& e : elements())
      for (const Op& op : e.ops)
        for (const bool gaps : {false, true}) accumulate_at_all(window, e, op, gaps, kinds == Kinds::device ? 7 : 2);
    accumulate_at_all(window, elements()[0], kOfIntegers[0], false, 1200);
  }
}

// The last one wins, however long the ones before it take.
void accumulates_in_order() {
  constexpr size_t kBytes = 1 << 20;
  for (const Kinds kinds : {Kinds::device, Kinds::mixed}) {
    Window window(kinds, kBytes, 1);
    barrier();
    for (int turn = 0; turn < 6; ++turn) {
      const Bytes large = bytes_of(previous(), ++g_round, kBytes), small = bytes_of(previous(), g_round + 1000, 100);
      window.model() = large;
      std::copy(small.begin(), small.end(), window.model().begin() + 777 * turn);
      Packed first(origin_of(turn), bytes_of(g_rank, g_round, kBytes));
      Packed last(origin_of(turn + 1), bytes_of(g_rank, g_round + 1000, 100)), seen(origin_of(turn + 2), Bytes(100));
      MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, window.get());
      MPI_Accumulate(first.data(), kBytes, MPI_BYTE, next(), 0, kBytes, MPI_BYTE, MPI_REPLACE, window.get());
      MPI_Accumulate(last.data(), 100, MPI_BYTE, next(), 777 * turn, 100, MPI_BYTE, MPI_REPLACE, window.get());
      MPI_Get_accumulate(nullptr, 0, MPI_BYTE, seen.data(), 100, MPI_BYTE, next(), 777 * turn, 100, MPI_BYTE, MPI_NO_OP,
                         window.get());
      MPI_Win_unlock(next(), window.get());
      expect_bytes("MPI_Get_accumulate behind accumulates", seen.now(), bytes_of(g_rank, g_round + 1000, 100));
      barrier();
      window.expect_model("accumulates in order");
      barrier();
    }
  }
}

// Every old value of a counter is seen once.
void counters(Kinds kinds) {
  constexpr int kTurns = 11, kCounters = 5;
  Window window(kinds, kCounters * sizeof(long), sizeof(long));
  const int target = 0;
  if (has_memory(kinds, g_rank)) std::fill(window.model().begin(), window.model().end(), 0), window.store();
  barrier();
  std::vector<long> seen;
  const long one[kCounters] = {1, 1, 1, 1, 1};
  const Where where = origin_of(++g_round);
  Memory add(where, sizeof one), old(where, sizeof one);
  add.write(one);
  MPI_Win_lock_all(0, window.get());
  for (int turn = 0; turn < kTurns; ++turn) {
    long now[kCounters] = {};
    if (turn % 2) {
      MPI_Fetch_and_op(add.at(0), old.at(0), MPI_LONG, target, 0, MPI_SUM, window.get());
    } else {
      MPI_Get_accumulate(add.at(0), kCounters, MPI_LONG, old.at(0), kCounters, MPI_LONG, target, 0, kCounters, MPI_LONG,
                         MPI_SUM, window.get());
    }
    MPI_Win_flush(target, window.get());
    old.read(now);
    seen.push_back(now[0]);
  }
  MPI_Win_unlock_all(window.get());
  std::vector<long> all(static_cast<size_t>(g_size * kTurns));
  MPI_Allgather(seen.data(), kTurns, MPI_LONG, all.data(), kTurns, MPI_LONG, MPI_COMM_WORLD);
  std::sort(all.begin(), all.end());
  for (int i = 0; i < g_size * kTurns; ++i)
    if (!checked(all[static_cast<size_t>(i)] == i))
      fail("a counter in %s: %ld is not %d", name_of(kinds), all[static_cast<size_t>(i)], i);
}

// Reads, and adds to, a number that a lock protects; the lock is MPI's, or one that MPI_Compare_and_swap takes.
void add_to(MPI_Win win, int target, int place) {
  int value = -1;
  MPI_Get(&value, 1, MPI_INT, target, place, 1, MPI_INT, win);
  MPI_Win_flush(target, win);
  ++value;
  MPI_Put(&value, 1, MPI_INT, target, place, 1, MPI_INT, win);
  MPI_Win_flush(target, win);
}

void take_swap_lock(MPI_Win win, int target, Memory& mine, Memory& none, Memory& old) {
  for (int found = 1; found != 0;) {
    MPI_Compare_and_swap(mine.at(0), none.at(0), old.at(0), MPI_INT, target, 0, win);
    MPI_Win_flush(target, win);
    old.read(&found);
  }
}

void locks(Kinds kinds) {
  constexpr int kTurns = 9;
  Window window(kinds, 64, 4);
  if (has_memory(kinds, g_rank)) std::fill(window.model().begin(), window.model().end(), 0), window.store();
  const int target = 0, own = g_rank + 1, zero = 0;
  const Where where = origin_of(++g_round);
  Memory mine(where, 4), none(where, 4), old(where, 4);
  mine.write(&own);
  none.write(&zero);
  barrier();
  for (int turn = 0; turn < kTurns; ++turn) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window.get());
    add_to(window.get(), target, 1);
    MPI_Win_unlock(target, window.get());
  }
  MPI_Win_lock_all(0, window.get());
  for (int turn = 0; turn < kTurns; ++turn) {
    take_swap_lock(window.get(), target, mine, none, old);
    add_to(window.get(), target, 2);
    MPI_Accumulate(none.at(0), 1, MPI_INT, target, 0, 1, MPI_INT, MPI_REPLACE, window.get());
  }
  MPI_Win_unlock_all(window.get());
  barrier();
  if (g_rank == target) {
    const int should[] = {0, g_size * kTurns, g_size * kTurns};
    std::memcpy(window.model().data(), should, sizeof should);
  }
  window.expect_model(std::string("numbers under locks in ") + name_of(kinds));
  barrier();
}

void all() {
  transfers();
  accumulates();
  accumulates_in_order();
  for (const Kinds kinds : kKinds) {
    counters(kinds);
    locks(kinds);
  }
}

}  // namespace

int main(int argc, char** argv) { return main_of(argc, argv, "device_windows", all, all); }
