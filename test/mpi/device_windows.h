// Windows of device memory, with a model of each rank's memory on the host, and the types that are tried on them.
//
// Thread safety: none. Ownership: a Window owns its memory and MPI's window; a Type owns MPI's type.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "mpi_test.h"

namespace windows {
using namespace mpi_test;

inline int next() { return (g_rank + 1) % g_size; }
inline int previous() { return (g_rank + g_size - 1) % g_size; }

// Bytes that nobody else has.
inline Bytes bytes_of(uint64_t who, uint64_t what, size_t n) {
  Bytes bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(mix(who, what, i));
  return bytes;
}

// ---- windows ----

// Which ranks have which memory.
enum class Kinds { device, mixed, one, some_empty };
inline constexpr Kinds kKinds[] = {Kinds::device, Kinds::mixed, Kinds::one, Kinds::some_empty};
inline const char* name_of(Kinds kinds) {
  return kinds == Kinds::device  ? "device memory"
         : kinds == Kinds::mixed ? "device and host memory"
         : kinds == Kinds::one   ? "device memory on the last rank"
                                 : "device memory, and none on the last rank";
}
inline Where where_of(Kinds kinds, int rank) {
  const bool on_host = (kinds == Kinds::mixed && rank % 2 == 1) || (kinds == Kinds::one && rank != g_size - 1);
  return on_host ? Where::host : Where::device;
}
inline bool has_memory(Kinds kinds, int rank) {
  return kinds != Kinds::some_empty || rank != g_size - 1 || g_size == 1;
}

inline int unit_of(int rank) { return rank % 3 + 1; }

class Window {
 public:
  Window(Kinds kinds, size_t bytes, int unit, MPI_Comm comm = MPI_COMM_WORLD)
      : kinds_(kinds),
        model_(has_memory(kinds, g_rank) ? bytes : 0),
        memory_(where_of(kinds, g_rank), model_.size()),
        unit_(unit) {
    clear();
    base_ = model_.empty() ? nullptr : memory_.at(0);
    const int rc = MPI_Win_create(base_, static_cast<MPI_Aint>(model_.size()), unit, MPI_INFO_NULL, comm, &window_);
    if (!checked(rc == MPI_SUCCESS)) fail("MPI_Win_create of %s: %d", name_of(kinds), class_of(rc));
  }
  Window(Kinds kinds, size_t bytes) : Window(kinds, bytes, unit_of(g_rank)) {}
  ~Window() { MPI_Win_free(&window_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  MPI_Win get() const { return window_; }
  Kinds kinds() const { return kinds_; }
  void* base() const { return base_; }
  int unit() const { return unit_; }
  // What memory should be. REQUIRES: nobody accesses it meanwhile.
  Bytes& model() { return model_; }
  void clear() {
    std::fill(model_.begin(), model_.end(), 0xa5);
    store();
  }
  void store() { memory_.write(model_.data()); }
  Bytes image() const { return memory_.image(); }
  void expect_model(const std::string& what) {
    const Bytes now = image();
    const auto found = std::mismatch(model_.begin(), model_.end(), now.begin());
    if (checked(found.first == model_.end())) return;
    fail("%s: wrong byte at %ld of the window: %d instead of %d", what.c_str(), found.first - model_.begin(),
         *found.second, *found.first);
  }

 private:
  Kinds kinds_;
  Bytes model_;
  Memory memory_;
  int unit_;
  void* base_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

// ---- types ----

// How a type is made of ints; and what it spans, from 0 on.
struct TypeKind {
  const char* name;
  void (*make)(MPI_Datatype* type);
};

inline void make_many_blocks(MPI_Datatype* type) {
  constexpr int kBlocks = 150;
  std::vector<int> lengths, places;
  for (int i = 0; i < kBlocks; ++i) {
    lengths.push_back(1 + i % 2);
    places.push_back(3 * i);
  }
  MPI_Type_indexed(kBlocks, lengths.data(), places.data(), MPI_INT, type);
}

inline const TypeKind kTypeKinds[] = {
    {"ints", [](MPI_Datatype* t) { MPI_Type_dup(MPI_INT, t); }},
    {"rows", [](MPI_Datatype* t) { MPI_Type_contiguous(5, MPI_INT, t); }},
    {"vector", [](MPI_Datatype* t) { MPI_Type_vector(4, 2, 5, MPI_INT, t); }},
    {"spaced ints", [](MPI_Datatype* t) { MPI_Type_create_resized(MPI_INT, 0, 12, t); }},
    {"blocks",
     [](MPI_Datatype* t) {
       const int lengths[] = {2, 1, 3}, places[] = {7, 0, 2};
       MPI_Type_indexed(3, lengths, places, MPI_INT, t);
     }},
    {"spread blocks",
     [](MPI_Datatype* t) {
       const MPI_Aint places[] = {4, 20, 37};  // not at multiples of an int
       MPI_Type_create_hindexed_block(3, 2, places, MPI_INT, t);
     }},
    {"structure",
     [](MPI_Datatype* t) {
       MPI_Datatype vector, types[2] = {MPI_INT, MPI_INT};
       MPI_Type_vector(2, 1, 3, MPI_INT, &vector);
       types[1] = vector;
       const int lengths[] = {1, 2};
       const MPI_Aint places[] = {40, 0};
       MPI_Type_create_struct(2, lengths, places, types, t);
       MPI_Type_free(&vector);
     }},
    {"part of an array",
     [](MPI_Datatype* t) {
       const int sizes[] = {4, 6}, parts[] = {2, 3}, starts[] = {1, 2};
       MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, t);
     }},
    {"many blocks", make_many_blocks},  // its description is larger than a header
};

class Type {
 public:
  explicit Type(const TypeKind& kind) {
    kind.make(&type_);
    MPI_Type_commit(&type_);
  }
  ~Type() { release(); }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  MPI_Datatype get() const { return type_; }
  int bytes() const {
    int n;
    MPI_Type_size(type_, &n);
    return n;
  }
  // Returns how many bytes `count` elements span, from the address on.
  size_t span(int count) const {
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Type_get_extent(type_, &lower, &extent);
    MPI_Type_get_true_extent(type_, &true_lower, &true_extent);
    return count == 0 ? 0 : static_cast<size_t>((count - 1) * extent + true_lower + true_extent);
  }
  void release() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// Moves packed data to where elements lie in host memory, and back.
inline void unpack(const Bytes& packed, uint8_t* at, int count, MPI_Datatype type) {
  int position = 0;
  if (!packed.empty())
    MPI_Unpack(packed.data(), static_cast<int>(packed.size()), &position, at, count, type, MPI_COMM_SELF);
}
inline Bytes pack(const uint8_t* at, int count, MPI_Datatype type) {
  int bytes = 0, position = 0;
  MPI_Type_size(type, &bytes);
  Bytes packed(static_cast<size_t>(bytes * count));
  if (!packed.empty())
    MPI_Pack(at, count, type, packed.data(), static_cast<int>(packed.size()), &position, MPI_COMM_SELF);
  return packed;
}

// ---- epochs ----

// Runs `body`, which accesses a target, and returns when its operations are complete. All ranks call it.
struct Epoch {
  const char* name;
  void (*run)(MPI_Win win, int target, int origin, const std::function<void()>& body);
};

inline void in_groups(MPI_Win win, int target, int origin, const std::function<void()>& body, bool tests) {
  MPI_Group all, to, from;
  MPI_Win_get_group(win, &all);
  MPI_Group_incl(all, 1, &target, &to);
  MPI_Group_incl(all, 1, &origin, &from);
  MPI_Win_post(from, 0, win);
  MPI_Win_start(to, 0, win);
  body();
  MPI_Win_complete(win);
  if (!tests) MPI_Win_wait(win);
  for (int flag = 0; tests && !flag;) MPI_Win_test(win, &flag);
  for (MPI_Group* group : {&all, &to, &from}) MPI_Group_free(group);
}

inline void under_lock(MPI_Win win, int target, const std::function<void()>& body, int type, int assertion) {
  MPI_Win_lock(type, target, assertion, win);
  body();
  MPI_Win_unlock(target, win);
  MPI_Barrier(MPI_COMM_WORLD);
}

inline const Epoch kEpochs[] = {
    {"fences",
     [](MPI_Win win, int, int, const std::function<void()>& body) {
       MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
       body();
       MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
     }},
    {"post and start", [](MPI_Win win, int target, int origin,
                          const std::function<void()>& body) { in_groups(win, target, origin, body, false); }},
    {"post, start and test", [](MPI_Win win, int target, int origin,
                                const std::function<void()>& body) { in_groups(win, target, origin, body, true); }},
    {"exclusive locks",
     [](MPI_Win win, int target, int, const std::function<void()>& body) {
       under_lock(win, target, body, MPI_LOCK_EXCLUSIVE, 0);
     }},
    {"shared locks", [](MPI_Win win, int target, int,
                        const std::function<void()>& body) { under_lock(win, target, body, MPI_LOCK_SHARED, 0); }},
    {"locks without a check",
     [](MPI_Win win, int target, int, const std::function<void()>& body) {
       under_lock(win, target, body, MPI_LOCK_SHARED, MPI_MODE_NOCHECK);
     }},
    {"flushes",
     [](MPI_Win win, int target, int, const std::function<void()>& body) {
       MPI_Win_lock_all(0, win);
       body();
       MPI_Win_flush(target, win);
       MPI_Barrier(MPI_COMM_WORLD);
       MPI_Win_sync(win);
       MPI_Win_unlock_all(win);
     }},
};

}  // namespace windows
