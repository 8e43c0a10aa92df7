// Data for checked runs, and what must come out of them.
//
// An element depends on the rank that owns it, its index and the number of the run, so that a stale, shifted or
// foreign element shows. Values are chosen so that every reduction is exact in any order: floating-point sums are
// of small whole numbers, products of -2..2 in powers of two. Integers use their full range and wrap around where
// the caller allows it (8- and 16-bit sums of Open MPI 4.1.4's own vector code saturate instead).
// Thread safety: pure functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "perf/types.h"

namespace gpucoll::perf {

struct Recipe {
  Type type = Type::float32;
  Op op = Op::sum;
  bool reduces = true;   // values are made for `op`; otherwise any value of the type
  bool may_wrap = true;  // 8- and 16-bit sums and products may leave the type's range
  int ranks = 1;
  uint64_t run = 0;
  bool inexact = false;  // real numbers whose sums and products round: their bits tell the order of a reduction
};

// Elements first .. first + count - 1 of `rank`'s input. Padding bytes are zero.
void generate(const Recipe& recipe, int rank, uint64_t first, size_t count, void* out);
// inout[i] = inout[i] op in[i]. REQUIRES: fits(type, op).
void combine(Type type, Op op, const void* in, void* inout, size_t count);
// How many elements differ in value (padding does not count); the first of them in *first if there is one.
size_t count_wrong(Type type, const void* got, const void* expected, size_t count, size_t* first);
// Goes on with `hash` over the value bits of the elements.
uint64_t hash_values(Type type, uint64_t hash, const void* data, size_t count);
// One element as text.
std::string show(Type type, const void* element);

}  // namespace gpucoll::perf
