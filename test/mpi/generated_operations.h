// Operations of the generated test: each type and operation of MPI that go together, what an element holds, and what
// the operation makes of two. Values are such that every order of the ranks gives the same, but for the user's
// operation that does not commute.
//
// Thread safety: none. Ownership: Operations owns the user's operations.
#pragma once
#include <complex>
#include <limits>
#include <map>
#include <type_traits>

#include "generated_case.h"

namespace generated {

struct Operation {
  std::string name;
  Base base;  // what an element consists of, `units` times
  int units;  // more than one: a derived type of the user's operations
  MPI_Op op;
  std::function<void(uint64_t random, void* element)> value;
  std::function<void(const void* a, void* b)> combine;  // b = a op b
};

template <class T>
std::function<void(const void*, void*)> on(T (*f)(T, T)) {
  return [f](const void* a, void* b) {
    T x, y;
    std::memcpy(static_cast<void*>(&x), a, sizeof x);
    std::memcpy(static_cast<void*>(&y), b, sizeof y);
    y = f(x, y);
    std::memcpy(b, static_cast<void*>(&y), sizeof y);
  };
}
template <class T>
std::function<void(uint64_t, void*)> as(T (*f)(uint64_t)) {
  return [f](uint64_t random, void* element) {
    T x = f(random);
    std::memcpy(element, static_cast<void*>(&x), sizeof x);
  };
}

// Small whole numbers and powers of two, of which sums and products are exact.
template <class T>
T any(uint64_t x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(x);
  return static_cast<T>(static_cast<int>(x % 201) - 100);
}
// Open MPI has no sign for MPI_OFFSET.
template <class T>
T positive(uint64_t x) {
  return static_cast<T>(x >> 1);
}
template <class T>
T power(uint64_t x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(x);
  const T values[] = {T(1), T(2), T(-1), T(-0.5), T(-2), T(0.5)};
  return values[x % 6];
}
template <class T>
T often_zero(uint64_t x) {
  return x % 3 == 0 ? T(0) : static_cast<T>(x % 5 + (sizeof(T) > 1 ? 256 : 0));
}
template <class T>
T zero_or_one(uint64_t x) {
  return static_cast<T>(x % 2);
}

template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  return a + b;
}
template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  return a * b;
}

template <class T, class I>
struct Located {
  T value;
  I index;
};

class Operations {
 public:
  Operations() {
    MPI_Op_create(add_words, 1, &user_sum_);
    MPI_Op_create(compose_maps, 0, &user_compose_);
    integers();
    others();
    users();
  }
  Operations(const Operations&) = delete;
  ~Operations() {
    MPI_Op_free(&user_sum_);
    MPI_Op_free(&user_compose_);
  }

  std::vector<Operation> all;
  // What the user's functions must know of the types they are called with.
  static inline std::map<MPI_Datatype, Shape> shapes;

 private:
  template <class T>
  void take(const char* name, MPI_Datatype type, const char* op_name, MPI_Op op, T (*value)(uint64_t), T (*f)(T, T)) {
    Base base = plain(name, type);
    if (std::is_same_v<T, long double>) {
      base.shape.pieces[0].bytes = 10;
      base.shape.open = {{10, 6}};
    }
    alignas(16) char a[64] = {}, b[64] = {};
    if (MPI_Reduce_local(a, b, 1, type, op) != MPI_SUCCESS) return;  // this MPI does not know it
    all.push_back({std::string(name) + " " + op_name, base, 1, op, as(value), on(f)});
  }
  template <class T>
  void arithmetic(const char* name, MPI_Datatype type) {
    take<T>(name, type, "sum", MPI_SUM, any<T>, add<T>);
    take<T>(name, type, "product", MPI_PROD, power<T>, multiply<T>);
  }
  template <class T>
  void ordered(const char* name, MPI_Datatype type, T (*value)(uint64_t)) {
    take<T>(name, type, "maximum", MPI_MAX, value, [](T a, T b) { return std::max(a, b); });
    take<T>(name, type, "minimum", MPI_MIN, value, [](T a, T b) { return std::min(a, b); });
  }
  template <class T>
  void logical(const char* name, MPI_Datatype type, T (*value)(uint64_t)) {
    take<T>(name, type, "logical and", MPI_LAND, value, [](T a, T b) { return static_cast<T>(a && b); });
    take<T>(name, type, "logical or", MPI_LOR, value, [](T a, T b) { return static_cast<T>(a || b); });
    take<T>(name, type, "logical xor", MPI_LXOR, value, [](T a, T b) { return static_cast<T>(!a != !b); });
  }
  template <class T>
  void bitwise(const char* name, MPI_Datatype type) {
    take<T>(name, type, "and", MPI_BAND, any<T>, [](T a, T b) { return static_cast<T>(a & b); });
    take<T>(name, type, "or", MPI_BOR, any<T>, [](T a, T b) { return static_cast<T>(a | b); });
    take<T>(name, type, "xor", MPI_BXOR, any<T>, [](T a, T b) { return static_cast<T>(a ^ b); });
  }
  template <class T>
  void integer(const char* name, MPI_Datatype type, T (*value)(uint64_t) = any<T>) {
    arithmetic<T>(name, type);
    ordered<T>(name, type, value);
    logical<T>(name, type, often_zero<T>);
    bitwise<T>(name, type);
  }
  template <class T>
  void real(const char* name, MPI_Datatype type) {
    arithmetic<T>(name, type);
    ordered<T>(name, type, any<T>);
  }
  template <class T>
  void complex(const char* name, MPI_Datatype type) {
    using C = std::complex<T>;
    take<C>(
        name, type, "sum", MPI_SUM, [](uint64_t x) { return C(any<T>(x), any<T>(x >> 20)); },
        [](C a, C b) { return a + b; });
    take<C>(
        name, type, "product", MPI_PROD,
        // No zeros in the real part: the sign of a product's would tell in which order it was taken.
        [](uint64_t x) { return C(static_cast<T>(x % 2 + 1), static_cast<T>(x >> 20 & 1)); },
        [](C a, C b) { return a * b; });
  }
  template <class T, class I>
  void located(const char* name, MPI_Datatype type);

  void integers();
  void others();
  void users();
  static void add_words(void* in, void* inout, int* count, MPI_Datatype* type);
  static void compose_maps(void* in, void* inout, int* count, MPI_Datatype* type);

  MPI_Op user_sum_, user_compose_;
};

#define GC_TYPE(name) #name, MPI_##name
inline void Operations::integers() {
  integer<char>(GC_TYPE(CHAR));
  integer<signed char>(GC_TYPE(SIGNED_CHAR));
  integer<unsigned char>(GC_TYPE(UNSIGNED_CHAR));
  integer<short>(GC_TYPE(SHORT));
  integer<unsigned short>(GC_TYPE(UNSIGNED_SHORT));
  integer<int>(GC_TYPE(INT));
  integer<unsigned>(GC_TYPE(UNSIGNED));
  integer<long>(GC_TYPE(LONG));
  integer<unsigned long>(GC_TYPE(UNSIGNED_LONG));
  integer<long long>(GC_TYPE(LONG_LONG));
  integer<unsigned long long>(GC_TYPE(UNSIGNED_LONG_LONG));
  integer<int8_t>(GC_TYPE(INT8_T));
  integer<uint8_t>(GC_TYPE(UINT8_T));
  integer<int16_t>(GC_TYPE(INT16_T));
  integer<uint16_t>(GC_TYPE(UINT16_T));
  integer<int32_t>(GC_TYPE(INT32_T));
  integer<uint32_t>(GC_TYPE(UINT32_T));
  integer<int64_t>(GC_TYPE(INT64_T));
  integer<uint64_t>(GC_TYPE(UINT64_T));
  integer<MPI_Aint>(GC_TYPE(AINT));
  integer<MPI_Offset>(GC_TYPE(OFFSET), positive<MPI_Offset>);
  integer<MPI_Count>(GC_TYPE(COUNT));
}

inline void Operations::others() {
  bitwise<uint8_t>(GC_TYPE(BYTE));
  logical<uint8_t>(GC_TYPE(C_BOOL), zero_or_one<uint8_t>);
  real<float>(GC_TYPE(FLOAT));
  real<double>(GC_TYPE(DOUBLE));
  real<long double>(GC_TYPE(LONG_DOUBLE));
  complex<float>(GC_TYPE(C_FLOAT_COMPLEX));
  complex<double>(GC_TYPE(C_DOUBLE_COMPLEX));
  located<float, int>(GC_TYPE(FLOAT_INT));
  located<double, int>(GC_TYPE(DOUBLE_INT));
  located<long, int>(GC_TYPE(LONG_INT));
  located<short, int>(GC_TYPE(SHORT_INT));
  located<int, int>(GC_TYPE(2INT));
#ifdef OMPI_HAVE_FORTRAN_INTEGER4
  integer<int>(GC_TYPE(INTEGER));
  real<float>(GC_TYPE(REAL));
  real<double>(GC_TYPE(DOUBLE_PRECISION));
  complex<float>(GC_TYPE(COMPLEX));
  logical<int>(GC_TYPE(LOGICAL), zero_or_one<int>);
  located<int, int>(GC_TYPE(2INTEGER));
  located<float, float>(GC_TYPE(2REAL));
  located<double, double>(GC_TYPE(2DOUBLE_PRECISION));
#endif
}
#undef GC_TYPE

// Few values, so that the index decides often.
template <class T, class I>
void Operations::located(const char* name, MPI_Datatype type) {
  using P = Located<T, I>;
  const Base base = pair<T, I>(name, type);
  // An element is its pieces one after the other.
  auto value = [](uint64_t x, void* element) {
    const T v = static_cast<T>(static_cast<int>(x % 5) - 2);
    const I i = static_cast<I>(x >> 20 & 0xff);
    std::memcpy(element, &v, sizeof v);
    std::memcpy(static_cast<char*>(element) + sizeof v, &i, sizeof i);
  };
  auto read = [](const void* from) {
    P p;
    std::memcpy(&p.value, from, sizeof(T));
    std::memcpy(&p.index, static_cast<const char*>(from) + sizeof(T), sizeof(I));
    return p;
  };
  for (const bool greatest : {true, false}) {
    auto combine = [read, greatest](const void* a, void* b) {
      const P x = read(a), y = read(b);
      const bool first = x.value == y.value ? x.index < y.index : (x.value > y.value) == greatest;
      if (first) std::memcpy(b, a, sizeof(T) + sizeof(I));
    };
    all.push_back({std::string(name) + (greatest ? " maxloc" : " minloc"), base, 1, greatest ? MPI_MAXLOC : MPI_MINLOC,
                   value, combine});
  }
}

// ---- the user's: on elements of two words, wherever the type puts them ----

inline void Operations::add_words(void* in, void* inout, int* count, MPI_Datatype* type) {
  const Shape& shape = shapes.at(*type);
  for (int i = 0; i < *count; i++)
    for (Piece p : shape.pieces) {
      const ptrdiff_t at = i * shape.extent() + p.at;
      *reinterpret_cast<uint32_t*>(static_cast<char*>(inout) + at) +=
          *reinterpret_cast<uint32_t*>(static_cast<char*>(in) + at);
    }
}

// Words a and b as the map x -> a x + b, one after the other: associative, but the order of the ranks is seen.
inline void compose(uint32_t a, uint32_t b, uint32_t& c, uint32_t& d) {
  d += b * c;
  c *= a;
}
inline void Operations::compose_maps(void* in, void* inout, int* count, MPI_Datatype* type) {
  const Shape& shape = shapes.at(*type);
  for (int i = 0; i < *count; i++) {
    uint32_t* word[4];
    for (int w = 0; w < 4; w++) {
      const ptrdiff_t at = i * shape.extent() + shape.pieces[static_cast<size_t>(w % 2)].at;
      word[w] = reinterpret_cast<uint32_t*>(static_cast<char*>(w < 2 ? in : inout) + at);
    }
    compose(*word[0], *word[1], *word[2], *word[3]);
  }
}

inline void Operations::users() {
  auto value = [](uint64_t x, void* element) { std::memcpy(element, &x, 8); };
  const Base word = plain("UINT32_T", MPI_UINT32_T);
  auto sum = [](const void* a, void* b) {
    uint32_t x[2], y[2];
    std::memcpy(x, a, 8);
    std::memcpy(y, b, 8);
    for (int w = 0; w < 2; w++) y[w] += x[w];
    std::memcpy(b, y, 8);
  };
  auto composed = [](const void* a, void* b) {
    uint32_t x[2], y[2];
    std::memcpy(x, a, 8);
    std::memcpy(y, b, 8);
    compose(x[0], x[1], y[0], y[1]);
    std::memcpy(b, y, 8);
  };
  for (int often = 0; often < 12; often++) {
    all.push_back({"a user's sum", word, 2, user_sum_, value, sum});
    all.push_back({"a user's composition", word, 2, user_compose_, value, composed});
  }
}

}  // namespace generated
