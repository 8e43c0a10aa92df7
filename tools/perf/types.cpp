#include "perf/types.h"

#include <complex>
#include <cstdint>

namespace gpucoll::perf {
namespace {

constexpr unsigned bit(Op op) { return 1u << static_cast<int>(op); }

constexpr unsigned kBitwise = bit(Op::band) | bit(Op::bor) | bit(Op::bxor);
constexpr unsigned kLogical = bit(Op::land) | bit(Op::lor) | bit(Op::lxor);
constexpr unsigned kComplex = bit(Op::sum) | bit(Op::prod);
constexpr unsigned kReal = kComplex | bit(Op::max) | bit(Op::min);
constexpr unsigned kInteger = kReal | kBitwise | kLogical;
constexpr unsigned kPair = bit(Op::maxloc) | bit(Op::minloc);

const TypeInfo kTable[kTypes] = {
    {Type::int8, "int8", sizeof(int8_t), kInteger},
    {Type::int16, "int16", sizeof(int16_t), kInteger},
    {Type::int32, "int32", sizeof(int32_t), kInteger},
    {Type::int64, "int64", sizeof(int64_t), kInteger},
    {Type::uint8, "uint8", sizeof(uint8_t), kInteger},
    {Type::uint16, "uint16", sizeof(uint16_t), kInteger},
    {Type::uint32, "uint32", sizeof(uint32_t), kInteger},
    {Type::uint64, "uint64", sizeof(uint64_t), kInteger},
    {Type::float16, "float16", 2, kReal},
    {Type::bfloat16, "bfloat16", 2, kReal},
    {Type::float32, "float", sizeof(float), kReal},
    {Type::float64, "double", sizeof(double), kReal},
    {Type::long_double, "long_double", sizeof(long double), kReal},
    {Type::complex64, "complex", sizeof(std::complex<float>), kComplex},
    {Type::complex128, "double_complex", sizeof(std::complex<double>), kComplex},
    {Type::boolean, "bool", sizeof(bool), kLogical},
    {Type::byte, "byte", 1, kBitwise},
    {Type::float_int, "float_int", sizeof(Pair<float, int>), kPair},
    {Type::double_int, "double_int", sizeof(Pair<double, int>), kPair},
    {Type::long_int, "long_int", sizeof(Pair<long, int>), kPair},
    {Type::int_int, "int_int", sizeof(Pair<int, int>), kPair},
    {Type::short_int, "short_int", sizeof(Pair<short, int>), kPair},
    {Type::long_double_int, "long_double_int", sizeof(Pair<long double, int>), kPair},
};

const char* const kOpNames[kOps] = {"sum",  "prod", "max", "min",  "band",   "bor",
                                    "bxor", "land", "lor", "lxor", "maxloc", "minloc"};

struct Alias {
  const char* name;
  Type type;
};
const Alias kAliases[] = {
    {"char", Type::int8},
    {"int", Type::int32},
    {"half", Type::float16},
    {"float32", Type::float32},
    {"float64", Type::float64},
    {"complex64", Type::complex64},
    {"complex128", Type::complex128},
};

}  // namespace

const TypeInfo& info(Type type) { return kTable[static_cast<int>(type)]; }
const char* name(Op op) { return kOpNames[static_cast<int>(op)]; }
bool fits(Type type, Op op) { return (info(type).ops & bit(op)) != 0; }

const TypeInfo* find_type(const std::string& name) {
  for (const TypeInfo& entry : kTable)
    if (name == entry.name) return &entry;
  for (const Alias& alias : kAliases)
    if (name == alias.name) return &info(alias.type);
  return nullptr;
}

bool find_op(const std::string& name, Op* op) {
  for (int i = 0; i < kOps; ++i) {
    if (name != kOpNames[i]) continue;
    *op = static_cast<Op>(i);
    return true;
  }
  return false;
}

std::string type_names() {
  std::string names;
  for (const TypeInfo& entry : kTable) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

std::string op_names() {
  std::string names;
  for (const char* op : kOpNames) names += (names.empty() ? "" : ", ") + std::string(op);
  return names;
}

}  // namespace gpucoll::perf
