// Layouts drawn at random: every constructor of derived datatypes, alone and over another, and what they are made of.
//
// Thread safety: none. Ownership: what is returned owns its handle (generated_types.h), but for mixture(), which lives
// as long as the process.
#pragma once
#include "generated_types.h"

namespace generated {

// ---- the constructors of MPI, each over k elements of `old` ----

inline std::vector<ptrdiff_t> scaled(const std::vector<int>& places, ptrdiff_t by) {
  std::vector<ptrdiff_t> bytes;
  for (int place : places) bytes.push_back(place * by);
  return bytes;
}

inline Type contiguous(const Type& old, int k) {
  MPI_Datatype built;
  MPI_Type_contiguous(k, old.handle, &built);
  std::vector<ptrdiff_t> places;
  for (int i = 0; i < k; i++) places.push_back(i * old.shape.extent());
  return Type("contiguous(" + old.name + ")", built, copies(old.shape, places));
}

// k / block blocks, `stride` elements apart, forwards or backwards; the stride in elements or bytes.
inline Type vector(const Type& old, int k, int block, int stride, bool bytes) {
  MPI_Datatype built;
  const ptrdiff_t extent = old.shape.extent();
  if (bytes)
    MPI_Type_create_hvector(k / block, block, stride * extent, old.handle, &built);
  else
    MPI_Type_vector(k / block, block, stride, old.handle, &built);
  std::vector<ptrdiff_t> places;
  for (int i = 0; i < k; i++) places.push_back((i / block * stride + i % block) * extent);
  return Type("vector(" + old.name + ")", built, copies(old.shape, places));
}

// Elements in any order, with gaps, some before the pointer.
inline Type indexed(const Type& old, int k, Random& random) {
  std::vector<int> places(static_cast<size_t>(2 * k + 1));
  for (size_t i = 0; i < places.size(); i++) places[i] = static_cast<int>(i) - k / 2;
  for (size_t i = places.size(); i-- > 1;) std::swap(places[i], places[random.next() % (i + 1)]);
  places.resize(static_cast<size_t>(k));
  const std::vector<int> ones(places.size(), 1);
  const std::vector<ptrdiff_t> bytes = scaled(places, old.shape.extent());
  MPI_Datatype built;
  switch (random.below(4)) {
    case 0: MPI_Type_indexed(k, ones.data(), places.data(), old.handle, &built); break;
    case 1: MPI_Type_create_indexed_block(k, 1, places.data(), old.handle, &built); break;
    case 2: MPI_Type_create_hindexed(k, ones.data(), bytes.data(), old.handle, &built); break;
    default: MPI_Type_create_hindexed_block(k, 1, bytes.data(), old.handle, &built);
  }
  return Type("indexed(" + old.name + ")", built, copies(old.shape, bytes));
}

// Two blocks, the first behind the second.
inline Type structure(const Type& old, int k, Random& random) {
  const int first = random.below(k + 1);
  const ptrdiff_t extent = old.shape.extent();
  const int lengths[2] = {first, k - first};
  const MPI_Aint starts[2] = {(k - first + random.below(3)) * extent, -random.below(2) * extent};
  const MPI_Datatype types[2] = {old.handle, old.handle};
  MPI_Datatype built;
  MPI_Type_create_struct(2, lengths, starts, types, &built);
  std::vector<ptrdiff_t> places;
  for (int i = 0; i < k; i++) places.push_back(i < first ? starts[0] + i * extent : starts[1] + (i - first) * extent);
  return Type("struct(" + old.name + ")", built, copies(old.shape, places));
}

inline Type subarray(const Type& old, int k, Random& random) {
  const int rows = k % 2 == 0 ? 2 : 1;
  const int part[2] = {rows, k / rows};
  int whole[2], start[2];
  for (int d = 0; d < 2; d++) {
    start[d] = random.below(3);
    whole[d] = start[d] + part[d] + random.below(3);
  }
  const bool fortran = random.one_in(2);
  MPI_Datatype built;
  MPI_Type_create_subarray(2, whole, part, start, fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, old.handle, &built);
  const int slow = fortran ? 1 : 0, fast = 1 - slow;
  std::vector<ptrdiff_t> places;
  for (int i = 0; i < part[slow]; i++)
    for (int j = 0; j < part[fast]; j++)
      places.push_back(((start[slow] + i) * whole[fast] + start[fast] + j) * old.shape.extent());
  Shape shape = copies(old.shape, places);
  shape.lb = 0;
  shape.ub = whole[0] * whole[1] * old.shape.extent();
  return Type("subarray(" + old.name + ")", built, shape);
}

inline Type resized(const Type& old, ptrdiff_t before, ptrdiff_t behind) {
  Shape shape = old.shape;
  shape.lb -= before;
  shape.ub += behind;
  MPI_Datatype built;
  MPI_Type_create_resized(old.handle, shape.lb, shape.extent(), &built);
  return Type("resized(" + old.name + ")", built, shape);
}

inline Type duplicate(const Type& old) {
  MPI_Datatype built;
  MPI_Type_dup(old.handle, &built);
  return Type("dup(" + old.name + ")", built, old.shape);
}

// A column of a matrix with rows of `columns` elements: the next element of this type is the next column.
inline Type column(const Type& old, int k, int columns) {
  Type all = vector(old, k, 1, columns, false);
  return resized(all, all.shape.lb - old.shape.lb, old.shape.ub - all.shape.ub);
}

inline Type construct(const Type& old, int k, Random& random) {
  switch (random.below(8)) {
    case 0: return contiguous(old, k);
    case 1: return vector(old, k, 1, 1 + random.below(4), random.one_in(2));
    // Not -1: of bytes, Open MPI 4.1 takes it for 1.
    case 2: return vector(old, k, 1, -2 - random.below(3), random.one_in(2));
    case 3: return vector(old, k, k % 2 == 0 ? 2 : 1, 2 + random.below(3), random.one_in(2));
    case 4: return structure(old, k, random);
    case 5: return subarray(old, k, random);
    default: return indexed(old, k, random);
  }
}

// k elements of `base` in one; of calls with `total` such elements a side, all may lie side by side.
inline Type spell(const Base& base, int k, int total, Random& random) {
  const Type old(base);
  if (k == 0) return contiguous(old, 0);
  if (k == 1 && random.one_in(2)) return Type(base);
  if (random.one_in(8) && total * k < 20000) return column(old, k, total);
  const ptrdiff_t step = base.alignment;
  if (k % 2 == 0 && random.one_in(3)) return construct(construct(old, 2, random), k / 2, random);
  if (random.one_in(6)) return duplicate(construct(old, k, random));
  if (random.one_in(3)) return resized(construct(old, k, random), step * random.below(4), step * random.below(4));
  return construct(old, k, random);
}

// ---- what they are made of ----

inline Base plain(const char* name, MPI_Datatype type) {
  int size;
  MPI_Aint lb, extent;
  MPI_Type_size(type, &size);
  MPI_Type_get_extent(type, &lb, &extent);
  const int alignment = static_cast<int>(std::min<MPI_Aint>(extent, 16));
  return {name, type, Shape{{{0, size}}, 0, extent}, std::max(alignment, 1)};
}

template <class Value, class Index>
Base pair(const char* name, MPI_Datatype type) {
  struct Both {
    Value value;
    Index index;
  };
  return {name, type, Shape{{{0, sizeof(Value)}, {offsetof(Both, index), sizeof(Index)}}, 0, sizeof(Both)},
          alignof(Both)};
}

// { int, double, char } with gaps.
inline Base mixture() {
  const int lengths[3] = {1, 1, 1};
  const MPI_Aint places[3] = {0, 8, 17};
  const MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
  MPI_Datatype natural, built;
  MPI_Type_create_struct(3, lengths, places, types, &natural);
  MPI_Type_create_resized(natural, 0, 24, &built);
  MPI_Type_commit(&built);
  MPI_Type_free(&natural);
  return {"mixture", built, Shape{{{0, 4}, {8, 8}, {17, 1}}, 0, 24}, 8};
}

#define GC_PLAIN(name) plain(#name, MPI_##name)
inline std::vector<Base> bases() {
  std::vector<Base> all = {GC_PLAIN(CHAR),
                           GC_PLAIN(SIGNED_CHAR),
                           GC_PLAIN(UNSIGNED_CHAR),
                           GC_PLAIN(BYTE),
                           GC_PLAIN(C_BOOL),
                           GC_PLAIN(SHORT),
                           GC_PLAIN(UNSIGNED_SHORT),
                           GC_PLAIN(INT),
                           GC_PLAIN(INT),
                           GC_PLAIN(UNSIGNED),
                           GC_PLAIN(LONG),
                           GC_PLAIN(UNSIGNED_LONG),
                           GC_PLAIN(LONG_LONG),
                           GC_PLAIN(INT8_T),
                           GC_PLAIN(UINT16_T),
                           GC_PLAIN(INT32_T),
                           GC_PLAIN(UINT64_T),
                           GC_PLAIN(WCHAR),
                           GC_PLAIN(AINT),
                           GC_PLAIN(COUNT),
                           GC_PLAIN(OFFSET),
                           GC_PLAIN(FLOAT),
                           GC_PLAIN(FLOAT),
                           GC_PLAIN(DOUBLE),
                           GC_PLAIN(DOUBLE),
                           GC_PLAIN(LONG_DOUBLE),
                           GC_PLAIN(C_FLOAT_COMPLEX),
                           GC_PLAIN(C_DOUBLE_COMPLEX),
                           GC_PLAIN(PACKED),
                           pair<float, int>("FLOAT_INT", MPI_FLOAT_INT),
                           pair<double, int>("DOUBLE_INT", MPI_DOUBLE_INT),
                           pair<long, int>("LONG_INT", MPI_LONG_INT),
                           pair<short, int>("SHORT_INT", MPI_SHORT_INT),
                           pair<int, int>("2INT", MPI_2INT),
                           pair<long double, int>("LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT),
                           mixture()};
#ifdef GC_FORTRAN_TYPES
  for (const Base& b : {GC_PLAIN(INTEGER), GC_PLAIN(REAL), GC_PLAIN(DOUBLE_PRECISION), GC_PLAIN(COMPLEX),
                        GC_PLAIN(LOGICAL), GC_PLAIN(CHARACTER), GC_PLAIN(2INTEGER)})
    all.push_back(b);
#endif
  return all;
}
#undef GC_PLAIN

}  // namespace generated
