#include "perf/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "perf/small_floats.h"

namespace gpucoll::perf {
namespace {

template <class T>
constexpr bool is_complex = false;
template <class T>
constexpr bool is_complex<std::complex<T>> = true;
template <class T>
constexpr bool is_pair = false;
template <class V, class I>
constexpr bool is_pair<Pair<V, I>> = true;
template <class T>
constexpr bool is_real = std::is_floating_point_v<T>;
template <>
constexpr bool is_real<Float16> = true;
template <>
constexpr bool is_real<Bfloat16> = true;
// Whole numbers of so many bits, at least, are exact.
template <class T>
constexpr int exact_bits = 24;
template <>
constexpr int exact_bits<Float16> = 11;
template <>
constexpr int exact_bits<Bfloat16> = 8;
// Powers of two up to 2^exact_power are.
template <class T>
constexpr int exact_power = 32;
template <>
constexpr int exact_power<Float16> = 14;

// A cheap mixer: every bit of the result depends on every bit of x.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 29)) * 0x9e3779b97f4a7c15ull;
  return x ^ (x >> 32);
}

// Calls f with a null pointer to the C++ type that stands for `type`.
template <class F>
auto dispatch(Type type, F&& f) {
  switch (type) {
    case Type::int8: return f(static_cast<int8_t*>(nullptr));
    case Type::int16: return f(static_cast<int16_t*>(nullptr));
    case Type::int32: return f(static_cast<int32_t*>(nullptr));
    case Type::int64: return f(static_cast<int64_t*>(nullptr));
    case Type::uint8: return f(static_cast<uint8_t*>(nullptr));
    case Type::uint16: return f(static_cast<uint16_t*>(nullptr));
    case Type::uint32: return f(static_cast<uint32_t*>(nullptr));
    case Type::uint64: return f(static_cast<uint64_t*>(nullptr));
    case Type::float16: return f(static_cast<Float16*>(nullptr));
    case Type::bfloat16: return f(static_cast<Bfloat16*>(nullptr));
    case Type::float32: return f(static_cast<float*>(nullptr));
    case Type::float64: return f(static_cast<double*>(nullptr));
    case Type::long_double: return f(static_cast<long double*>(nullptr));
    case Type::complex64: return f(static_cast<std::complex<float>*>(nullptr));
    case Type::complex128: return f(static_cast<std::complex<double>*>(nullptr));
    case Type::boolean: return f(static_cast<bool*>(nullptr));
    case Type::byte: return f(static_cast<uint8_t*>(nullptr));
    case Type::float_int: return f(static_cast<Pair<float, int>*>(nullptr));
    case Type::double_int: return f(static_cast<Pair<double, int>*>(nullptr));
    case Type::long_int: return f(static_cast<Pair<long, int>*>(nullptr));
    case Type::int_int: return f(static_cast<Pair<int, int>*>(nullptr));
    case Type::short_int: return f(static_cast<Pair<short, int>*>(nullptr));
    case Type::long_double_int: break;
  }
  return f(static_cast<Pair<long double, int>*>(nullptr));
}

// ---- generator: h is the element's random number

template <class T>
T nonzero(uint64_t h) {
  return static_cast<T>((h >> 8) | 1);
}

template <class T>
T small_sum_term(const Recipe& recipe, uint64_t h) {
  constexpr uint64_t top = static_cast<uint64_t>(std::numeric_limits<T>::max());
  uint64_t span = std::max<uint64_t>(1, top / static_cast<uint64_t>(recipe.ranks));
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(static_cast<int64_t>(h % (2 * span + 1)) - static_cast<int64_t>(span));
  return static_cast<T>(h % (span + 1));
}

template <class T>
T integer_value(const Recipe& recipe, int rank, uint64_t h) {
  bool full_range = recipe.may_wrap || sizeof(T) >= 4;
  uint64_t odds = static_cast<uint64_t>(recipe.ranks) + 1;  // one rank in about n+1 decides a logical operation
  switch (recipe.op) {
    case Op::sum: return full_range ? static_cast<T>(h) : small_sum_term<T>(recipe, h);
    case Op::prod: return full_range ? static_cast<T>(h | 1) : static_cast<T>(rank < 4 ? 1 + (h & 1) : 1);
    case Op::band: return static_cast<T>(h | (h >> 17) | (h >> 31));
    case Op::bor: return static_cast<T>(h & (h >> 17) & (h >> 31));
    case Op::land: return h % odds ? nonzero<T>(h) : T{0};
    case Op::lor: return h % odds ? T{0} : nonzero<T>(h);
    case Op::lxor: return h & 1 ? nonzero<T>(h) : T{0};
    default: return static_cast<T>(h);
  }
}

// Of 16 magnitudes, with every bit of a double's fraction.
template <class T>
T inexact_value(uint64_t h) {
  const double magnitude = std::ldexp(1 + static_cast<double>(h >> 12) * 0x1p-52, static_cast<int>(h & 15) - 8);
  return static_cast<T>(h & 16 ? -magnitude : magnitude);
}

// So many bits that the sum over the ranks is exact.
template <class T>
int summand_bits(int ranks) {
  int bits = std::min(exact_bits<T>, 11);
  for (int n = 1; n < ranks && bits > 1 && exact_bits<T> < 24; n *= 2) --bits;
  return bits;
}

template <class T>
T real_value(const Recipe& recipe, int rank, uint64_t h) {
  if (recipe.inexact) return inexact_value<T>(h);
  auto centred = [h](int bits) {
    return static_cast<T>(static_cast<int64_t>(h & ((1ull << bits) - 1)) - (1ll << (bits - 1)));
  };
  if (!recipe.reduces) return centred(exact_bits<T>);
  if (recipe.op == Op::sum) return centred(summand_bits<T>(recipe.ranks));
  if (recipe.op != Op::prod) return centred(std::min(exact_bits<T>, 21));
  T magnitude{1};
  if (rank < exact_power<T>) magnitude = (h & 6) == 2 ? T{2} : (h & 6) == 4 ? T{0.5} : T{1};
  return h & 1 ? static_cast<T>(-magnitude) : magnitude;
}

template <class T>
std::complex<T> complex_value(const Recipe& recipe, int rank, uint64_t h) {
  if (recipe.inexact) return {inexact_value<T>(h), inexact_value<T>(mix(h))};
  if (!recipe.reduces || recipe.op != Op::prod)
    return {real_value<T>(recipe, rank, h), real_value<T>(recipe, rank, h >> 24)};
  T factor = real_value<T>(recipe, rank, h);
  return h & 64 ? std::complex<T>{factor, 0} : std::complex<T>{0, factor};
}

template <class T>
T make(const Recipe& recipe, int rank, uint64_t h) {
  if constexpr (is_pair<T>) {
    T pair{};
    pair.value = static_cast<decltype(pair.value)>(static_cast<int>(h % 5) - 2);  // few values: ties are frequent
    pair.index = static_cast<decltype(pair.index)>((h >> 16) % 1000);
    return pair;
  } else if constexpr (is_complex<T>) {
    return complex_value<typename T::value_type>(recipe, rank, h);
  } else if constexpr (is_real<T>) {
    return real_value<T>(recipe, rank, h);
  } else if constexpr (std::is_same_v<T, bool>) {
    return recipe.reduces ? integer_value<uint32_t>(recipe, rank, h) != 0 : (h & 1) != 0;
  } else {
    return recipe.reduces ? integer_value<T>(recipe, rank, h) : static_cast<T>(h);
  }
}

// ---- reference

template <class T, class F>
void apply(const void* in, void* inout, size_t count, F&& f) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (size_t i = 0; i < count; ++i) b[i] = f(a[i], b[i]);
}

template <class T>
void combine_pairs(Op op, const void* in, void* inout, size_t count) {
  bool want_max = op == Op::maxloc;
  apply<T>(in, inout, count, [want_max](const T& a, const T& b) {
    if (a.value == b.value) return a.index < b.index ? a : b;
    return (a.value > b.value) == want_max ? a : b;
  });
}

// Two's complement wrap-around without the undefined behaviour of signed overflow.
template <class T>
T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return static_cast<T>(a + b);
}
template <class T>
T wrapping_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return static_cast<T>(a * b);
}

template <class T>
void combine_integers(Op op, const void* in, void* inout, size_t count) {
  switch (op) {
    case Op::band: return apply<T>(in, inout, count, [](T a, T b) { return static_cast<T>(a & b); });
    case Op::bor: return apply<T>(in, inout, count, [](T a, T b) { return static_cast<T>(a | b); });
    case Op::bxor: return apply<T>(in, inout, count, [](T a, T b) { return static_cast<T>(a ^ b); });
    case Op::land: return apply<T>(in, inout, count, [](T a, T b) { return static_cast<T>(a && b); });
    case Op::lor: return apply<T>(in, inout, count, [](T a, T b) { return static_cast<T>(a || b); });
    default: return apply<T>(in, inout, count, [](T a, T b) { return static_cast<T>(!a != !b); });
  }
}

template <class T>
void combine_typed(Op op, const void* in, void* inout, size_t count) {
  if constexpr (is_pair<T>) {
    combine_pairs<T>(op, in, inout, count);
  } else {
    if (op == Op::sum) return apply<T>(in, inout, count, wrapping_add<T>);
    if (op == Op::prod) return apply<T>(in, inout, count, wrapping_multiply<T>);
    if constexpr (!is_complex<T>) {
      if (op == Op::max) return apply<T>(in, inout, count, [](T a, T b) { return std::max(a, b); });
      if (op == Op::min) return apply<T>(in, inout, count, [](T a, T b) { return std::min(a, b); });
    }
    if constexpr (std::is_integral_v<T>) combine_integers<T>(op, in, inout, count);
  }
}

// ---- comparison

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (is_pair<T>)
    return a.value == b.value && a.index == b.index;
  else if constexpr (std::is_same_v<T, bool>)
    return std::memcmp(&a, &b, 1) == 0;  // a poisoned bool is neither
  else
    return a == b;
}

// The bytes of a scalar that carry its value: the x87 long double is 10 bytes in 16.
template <class T>
constexpr size_t value_bytes = std::is_same_v<T, long double>&& std::numeric_limits<long double>::digits == 64
                                   ? 10
                                   : sizeof(T);

template <class T>
uint64_t hash_scalar(uint64_t hash, const T& value) {
  uint64_t words[2] = {0, 0};
  static_assert(sizeof value <= sizeof words);
  std::memcpy(words, &value, value_bytes<T>);
  return mix((hash + words[0]) ^ (words[1] << 7));
}

template <class T>
uint64_t hash_typed(uint64_t hash, const void* data, size_t count) {
  const T* element = static_cast<const T*>(data);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (is_pair<T>)
      hash = hash_scalar(hash_scalar(hash, element[i].value), element[i].index);
    else
      hash = hash_scalar(hash, element[i]);
  }
  return hash;
}

template <class T>
std::string show_typed(const T& v) {
  if constexpr (is_pair<T>)
    return fmt::format("({}, {})", v.value, v.index);
  else if constexpr (is_complex<T>)
    return fmt::format("{}{:+}i", v.real(), v.imag());
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
    return fmt::format("{}", static_cast<int>(reinterpret_cast<const T&>(v)));
  else if constexpr (is_real<T> && sizeof(T) == 2)
    return fmt::format("{}", static_cast<float>(v));
  else
    return fmt::format("{}", v);
}

}  // namespace

void generate(const Recipe& recipe, int rank, uint64_t first, size_t count, void* out) {
  uint64_t seed = mix(mix(recipe.run + 1) + static_cast<uint64_t>(rank));
  dispatch(recipe.type, [&]<class T>(T*) {
    T* element = static_cast<T*>(out);
    std::memset(out, 0, count * sizeof(T));
    for (size_t i = 0; i < count; ++i) element[i] = make<T>(recipe, rank, mix(seed + first + i));
  });
}

void combine(Type type, Op op, const void* in, void* inout, size_t count) {
  dispatch(type, [&]<class T>(T*) { combine_typed<T>(op, in, inout, count); });
}

size_t count_wrong(Type type, const void* got, const void* expected, size_t count, size_t* first) {
  return dispatch(type, [&]<class T>(T*) {
    const T* a = static_cast<const T*>(got);
    const T* b = static_cast<const T*>(expected);
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i)
      if (!same(a[i], b[i]) && wrong++ == 0) *first = i;
    return wrong;
  });
}

uint64_t hash_values(Type type, uint64_t hash, const void* data, size_t count) {
  return dispatch(type, [&]<class T>(T*) { return hash_typed<T>(hash, data, count); });
}

std::string show(Type type, const void* element) {
  if (type == Type::boolean) type = Type::uint8;  // a wrong bool may hold more than 0 or 1
  return dispatch(type, [&]<class T>(T*) { return show_typed(*static_cast<const T*>(element)); });
}

}  // namespace gpucoll::perf
