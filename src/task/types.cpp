#include "task/types.h"

namespace gpucoll::coll {
namespace {

struct TypeFacts {
  const char* name;
  size_t bytes, alignment;
};
// In the order of gpucollDataType_t.
constexpr TypeFacts kTypes[] = {
    {"int8", 1, 1},           {"uint8", 1, 1},       {"int32", 4, 4},      {"uint32", 4, 4},      {"int64", 8, 8},
    {"uint64", 8, 8},         {"float16", 2, 2},     {"float32", 4, 4},    {"float64", 8, 8},     {"bfloat16", 2, 2},
    {"int16", 2, 2},          {"uint16", 2, 2},      {"complex64", 8, 4},  {"complex128", 16, 8}, {"float_int", 8, 4},
    {"double_int", 16, 8},    {"long_int", 16, 8},   {"int_int", 8, 4},    {"short_int", 8, 4},   {"float_float", 8, 4},
    {"double_double", 16, 8}, {"float8_e4m3", 1, 1}, {"float8_e5m2", 1, 1}};
static_assert(sizeof kTypes / sizeof kTypes[0] == gpucollNumTypes);
constexpr const char* kOps[] = {"sum",  "prod", "max",  "min",    "band",   "bor", "bxor",
                                "land", "lor",  "lxor", "maxloc", "minloc", "avg"};
static_assert(sizeof kOps / sizeof kOps[0] == gpucollNumOps);

}  // namespace

bool known(gpucollDataType_t type) noexcept { return static_cast<unsigned>(type) < gpucollNumTypes; }
size_t type_size(gpucollDataType_t type) noexcept { return known(type) ? kTypes[type].bytes : 0; }
size_t type_alignment(gpucollDataType_t type) noexcept { return kTypes[type].alignment; }
const char* type_name(gpucollDataType_t type) noexcept { return known(type) ? kTypes[type].name : "no type"; }
const char* op_name(gpucollRedOp_t op) noexcept {
  if (static_cast<int>(op) < 0) return "no operation";
  return op < gpucollNumOps ? kOps[op] : "pre_mul_sum";
}

}  // namespace gpucoll::coll
