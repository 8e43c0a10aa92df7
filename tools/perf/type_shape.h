// Shapes of messages that have gaps, as MPI's derived types describe them; all of one type of elements.
//   vector:COUNT:BLOCK:STRIDE  COUNT blocks of BLOCK elements, STRIDE elements from one to the next
//   face:N:x, y or z           the plane x = 0, y = 0 or z = 0 of a grid of N^3 elements whose x runs fastest
//   indexed:N                  N blocks of 1 to 4 elements, 1 to 3 elements between them
//   struct:N                   N structures of one element, a gap of one, and two elements
//
// Knows no MPI, so that checks of results do not lean on MPI's idea of a type.
// Thread safety: immutable.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace gpucoll::perf {

struct TypeShape {
  enum class Kind { vector, face, indexed, structs };
  struct Part {
    size_t offset, elements;
  };
  std::string text;  // as on the command line
  Kind kind;
  std::vector<int> numbers;  // of a face: N, and how many elements lie between neighbours across it: 1, N or N^2
  size_t elements = 0;       // data of one message
  size_t extent = 0;         // elements of the buffer, with the gaps
  std::vector<bool> data;    // of each of them, whether it is of the message
};

// Errors: invalid_argument, one sentence.
Result<std::shared_ptr<const TypeShape>> parse_type_shape(const std::string& text);
// The contiguous parts of a message.
std::vector<TypeShape::Part> parts_of(const TypeShape& shape);

}  // namespace gpucoll::perf
