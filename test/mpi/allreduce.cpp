// MPI_Allreduce on device memory: every predefined type with every operation that MPI defines for it, in place or not,
// counts 0, 1, odd and large, against a reduction of the same numbers done here. Also the types and operations that go
// through the host: long double, user-defined.
//
// Numbers are chosen so that every order of reduction gives the same bits: any order is right, a wrong element is not.
#include <complex>
#include <cwchar>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

struct Run {
  std::string name;
  MPI_Datatype type;
  MPI_Op op;
};

const int kCounts[] = {0, 1, 2, 3, 17, 1023, 4099, 100003};

bool wanted(int count, bool long_run) { return count <= 4099 || long_run; }

// The same call on every rank, from `value(rank, index)`, and its result from `reduce(a, b)` in the order of the ranks.
// Elements are compared with `same`, which looks past padding.
template <class T, class Value, class Reduce, class Same>
void check(const Run& run, Value value, Reduce reduce, Same same, bool long_run = false) {
  for (int count : kCounts) {
    if (!wanted(count, long_run)) continue;
    std::vector<T> mine(static_cast<size_t>(count)), expected(mine), got(mine), poison(mine);
    for (size_t i = 0; i < mine.size(); i++) {
      mine[i] = value(g_rank, i);
      expected[i] = value(0, i);
      for (int r = 1; r < g_size; r++) expected[i] = reduce(expected[i], value(r, i));
    }
    if (count > 0) std::memset(static_cast<void*>(poison.data()), 0xa5, mine.size() * sizeof(T));
    for (bool in_place : {false, true}) {
      Memory send(Where::device, mine.size() * sizeof(T)), recv(Where::device, mine.size() * sizeof(T));
      send.write(mine.data());
      recv.write(in_place ? mine.data() : poison.data());
      const int rc =
          MPI_Allreduce(in_place ? MPI_IN_PLACE : send.at(0), recv.at(0), count, run.type, run.op, MPI_COMM_WORLD);
      recv.read(got.data());
      if (!checked(rc == MPI_SUCCESS)) fail("%s, count %d: error %d", run.name.c_str(), count, rc);
      for (size_t i = 0; i < mine.size(); i++) {
        if (checked(same(got[i], expected[i]))) continue;
        fail("%s, count %d%s: element %zu is wrong", run.name.c_str(), count, in_place ? ", in place" : "", i);
        break;
      }
      send.read(got.data());
      if (!checked(mine.empty() || std::memcmp(got.data(), mine.data(), mine.size() * sizeof(T)) == 0))
        fail("%s, count %d: the send buffer has changed", run.name.c_str(), count);
    }
  }
}

struct Named {
  const char* name;
  MPI_Op op;
};
const Named kArithmetic[] = {{"sum", MPI_SUM}, {"prod", MPI_PROD}, {"max", MPI_MAX}, {"min", MPI_MIN}};
const Named kBits[] = {{"band", MPI_BAND}, {"bor", MPI_BOR}, {"bxor", MPI_BXOR}};
const Named kLogic[] = {{"land", MPI_LAND}, {"lor", MPI_LOR}, {"lxor", MPI_LXOR}};

Run run_of(const char* type_name, MPI_Datatype type, const Named& op) {
  return {std::string(type_name) + " " + op.name, type, op.op};
}

// Two's complement, as MPI's own on every machine that there is: signed overflow wraps around.
template <class T>
T apply(MPI_Op op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (op == MPI_SUM) return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  if (op == MPI_PROD) return static_cast<T>(static_cast<U>(uint64_t{static_cast<U>(a)} * uint64_t{static_cast<U>(b)}));
  if (op == MPI_MAX) return a > b ? a : b;
  if (op == MPI_MIN) return a < b ? a : b;
  if (op == MPI_BAND) return static_cast<T>(a & b);
  if (op == MPI_BOR) return static_cast<T>(a | b);
  if (op == MPI_BXOR) return static_cast<T>(a ^ b);
  if (op == MPI_LAND) return a && b;
  if (op == MPI_LOR) return a || b;
  return static_cast<T>(!a != !b);
}

// Integers of type T as MPI's `type`, with all ops of a list.
template <class T, size_t N>
void check_integers(const char* name, MPI_Datatype type, const Named (&ops)[N]) {
  for (const Named& op : ops) {
    const bool logic = op.op == MPI_LAND || op.op == MPI_LOR || op.op == MPI_LXOR;
    auto value = [logic](int rank, size_t i) {
      const uint64_t x = mix(1, static_cast<uint64_t>(rank), i);
      return static_cast<T>(logic ? (x % 4 != 0) * (x >> 8 & 0x7f) : x);
    };
    auto reduce = [op](T a, T b) { return apply<T>(op.op, a, b); };
    // A lone rank's value is copied; otherwise logic gives 0 or 1.
    auto same = [logic](T got, T expected) { return logic ? !got == !expected : got == expected; };
    check<T>(run_of(name, type, op), value, reduce, same, type == MPI_CHAR || type == MPI_INT);
  }
}

template <class T>
void check_all_integer_ops(const char* name, MPI_Datatype type) {
  check_integers<T>(name, type, kArithmetic);
  check_integers<T>(name, type, kBits);
  check_integers<T>(name, type, kLogic);
}

// Small integers for sums, signs and powers of two for products: exact in every order.
template <class T>
T real_value(MPI_Op op, int rank, size_t i) {
  const uint64_t x = mix(2, static_cast<uint64_t>(rank), i);
  if (op == MPI_PROD) return static_cast<T>(x & 1 ? -1 : 1) * static_cast<T>(x & 2 ? 2 : 0.5);
  return static_cast<T>(static_cast<int>(x % 2001) - 1000) / 4;
}

template <class T>
void check_reals(const char* name, MPI_Datatype type) {
  for (const Named& op : kArithmetic) {
    auto value = [op](int rank, size_t i) { return real_value<T>(op.op, rank, i); };
    auto reduce = [op](T a, T b) {
      return op.op == MPI_SUM ? a + b : op.op == MPI_PROD ? a * b : op.op == MPI_MAX ? std::max(a, b) : std::min(a, b);
    };
    check<T>(
        run_of(name, type, op), value, reduce, [](T a, T b) { return a == b; }, type == MPI_DOUBLE);
  }
}

template <class T>
void check_complex(const char* name, MPI_Datatype type) {
  using C = std::complex<T>;
  const C units[4] = {{1, 0}, {0, 1}, {-1, 0}, {0, -2}};
  for (const Named& op : {kArithmetic[0], kArithmetic[1]}) {
    auto value = [op, &units](int rank, size_t i) {
      const uint64_t x = mix(3, static_cast<uint64_t>(rank), i);
      return op.op == MPI_PROD ? units[x % 4] : C(static_cast<T>(x % 100), static_cast<T>(x / 100 % 100));
    };
    auto reduce = [op](C a, C b) {
      if (op.op == MPI_SUM) return a + b;
      return C(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    };
    check<C>(run_of(name, type, op), value, reduce, [](C a, C b) { return a == b; });
  }
}

template <class V, class I>
void check_pairs(const char* name, MPI_Datatype type) {
  struct Pair {
    V value;
    I index;
  };
  for (const Named& op : {Named{"maxloc", MPI_MAXLOC}, Named{"minloc", MPI_MINLOC}}) {
    auto value = [](int rank, size_t i) {  // few values: equal ones decide by the index
      const uint64_t x = mix(4, static_cast<uint64_t>(rank), i);
      Pair pair{};
      pair.value = static_cast<V>(static_cast<int>(x % 5) - 2);
      pair.index = static_cast<I>(x >> 16 & 0xfff);
      return pair;
    };
    auto reduce = [op](Pair a, Pair b) {
      if (a.value == b.value) return a.index < b.index ? a : b;
      return (op.op == MPI_MAXLOC) == (a.value > b.value) ? a : b;
    };
    check<Pair>(run_of(name, type, op), value, reduce,
                [](Pair a, Pair b) { return a.value == b.value && a.index == b.index; });
  }
}

void check_c_types() {
  check_all_integer_ops<signed char>("char", MPI_CHAR);
  check_all_integer_ops<signed char>("signed char", MPI_SIGNED_CHAR);
  check_all_integer_ops<unsigned char>("unsigned char", MPI_UNSIGNED_CHAR);
  check_all_integer_ops<short>("short", MPI_SHORT);
  check_all_integer_ops<unsigned short>("unsigned short", MPI_UNSIGNED_SHORT);
  check_all_integer_ops<int>("int", MPI_INT);
  check_all_integer_ops<unsigned>("unsigned", MPI_UNSIGNED);
  check_all_integer_ops<long>("long", MPI_LONG);
  check_all_integer_ops<unsigned long>("unsigned long", MPI_UNSIGNED_LONG);
  check_all_integer_ops<long long>("long long", MPI_LONG_LONG);
  check_all_integer_ops<unsigned long long>("unsigned long long", MPI_UNSIGNED_LONG_LONG);
  check_all_integer_ops<int8_t>("int8_t", MPI_INT8_T);
  check_all_integer_ops<uint8_t>("uint8_t", MPI_UINT8_T);
  check_all_integer_ops<int16_t>("int16_t", MPI_INT16_T);
  check_all_integer_ops<uint16_t>("uint16_t", MPI_UINT16_T);
  check_all_integer_ops<int32_t>("int32_t", MPI_INT32_T);
  check_all_integer_ops<uint32_t>("uint32_t", MPI_UINT32_T);
  check_all_integer_ops<int64_t>("int64_t", MPI_INT64_T);
  check_all_integer_ops<uint64_t>("uint64_t", MPI_UINT64_T);
  check_integers<unsigned char>("byte", MPI_BYTE, kBits);
  check_integers<unsigned char>("bool", MPI_C_BOOL, kLogic);
  check_integers<int64_t>("aint", MPI_AINT, kBits);
  check_integers<int64_t>("aint", MPI_AINT, kArithmetic);
  check_integers<int64_t>("count", MPI_COUNT, kArithmetic);
  check_integers<int64_t>("offset", MPI_OFFSET, kBits);
  check_reals<float>("float", MPI_FLOAT);
  check_reals<double>("double", MPI_DOUBLE);
  check_reals<long double>("long double", MPI_LONG_DOUBLE);
  check_complex<float>("float complex", MPI_C_FLOAT_COMPLEX);
  check_complex<double>("double complex", MPI_C_DOUBLE_COMPLEX);
  check_complex<long double>("long double complex", MPI_C_LONG_DOUBLE_COMPLEX);
  check_pairs<float, int>("float_int", MPI_FLOAT_INT);
  check_pairs<double, int>("double_int", MPI_DOUBLE_INT);
  check_pairs<long, int>("long_int", MPI_LONG_INT);
  check_pairs<int, int>("2int", MPI_2INT);
  check_pairs<short, int>("short_int", MPI_SHORT_INT);
  check_pairs<long double, int>("long_double_int", MPI_LONG_DOUBLE_INT);
}

// Only where MPI was built with a Fortran compiler: otherwise the handles are null.
void check_fortran_types() {
  int size = 0;
  if (MPI_INTEGER == MPI_DATATYPE_NULL || MPI_Type_size(MPI_INTEGER, &size) != MPI_SUCCESS || size != 4) return;
  check_integers<int>("integer", MPI_INTEGER, kArithmetic);
  check_integers<int>("integer", MPI_INTEGER, kBits);
  check_integers<int>("logical", MPI_LOGICAL, kLogic);
  check_integers<int8_t>("integer1", MPI_INTEGER1, kArithmetic);
  check_integers<int16_t>("integer2", MPI_INTEGER2, kArithmetic);
  check_integers<int>("integer4", MPI_INTEGER4, kArithmetic);
  check_integers<int64_t>("integer8", MPI_INTEGER8, kArithmetic);
  check_reals<float>("real", MPI_REAL);
  check_reals<float>("real4", MPI_REAL4);
  check_reals<double>("real8", MPI_REAL8);
  check_reals<double>("double precision", MPI_DOUBLE_PRECISION);
  check_complex<float>("complex", MPI_COMPLEX);
  check_complex<double>("double complex (Fortran)", MPI_DOUBLE_COMPLEX);
  check_pairs<int, int>("2integer", MPI_2INTEGER);
  check_pairs<float, float>("2real", MPI_2REAL);
  check_pairs<double, double>("2double precision", MPI_2DOUBLE_PRECISION);
}

// A map x -> a x + b; composing maps is associative and does not commute.
struct Map {
  uint32_t a, b;
};

void compose_maps(void* in, void* inout, int* count, MPI_Datatype*) {
  const Map* first = static_cast<const Map*>(in);
  Map* second = static_cast<Map*>(inout);
  for (int i = 0; i < *count; i++) second[i] = {first[i].a * second[i].a, first[i].b * second[i].a + second[i].b};
}

void check_user_operation() {
  MPI_Datatype type;
  MPI_Op op;
  MPI_Type_contiguous(2, MPI_UINT32_T, &type);
  MPI_Type_commit(&type);
  MPI_Op_create(compose_maps, 0, &op);
  auto value = [](int rank, size_t i) {
    return Map{static_cast<uint32_t>(mix(5, static_cast<uint64_t>(rank), i)),
               static_cast<uint32_t>(mix(6, static_cast<uint64_t>(rank), i))};
  };
  auto reduce = [](Map f, Map g) { return Map{f.a * g.a, f.b * g.a + g.b}; };
  check<Map>({"a user's operation", type, op}, value, reduce, [](Map f, Map g) { return f.a == g.a && f.b == g.b; });
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  check_c_types();
  check_fortran_types();
  check_user_operation();
  return mpi.finish("allreduce");
}
