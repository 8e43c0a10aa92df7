// Element types and operations as the C API names them. Thread safety: constant data.
#pragma once
#include <cstddef>

#include "gpucoll/gpucoll.h"

namespace gpucoll::coll {

bool known(gpucollDataType_t type) noexcept;
size_t type_size(gpucollDataType_t type) noexcept;       // bytes; 0 for what is no type
size_t type_alignment(gpucollDataType_t type) noexcept;  // REQUIRES: known(type)
const char* type_name(gpucollDataType_t type) noexcept;  // "float32"
const char* op_name(gpucollRedOp_t op) noexcept;         // "sum"; "pre_mul_sum" for made ones

}  // namespace gpucoll::coll
