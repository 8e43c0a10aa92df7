// Datatypes drawn at random for the generated test, each with its type map as this file works it out, so that what a
// collective must do can be said without asking MPI.
//
// Thread safety: none. Ownership: a Type owns the handle that it built and frees it; predefined ones belong to MPI.
// Invariants: the pieces of a Shape do not overlap, nor do those of copies that lie one extent apart.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mpi_test.h"

namespace generated {
using namespace mpi_test;

inline uint64_t u(int value) { return static_cast<uint64_t>(value); }

// Numbers one after another, the same for the same seed.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t next() { return mix(seed_, ++drawn_); }
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[next() % choices.size()];
  }

 private:
  uint64_t seed_, drawn_ = 0;
};

struct Piece {
  ptrdiff_t at;
  int bytes;
};

// A type map: what is moved, in order, and the bounds.
struct Shape {
  std::vector<Piece> pieces;
  ptrdiff_t lb = 0, ub = 0;
  std::vector<Piece> open = {};  // padding that MPI may write

  ptrdiff_t extent() const { return ub - lb; }
  int size() const {
    int sum = 0;
    for (Piece p : pieces) sum += p.bytes;
    return sum;
  }
  ptrdiff_t first() const {
    ptrdiff_t least = pieces.empty() ? 0 : pieces[0].at;
    for (Piece p : pieces) least = std::min(least, p.at);
    return least;
  }
  ptrdiff_t end() const {
    ptrdiff_t most = pieces.empty() ? 0 : pieces[0].at + pieces[0].bytes;
    for (Piece p : pieces) most = std::max(most, p.at + p.bytes);
    return most;
  }
};

inline Shape copies(const Shape& one, const std::vector<ptrdiff_t>& places) {
  Shape all;
  for (size_t i = 0; i < places.size(); i++) {
    for (Piece p : one.pieces) all.pieces.push_back({p.at + places[i], p.bytes});
    all.lb = i == 0 ? places[i] + one.lb : std::min(all.lb, places[i] + one.lb);
    all.ub = i == 0 ? places[i] + one.ub : std::max(all.ub, places[i] + one.ub);
  }
  return all;
}

// A type that others are made of: predefined, or a struct of several.
struct Base {
  const char* name;
  MPI_Datatype handle;
  Shape shape;
  int alignment;
};

class Type {
 public:
  explicit Type(const Base& base) : name(base.name), handle(base.handle), shape(base.shape) {}
  Type(std::string its_name, MPI_Datatype built, Shape its_shape)
      : name(std::move(its_name)), handle(built), shape(std::move(its_shape)), owned_(true) {
    MPI_Aint lb, extent;
    int size;
    MPI_Type_commit(&handle);
    MPI_Type_get_extent(handle, &lb, &extent);
    MPI_Type_size(handle, &size);
    if (!checked(lb == shape.lb && extent == shape.extent() && size == shape.size()))
      fail("%s: bounds %td %td, size %d; should be %td %td, %d", name.c_str(), lb, lb + extent, size, shape.lb,
           shape.ub, shape.size());
  }
  Type(Type&& other) noexcept : name(other.name), handle(other.handle), shape(other.shape) {
    std::swap(owned_, other.owned_);
  }
  Type(const Type&) = delete;
  ~Type() { release(); }

  // MPI keeps what pending calls need.
  void release() {
    if (owned_) MPI_Type_free(&handle);
    owned_ = false;
  }
  bool derived() const { return owned_; }

  std::string name;
  MPI_Datatype handle;
  Shape shape;

 private:
  bool owned_ = false;
};

}  // namespace generated
