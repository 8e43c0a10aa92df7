#include "reference.h"

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace gpucoll_test {
namespace {

constexpr const char* kTypeNames[] = {
    "int8",     "uint8",    "int32",     "uint32",      "int64",         "uint64",      "float16",    "float32",
    "float64",  "bfloat16", "int16",     "uint16",      "complex64",     "complex128",  "float_int",  "double_int",
    "long_int", "int_int",  "short_int", "float_float", "double_double", "float8_e4m3", "float8_e5m2"};
static_assert(std::size(kTypeNames) == gpucollNumTypes);
constexpr const char* kOpNames[] = {"sum",  "prod", "max",  "min",    "band",   "bor", "bxor",
                                    "land", "lor",  "lxor", "maxloc", "minloc", "avg", "pre_mul_sum"};
static_assert(std::size(kOpNames) == kOps);

// A developer's short build (GPUCOLL_KERNEL_SUBSET) reduces elements of some types only.
bool in_this_build(int type) {
#if defined(GC_KERNEL_SUBSET)
#if defined(GC_KERNEL_SHARD_i32)
  if (type == gpucollInt32 || type == gpucollUint32) return true;
#endif
#if defined(GC_KERNEL_SHARD_f16)
  if (type == gpucollFloat16 || type == gpucollBfloat16) return true;
#endif
#if defined(GC_KERNEL_SHARD_f8)
  if (type == gpucollFloat8e4m3 || type == gpucollFloat8e5m2) return true;
#endif
#if defined(GC_KERNEL_SHARD_f32)
  if (type == gpucollFloat32) return true;
#endif
#if defined(GC_KERNEL_SHARD_f64)
  if (type == gpucollFloat64) return true;
#endif
  return false;
#else
  return type < gpucollNumTypes;
#endif
}

// Floats of 16 and 8 bits: `mantissa` stored bits, numbers rounded to nearest even. Enough for normal numbers and zero.
template <int mantissa, int bias, class Bits = uint16_t>
struct Small {
  static constexpr uint32_t kSign = 1u << (8 * sizeof(Bits) - 1);
  Bits bits = 0;
  Small() = default;
  Small(float value) {
    if (value == 0) return;
    int exponent = std::ilogb(value);
    const float quantum = std::ldexp(1.0f, exponent - mantissa);
    const float rounded = std::nearbyint(value / quantum) * quantum;
    exponent = std::ilogb(rounded);
    const auto fraction = static_cast<uint32_t>(std::ldexp(std::fabs(rounded), mantissa - exponent)) - (1u << mantissa);
    bits = static_cast<Bits>((std::signbit(rounded) ? kSign : 0u) | static_cast<uint32_t>(exponent + bias) << mantissa |
                             fraction);
  }
  operator float() const {
    const int exponent = static_cast<int>((bits & ~kSign) >> mantissa);
    const uint32_t fraction = bits & ((1u << mantissa) - 1);
    if (exponent == 0 && fraction == 0) return 0;
    const float value = std::ldexp(static_cast<float>(fraction + (1u << mantissa)), exponent - bias - mantissa);
    return bits & kSign ? -value : value;
  }
};
using Half = Small<10, 15>;
using Bfloat = Small<7, 127>;
using E4m3 = Small<3, 7, uint8_t>;
using E5m2 = Small<2, 15, uint8_t>;
// Those hold whole numbers up to 16 and 8 only.
template <class T>
constexpr bool kTiny = std::is_same_v<T, E4m3> || std::is_same_v<T, E5m2>;

template <class V, class I>
struct Located {
  V value;
  I index;
};

template <class T>
constexpr bool kLocated = false;
template <class V, class I>
constexpr bool kLocated<Located<V, I>> = true;
template <class T>
constexpr bool kComplex = false;
template <class T>
constexpr bool kComplex<std::complex<T>> = true;

// Calls body(T()) with the C++ type of `type`.
template <class Body>
auto with_type(int type, Body&& body) {
  switch (type) {
    case gpucollInt8: return body(int8_t());
    case gpucollUint8: return body(uint8_t());
    case gpucollInt16: return body(int16_t());
    case gpucollUint16: return body(uint16_t());
    case gpucollInt32: return body(int32_t());
    case gpucollUint32: return body(uint32_t());
    case gpucollInt64: return body(int64_t());
    case gpucollUint64: return body(uint64_t());
    case gpucollFloat16: return body(Half());
    case gpucollBfloat16: return body(Bfloat());
    case gpucollFloat8e4m3: return body(E4m3());
    case gpucollFloat8e5m2: return body(E5m2());
    case gpucollFloat32: return body(float());
    case gpucollFloat64: return body(double());
    case gpucollComplex64: return body(std::complex<float>());
    case gpucollComplex128: return body(std::complex<double>());
    case gpucollFloatInt: return body(Located<float, int32_t>());
    case gpucollDoubleInt: return body(Located<double, int32_t>());
    case gpucollLongInt: return body(Located<int64_t, int32_t>());
    case gpucollIntInt: return body(Located<int32_t, int32_t>());
    case gpucollShortInt: return body(Located<int16_t, int32_t>());
    case gpucollFloatFloat: return body(Located<float, float>());
    default: return body(Located<double, double>());
  }
}

// Elements lie at any address.
template <class T>
T load(const uint8_t* data, size_t i) {
  T value;
  std::memcpy(static_cast<void*>(&value), data + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store(uint8_t* data, size_t i, const T& value) {
  uint8_t* at = data + i * sizeof(T);
  if constexpr (kLocated<T>) {  // not the padding
    std::memcpy(at + offsetof(T, value), &value.value, sizeof value.value);
    std::memcpy(at + offsetof(T, index), &value.index, sizeof value.index);
  } else {
    std::memcpy(at, static_cast<const void*>(&value), sizeof(T));
  }
}

template <class T>
T combine_integers(int op, T a, T b) {
  using Wide = std::make_unsigned_t<std::common_type_t<T, int>>;
  const auto x = static_cast<Wide>(a), y = static_cast<Wide>(b);
  switch (op) {
    case gpucollProd: return static_cast<T>(x * y);
    case gpucollMax: return a > b ? a : b;
    case gpucollMin: return a < b ? a : b;
    case gpucollBand: return static_cast<T>(x & y);
    case gpucollBor: return static_cast<T>(x | y);
    case gpucollBxor: return static_cast<T>(x ^ y);
    case gpucollLand: return static_cast<T>(a && b);
    case gpucollLor: return static_cast<T>(a || b);
    case gpucollLxor: return static_cast<T>(!a != !b);
    default: return static_cast<T>(x + y);
  }
}

template <class T>
T combine(int op, T a, T b) {
  if constexpr (kLocated<T>) {
    if (a.value == b.value) return a.index < b.index ? a : b;
    return (op == gpucollMaxloc) == (a.value > b.value) ? a : b;
  } else if constexpr (kComplex<T>) {
    return op == gpucollProd ? T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real())
                             : a + b;
  } else if constexpr (std::is_integral_v<T>) {
    return combine_integers(op, a, b);
  } else {
    switch (op) {
      case gpucollProd: return a * b;
      case gpucollMax: return a > b ? a : b;
      case gpucollMin: return a < b ? a : b;
      default: return a + b;
    }
  }
}

template <class T>
T divided(T sum, size_t n) {
  if constexpr (kLocated<T>) {
    return sum;
  } else if constexpr (kComplex<T>) {
    const auto by = static_cast<typename T::value_type>(n);
    return T(sum.real() / by, sum.imag() / by);
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8 && std::is_unsigned_v<T>) {
    return sum / n;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(sum) / static_cast<int64_t>(n));
  } else if constexpr (std::is_same_v<T, double>) {
    return sum / static_cast<double>(n);
  } else {
    return T(static_cast<float>(sum) / static_cast<float>(n));
  }
}

template <class T>
T number(int value) {
  if constexpr (kLocated<T>) {
    return T{static_cast<decltype(T::value)>(value), static_cast<decltype(T::index)>(value)};
  } else {
    return T(static_cast<std::conditional_t<std::is_integral_v<T>, T, float>>(value));
  }
}

// One of a few values, so that equal ones meet.
template <class T>
T small_value(int op, uint64_t bits) {
  const int any = static_cast<int>(bits % 11) - 3, other = static_cast<int>(bits / 11 % 9) - 4;
  if constexpr (kLocated<T>) {
    return T{static_cast<decltype(T::value)>(any), static_cast<decltype(T::index)>(other)};
  } else if constexpr (kComplex<T>) {
    // Factors none of whose products has a zero, whose sign would depend on the order.
    constexpr int kFactors[][2] = {{2, 1}, {-1, 2}, {3, 2}, {4, 1}};
    using V = typename T::value_type;
    const auto& f = kFactors[bits % 4];
    return op == gpucollProd ? T(static_cast<V>(f[0]), static_cast<V>(f[1]))
                             : T(static_cast<V>(any), static_cast<V>(other));
  } else {
    constexpr float kFactors[] = {1, -1, 2, 0.5f, -2};
    if (op == gpucollProd) return T(kFactors[bits % (kTiny<T> ? 3 : 5)]);
    return T(static_cast<float>(kTiny<T> ? static_cast<int>(bits % 3) - 1 : any));
  }
}

}  // namespace

const char* type_name(int type) { return kTypeNames[type]; }
const char* op_name(int op) { return kOpNames[op]; }

bool is_integer(int type) {
  return with_type(type, [](auto zero) { return std::is_integral_v<decltype(zero)>; });
}

bool has_meaning(int type, int op) {
  return in_this_build(type) && with_type(type, [&](auto zero) {
           using T = decltype(zero);
           const bool sums = op == gpucollSum || op == gpucollProd || op == gpucollAvg || op == kPreMulSum;
           if (kLocated<T>) return op == gpucollMaxloc || op == gpucollMinloc;
           if (kComplex<T>) return sums;
           if (std::is_integral_v<T>) return op != gpucollMaxloc && op != gpucollMinloc;
           return sums || op == gpucollMax || op == gpucollMin;
         });
}

std::vector<uint8_t> scalar_of(int type, int rank) {
  return with_type(type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<uint8_t> bytes(sizeof(T));
    if constexpr (kComplex<T>) {
      store(bytes.data(), 0, T(static_cast<typename T::value_type>(rank % 3), -1));
    } else {
      store(bytes.data(), 0, number<T>(kTiny<T> ? 1 + (rank == 0) : rank % 3 + 1));
    }
    return bytes;
  });
}

void small_values(int type, int op, uint8_t* data, size_t count, std::mt19937_64& random) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      for (size_t i = 0; i < count; ++i) store(data, i, static_cast<T>(random()));  // any will do
    } else {
      for (size_t i = 0; i < count; ++i) store(data, i, small_value<T>(op, random() >> 11));
    }
  });
}

void reduce(int type, int op, const std::vector<const uint8_t*>& inputs, uint8_t* result, size_t count) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> scalars;
    for (size_t rank = 0; rank < inputs.size() && op == kPreMulSum; ++rank)
      scalars.push_back(load<T>(scalar_of(type, static_cast<int>(rank)).data(), 0));
    auto operand = [&](size_t rank, size_t i) {
      const T value = load<T>(inputs[rank], i);
      return op == kPreMulSum ? combine<T>(gpucollProd, value, scalars[rank]) : value;
    };
    for (size_t i = 0; i < count; ++i) {
      T all = operand(0, i);
      for (size_t rank = 1; rank < inputs.size(); ++rank) all = combine<T>(op, all, operand(rank, i));
      store(result, i, op == gpucollAvg ? divided(all, inputs.size()) : all);
    }
  });
}

std::string element_text(int type, const uint8_t* element) {
  char text[80];
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const T value = load<T>(element, 0);
    if constexpr (kLocated<T>) {
      std::snprintf(text, sizeof text, "(%g, %g)", static_cast<double>(value.value), static_cast<double>(value.index));
    } else if constexpr (kComplex<T>) {
      std::snprintf(text, sizeof text, "(%g, %g)", static_cast<double>(value.real()),
                    static_cast<double>(value.imag()));
    } else if constexpr (std::is_integral_v<T>) {
      std::snprintf(text, sizeof text, "%s", std::to_string(value).c_str());
    } else {
      std::snprintf(text, sizeof text, "%g", static_cast<double>(static_cast<float>(value)));
    }
  });
  return text;
}

}  // namespace gpucoll_test
