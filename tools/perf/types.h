// The element types and operations that gpucoll-perf knows by name, and which of them fit together.
//
// Knows neither MPI nor devices, so that generator and reference are tested without either.
// Thread safety: constant tables.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace gpucoll::perf {

// Order of the table in types.cpp.
enum class Type {
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  long_double,
  complex64,
  complex128,
  boolean,
  byte,
  float_int,
  double_int,
  long_int,
  int_int,
  short_int,
  long_double_int,
};
constexpr int kTypes = static_cast<int>(Type::long_double_int) + 1;

enum class Op { sum, prod, max, min, band, bor, bxor, land, lor, lxor, maxloc, minloc };
constexpr int kOps = static_cast<int>(Op::minloc) + 1;

struct TypeInfo {
  Type type;
  const char* name;
  size_t bytes;  // distance between two elements, as MPI lays them out
  unsigned ops;  // bit i: the operation with value i is defined for it
};

const TypeInfo& info(Type type);
const char* name(Op op);
bool fits(Type type, Op op);

// Null or false where no type or operation has this name. Also accepted: char (int8), int (int32), half (float16),
// float32, float64, complex64 and complex128.
const TypeInfo* find_type(const std::string& name);
bool find_op(const std::string& name, Op* op);
// "int8, int16, ...": for messages.
std::string type_names();
std::string op_names();

// What MPI calls MPI_FLOAT_INT and so on: same layout as C's struct.
template <class V, class I>
struct Pair {
  V value;
  I index;
};

}  // namespace gpucoll::perf
