// What operations do to elements, plainly: the other side of comparisons with gpucoll, sharing no code with it.
//
// Reductions of floats are exact in any order for the values that small_values() gives; integers wrap.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gpucoll/gpucoll.h"

namespace gpucoll_test {

// A pre-multiplied sum, beside the built-in operations.
inline constexpr int kPreMulSum = gpucollNumOps;
inline constexpr int kOps = gpucollNumOps + 1;

const char* type_name(int type);
const char* op_name(int op);
bool is_integer(int type);
// Whether gpucoll promises this operation for the type.
bool has_meaning(int type, int op);

// What rank `rank` multiplies by in a pre-multiplied sum: an element.
std::vector<uint8_t> scalar_of(int type, int rank);

// Fills elements with values that depend on the generator and stay exact in `op` over up to 8 ranks.
void small_values(int type, int op, uint8_t* data, size_t count, std::mt19937_64& random);

// result[i] = op over inputs[rank][i]. Padding of `result` is left alone.
void reduce(int type, int op, const std::vector<const uint8_t*>& inputs, uint8_t* result, size_t count);

// The element in words, for messages.
std::string element_text(int type, const uint8_t* element);

}  // namespace gpucoll_test
