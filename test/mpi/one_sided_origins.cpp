// One-sided operations whose origin, compared and result buffers are device memory, on windows of host memory. A model
// of MPI's says what must be in windows, in buffers, and in what lies between their data, which all depend on rank,
// place and epoch. With the word host the buffers are host memory, which shows what Open MPI does by itself.
//
// Words: "threads" or "host", if any; the component of Open MPI; the kinds of windows (create, allocate, shared,
// dynamic).
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kSlots = 5, kSlotBytes = 98304, kMargin = 131;

uint8_t pattern(int rank, size_t i, int round) {
  return static_cast<uint8_t>(
      (i * 7 + (i >> 8) * 31 + static_cast<size_t>(rank) * 113 + static_cast<size_t>(round) * 59) ^ (i >> 3));
}

// Names what Open MPI 4.1.4 and 5.0.7 do wrong on host memory as well, by component; the test leaves it out.
struct Component {
  std::string name;
  bool is(const char* other) const { return name == other; }
  // osc/rdma's MPI_Get moves as much as there is room for.
  bool gets_less_than_room() const { return !is("rdma"); }
  // osc/rdma's MPI_Get_accumulate stores wrong results, and its minima, maxima and logical operations are wrong.
  // That of 5.0.7 combines what is in the window with itself by MPI_BAND and MPI_BXOR of 8 bytes.
  bool reduces_by(MPI_Op op, int bytes, bool with_result) const {
    if (!is("rdma")) return true;
    const bool combines_bits = (op == MPI_BAND || op == MPI_BXOR) && (OMPI_MAJOR_VERSION == 4 || bytes != 8);
    const bool is_right = op == MPI_REPLACE || op == MPI_SUM || combines_bits;
    return op == MPI_NO_OP || (is_right && !with_result);
  }
  // osc/rdma's compare and swap with the own rank ends the process where the BTL emulates it.
  bool swaps_with_itself() const { return !is("rdma"); }
  // osc/pt2pt's MPI_Get_accumulate of large types writes over other memory.
  bool reduces_large_types() const { return !is("pt2pt"); }
  // osc/pt2pt's MPI_Win_flush_local waits for ever.
  bool flushes_locally() const { return !is("pt2pt"); }
  // Returns how many epochs of each kind there are, and operations at once. osc/pt2pt is slow.
  int epochs() const { return is("pt2pt") ? 12 / g_size : 14; }
  int many() const { return is("pt2pt") ? 500 : 70000; }
};
Component g_component;

// ---- types ----

struct Basic {
  const char* name;
  MPI_Datatype type;
  int bytes;
  bool reduces;
};
const Basic kBasics[] = {{"int", MPI_INT, 4, true},
                         {"short", MPI_SHORT, 2, true},
                         {"uint64", MPI_UINT64_T, 8, true},
                         {"double", MPI_DOUBLE, 8, false},
                         {"byte", MPI_BYTE, 1, false}};

// Where the elements of a basic type lie in one of another, counted in elements.
struct Shape {
  const char* name;
  std::vector<std::pair<int, int>> runs;  // offset, elements
  int lower, extent;
  int elements() const {
    int sum = 0;
    for (const auto& run : runs) sum += run.second;
    return sum;
  }
};
const Shape kShapes[] = {{"dense", {{0, 1}}, 0, 1},
                         {"vector", {{0, 1}, {3, 2}, {7, 1}}, 0, 10},
                         {"negative", {{-6, 2}, {-2, 1}, {1, 2}}, -6, 9},
                         {"backwards", {{4, 1}, {0, 1}, {2, 1}}, 0, 6}};

class Type {
 public:
  Type(const Shape& shape, const Basic& basic) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    for (const auto& run : shape.runs) {
      places.push_back(run.first * basic.bytes);
      lengths.push_back(run.second);
    }
    MPI_Datatype plain;
    MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), basic.type, &plain);
    MPI_Type_create_resized(plain, shape.lower * basic.bytes, shape.extent * basic.bytes, &type_);
    MPI_Type_free(&plain);
    MPI_Type_commit(&type_);
  }
  ~Type() { free(); }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  MPI_Datatype get() const { return type_; }
  void free() {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// ---- operations ----

enum Call {
  kPut,
  kGet,
  kAccumulate,
  kGetAccumulate,
  kFetchAndOp,
  kCompareAndSwap,
  kRput,
  kRget,
  kRaccumulate,
  kRgetAccumulate
};
const char* const kNames[] = {
    "MPI_Put",  "MPI_Get",  "MPI_Accumulate",  "MPI_Get_accumulate", "MPI_Fetch_and_op", "MPI_Compare_and_swap",
    "MPI_Rput", "MPI_Rget", "MPI_Raccumulate", "MPI_Rget_accumulate"};
const MPI_Op kOps[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,    MPI_LOR,
                       MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE, MPI_NO_OP};
enum Ending { kWait, kTest, kWaitany, kAfterwards, kFreed };  // of a request

// What one operation is; the same for both kinds of memory.
struct Operation {
  Call call = kPut;
  const Basic* basic = kBasics;
  const Shape *origin = kShapes, *target = kShapes;
  int origin_count = 0, target_count = 0, peer = 0, slot = 0;
  MPI_Op op = MPI_SUM;
  Ending ending = kWait;
  bool frees_types = false, swaps = false;
  size_t at = 0;  // in the peer's window

  bool reduces() const {
    return call == kAccumulate || call == kGetAccumulate || call == kRaccumulate || call == kRgetAccumulate ||
           call == kFetchAndOp;
  }
  bool may_do_nothing() const { return call == kGetAccumulate || call == kRgetAccumulate || call == kFetchAndOp; }
  bool has_result() const { return call != kPut && call != kAccumulate && call != kRput && call != kRaccumulate; }
  bool is_get() const { return call == kGet || call == kRget; }
  size_t room() const { return static_cast<size_t>((origin_count + 2) * origin->extent * basic->bytes) + 2 * kMargin; }
};

size_t slot_at(int rank, int slot) {
  return (static_cast<size_t>(rank) * kSlots + static_cast<size_t>(slot)) * kSlotBytes;
}
size_t window_bytes() { return slot_at(g_size, 1); }  // the last slot belongs to all ranks

class Draws {
 public:
  Draws(int a, int b, int rank)
      : state_(mix(static_cast<uint64_t>(a) + 1, static_cast<uint64_t>(b) + 1, static_cast<uint64_t>(rank))) {}
  int below(int n) { return static_cast<int>((state_ = mix(state_, 77)) % static_cast<uint64_t>(n)); }

 private:
  uint64_t state_;
};

// Returns an operation of a rank on its slot `slot` in the window of another.
Operation draw(Draws& draws, int rank, int slot, bool passive) {
  Operation o;
  o.call = static_cast<Call>(draws.below(passive ? 10 : 6));
  o.slot = slot;
  o.peer = draws.below(14) == 0 ? MPI_PROC_NULL : draws.below(g_size);
  o.basic = &kBasics[draws.below(o.call == kCompareAndSwap ? 3 : 5)];
  o.op = kOps[draws.below(12)];
  if (o.op == MPI_NO_OP && !o.may_do_nothing()) o.op = MPI_REPLACE;
  if (!o.basic->reduces && o.op != MPI_NO_OP) o.op = MPI_REPLACE;
  const bool gets_and_reduces = o.call == kGetAccumulate || o.call == kRgetAccumulate;
  if (o.reduces() && !g_component.reduces_by(o.op, o.basic->bytes, gets_and_reduces))
    o.op = o.may_do_nothing() ? MPI_NO_OP : MPI_REPLACE;
  if (o.call == kCompareAndSwap && o.peer == rank && !g_component.swaps_with_itself()) o.peer = (rank + 1) % g_size;
  o.ending = static_cast<Ending>(draws.below(5));
  o.frees_types = draws.below(2) == 0;
  o.swaps = draws.below(2) == 0;
  o.at = slot_at(rank, slot) + static_cast<size_t>(8 * draws.below(5) + 64);
  if (o.basic->bytes == 1) o.at += static_cast<size_t>(draws.below(8));
  if (o.call == kFetchAndOp || o.call == kCompareAndSwap) {
    if (o.basic->bytes == 2) o.basic = &kBasics[0];  // osc/rdma's are of 4 or 8 bytes
    o.origin_count = o.target_count = 1;
    return o;
  }
  o.origin = &kShapes[draws.below(4)];
  o.target = &kShapes[draws.below(4)];
  const bool large = draws.below(5) == 0 && (!gets_and_reduces || g_component.reduces_large_types());
  const int times = draws.below(9) == 0 ? 0 : large ? 60 + draws.below(70) : 1 + draws.below(6);
  const int elements = std::lcm(o.origin->elements(), o.target->elements()) * times;
  o.origin_count = elements / o.origin->elements();
  o.target_count = elements / o.target->elements();
  if (o.is_get() && g_component.gets_less_than_room() && draws.below(3) == 0)
    o.origin_count += 3;  // some of which stay as they are
  return o;
}

// ---- buffers ----

enum Role { kOrigin, kResult, kCompared };

// Returns where in a buffer's memory the part begins that is passed.
size_t begin_of(const Operation& o) { return kMargin + 61 + static_cast<size_t>(o.basic->bytes == 1 ? o.slot : 0); }

// Returns what is in a buffer of a rank at first.
Bytes first_image(const Operation& o, int rank, int round, Role role) {
  Bytes bytes(o.room());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(rank + 3 * role, i, round + o.slot);
  for (size_t i = 0; role == kCompared && o.swaps && i < static_cast<size_t>(o.basic->bytes); ++i)
    bytes[begin_of(o) + i] = pattern(o.peer, o.at + i, round);
  return bytes;
}

class Buffer {
 public:
  Buffer(Where where, const Operation& o, int round, Role role) : memory_(where, o.room()), begin_(begin_of(o)) {
    memory_.write(first_image(o, g_rank, round, role).data());
  }
  void* data() const { return memory_.at(static_cast<ptrdiff_t>(begin_)); }
  Bytes image() const { return memory_.image(); }

 private:
  Memory memory_;
  size_t begin_;
};

// An operation that has been called with buffers of one kind of memory.
struct Issued {
  Issued(Where kind, const Operation& operation, int round)
      : o(operation),
        where(kind),
        origin(kind, o, round, kOrigin),
        result(kind, o, round, kResult),
        compared(kind, o, round, kCompared) {}
  Operation o;
  Where where;
  Buffer origin, result, compared;
  MPI_Request request = MPI_REQUEST_NULL;

  Bytes image() const {
    Bytes all = origin.image();
    for (const Bytes& more : {result.image(), compared.image()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

// ---- the model ----

// Returns where the elements of a buffer are, from its beginning.
std::vector<ptrdiff_t> places(const Shape& shape, int count, int bytes) {
  std::vector<ptrdiff_t> all;
  for (int e = 0; e < count; ++e)
    for (const auto& run : shape.runs)
      for (int i = 0; i < run.second; ++i) all.push_back((e * shape.extent + run.first + i) * bytes);
  return all;
}

template <class T>
T reduced(MPI_Op op, T there, T mine) {
  using U = std::make_unsigned_t<T>;
  const U a = static_cast<U>(there), b = static_cast<U>(mine);
  if (op == MPI_SUM) return static_cast<T>(static_cast<U>(a + b));
  if (op == MPI_PROD) return static_cast<T>(static_cast<uint64_t>(a) * b);
  if (op == MPI_MAX) return std::max(there, mine);
  if (op == MPI_MIN) return std::min(there, mine);
  if (op == MPI_LAND) return there && mine;
  if (op == MPI_LOR) return there || mine;
  if (op == MPI_LXOR) return !there != !mine;
  if (op == MPI_BAND) return static_cast<T>(a & b);
  if (op == MPI_BOR) return static_cast<T>(a | b);
  return static_cast<T>(a ^ b);
}

template <class T>
void reduce_as(MPI_Op op, uint8_t* there, const uint8_t* mine) {
  T a, b;
  std::memcpy(&a, there, sizeof a);
  std::memcpy(&b, mine, sizeof b);
  a = reduced(op, a, b);
  std::memcpy(there, &a, sizeof a);
}

void reduce(const Operation& o, uint8_t* there, const uint8_t* mine) {
  if (o.op == MPI_NO_OP) return;
  if (o.op == MPI_REPLACE)
    std::memcpy(there, mine, static_cast<size_t>(o.basic->bytes));
  else if (o.basic->bytes == 2)
    reduce_as<short>(o.op, there, mine);
  else if (o.basic->bytes == 4)
    reduce_as<int>(o.op, there, mine);
  else
    reduce_as<uint64_t>(o.op, there, mine);
}

// Does an operation on one element.
void apply(const Operation& o, uint8_t* there, const uint8_t* origin, uint8_t* result, const uint8_t* compared) {
  const auto bytes = static_cast<size_t>(o.basic->bytes);
  if (o.has_result()) std::memcpy(result, there, bytes);
  if (o.call == kPut || o.call == kRput) std::memcpy(there, origin, bytes);
  if (o.reduces()) reduce(o, there, origin);
  if (o.call == kCompareAndSwap && !std::memcmp(there, compared, bytes)) std::memcpy(there, origin, bytes);
}

// Does an operation of a rank on a window's memory. Returns what is in its buffers then.
Bytes do_on(uint8_t* window, const Operation& o, int rank, int round) {
  Bytes origin = first_image(o, rank, round, kOrigin), result = first_image(o, rank, round, kResult);
  const Bytes compared = first_image(o, rank, round, kCompared);
  const auto mine = places(*o.origin, o.origin_count, o.basic->bytes);
  const auto there = places(*o.target, o.target_count, o.basic->bytes);
  const auto begin = static_cast<ptrdiff_t>(begin_of(o));
  for (size_t i = 0; o.peer != MPI_PROC_NULL && i < there.size(); ++i)
    apply(o, window + static_cast<ptrdiff_t>(o.at) + there[i], &origin[static_cast<size_t>(begin + mine[i])],
          &result[static_cast<size_t>(begin + mine[i])], compared.data() + begin);
  origin.insert(origin.end(), result.begin(), result.end());
  origin.insert(origin.end(), compared.begin(), compared.end());
  return origin;
}

// ---- calls ----

int call_with(Issued& i, MPI_Aint at, MPI_Datatype type, MPI_Datatype target_type, MPI_Win win) {
  const Operation& o = i.o;
  void *const origin = i.origin.data(), *const result = i.result.data();
  const int n = o.origin_count, tn = o.target_count;
  // With MPI_NO_OP nobody looks at the origin.
  void* const operand = o.op == MPI_NO_OP && o.slot % 2 == 0 ? nullptr : origin;
  switch (o.call) {
    case kPut: return MPI_Put(origin, n, type, o.peer, at, tn, target_type, win);
    case kGet: return MPI_Get(result, n, type, o.peer, at, tn, target_type, win);
    case kAccumulate: return MPI_Accumulate(origin, n, type, o.peer, at, tn, target_type, o.op, win);
    case kGetAccumulate:
      return MPI_Get_accumulate(operand, n, type, result, n, type, o.peer, at, tn, target_type, o.op, win);
    case kFetchAndOp: return MPI_Fetch_and_op(operand, result, o.basic->type, o.peer, at, o.op, win);
    case kCompareAndSwap:
      return MPI_Compare_and_swap(origin, i.compared.data(), result, o.basic->type, o.peer, at, win);
    case kRput: return MPI_Rput(origin, n, type, o.peer, at, tn, target_type, win, &i.request);
    case kRget: return MPI_Rget(result, n, type, o.peer, at, tn, target_type, win, &i.request);
    case kRaccumulate: return MPI_Raccumulate(origin, n, type, o.peer, at, tn, target_type, o.op, win, &i.request);
    case kRgetAccumulate:
      return MPI_Rget_accumulate(operand, n, type, result, n, type, o.peer, at, tn, target_type, o.op, win, &i.request);
  }
  return MPI_ERR_OTHER;
}

// ---- windows ----

Bytes first_bytes(int rank, int round) {
  Bytes bytes(window_bytes());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(rank, i, round);
  return bytes;
}

class Window {
 public:
  explicit Window(const std::string& kind) : memory_(kind == "create" || kind == "dynamic" ? window_bytes() : 0) {
    const auto bytes = static_cast<MPI_Aint>(window_bytes());
    data_ = memory_.data();
    if (kind == "create") MPI_Win_create(data_, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win_);
    if (kind == "allocate") MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &data_, &win_);
    if (kind == "shared") MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &data_, &win_);
    bases_.resize(static_cast<size_t>(g_size));
    if (kind != "dynamic") return;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win_);
    MPI_Win_attach(win_, data_, bytes);
    MPI_Aint own;
    MPI_Get_address(data_, &own);
    MPI_Allgather(&own, 1, MPI_AINT, bases_.data(), 1, MPI_AINT, MPI_COMM_WORLD);
  }
  ~Window() { MPI_Win_free(&win_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  MPI_Win get() const { return win_; }
  uint8_t* data() const { return data_; }
  MPI_Aint place(int peer, size_t at) const {
    return peer < 0 ? 0 : bases_[static_cast<size_t>(peer)] + static_cast<MPI_Aint>(at);
  }
  void fill(int round) {
    const Bytes first = first_bytes(g_rank, round);
    std::copy(first.begin(), first.end(), data_);
  }

 private:
  Bytes memory_;
  uint8_t* data_ = nullptr;
  std::vector<MPI_Aint> bases_;
  MPI_Win win_ = MPI_WIN_NULL;
};

// ---- one epoch ----

using Call_list = std::vector<std::unique_ptr<Issued>>;

struct Epoch {
  const char* kind;
  const char* window;
  int round;
  std::vector<Bytes> expected;  // in the buffers of each operation
};

void compare(const Epoch& e, size_t k, const Issued& i, const char* when) {
  const Bytes now = i.image(), &wanted = e.expected[k];
  const auto found = std::mismatch(now.begin(), now.end(), wanted.begin());
  if (!checked(found.first == now.end()))
    fail("%s on %s, %s, %s x %d of %s to %d, round %d, %s: wrong byte at %td of %zu, and %zu", kNames[i.o.call],
         e.window, e.kind, i.o.origin->name, i.o.origin_count, i.o.basic->name, i.o.peer, e.round, when,
         found.first - now.begin(), i.o.room(), now.size());
}

void issue(const Epoch& e, Window& window, Issued& i) {
  Type type(*i.o.origin, *i.o.basic), target_type(*i.o.target, *i.o.basic);
  const int rc = call_with(i, window.place(i.o.peer, i.o.at), type.get(), target_type.get(), window.get());
  if (!checked(rc == MPI_SUCCESS)) fail("%s of %s memory, %s: %d", kNames[i.o.call], name_of(i.where), e.kind, rc);
}

void end_one(const Epoch& e, size_t k, Issued& i) {
  int done = 0;
  if (i.o.ending == kWait || (i.o.ending == kFreed && i.where == Where::host))
    MPI_Wait(&i.request, MPI_STATUS_IGNORE);
  else if (i.o.ending == kTest)
    while (!done) MPI_Test(&i.request, &done, MPI_STATUS_IGNORE);
  else if (i.o.ending == kFreed)
    MPI_Request_free(&i.request);
  else
    return;
  if (i.o.ending != kFreed) compare(e, k, i, "after its request");
}

// Ends the requests that are not ended afterwards.
void end_requests(const Epoch& e, Call_list& calls) {
  std::vector<MPI_Request> several;
  for (size_t k = 0; k < calls.size(); ++k) {
    Issued& i = *calls[k];
    if (i.request == MPI_REQUEST_NULL) continue;
    if (i.o.ending == kWaitany) {
      several.push_back(i.request);
      i.request = MPI_REQUEST_NULL;
    } else {
      end_one(e, k, i);
    }
  }
  int which = 0;
  for (size_t n = 0; n < several.size(); ++n)
    MPI_Waitany(static_cast<int>(several.size()), several.data(), &which, MPI_STATUS_IGNORE);
}

void compare_all(const Epoch& e, const Call_list& calls, const char* when) {
  for (size_t k = 0; k < calls.size(); ++k) compare(e, k, *calls[k], when);
}

void end_afterwards(const Epoch& e, Call_list& calls) {
  for (auto& call : calls)
    if (call->request != MPI_REQUEST_NULL) MPI_Wait(&call->request, MPI_STATUS_IGNORE);
  compare_all(e, calls, "after all");
}

void issue_all(const Epoch& e, Window& window, Call_list& calls) {
  for (auto& call : calls) issue(e, window, *call);
}

void for_each_peer(const Call_list& calls, const std::function<void(int)>& body) {
  std::vector<bool> seen(static_cast<size_t>(g_size));
  for (const auto& call : calls) {
    if (call->o.peer < 0 || seen[static_cast<size_t>(call->o.peer)]) continue;
    seen[static_cast<size_t>(call->o.peer)] = true;
    body(call->o.peer);
  }
}

void by_fence(const Epoch& e, Window& window, Call_list& calls) {
  MPI_Win_fence(MPI_MODE_NOPRECEDE, window.get());
  issue_all(e, window, calls);
  MPI_Win_fence(0, window.get());
  compare_all(e, calls, "after the fence");
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window.get());
}

void by_start(const Epoch& e, Window& window, Call_list& calls) {
  MPI_Group all;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Win_post(all, 0, window.get());
  MPI_Win_start(all, 0, window.get());
  issue_all(e, window, calls);
  MPI_Win_complete(window.get());
  compare_all(e, calls, "after MPI_Win_complete");
  MPI_Win_wait(window.get());
  MPI_Group_free(&all);
}

void by_locks(const Epoch& e, Window& window, Call_list& calls) {
  for_each_peer(calls, [&](int peer) { MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, window.get()); });
  issue_all(e, window, calls);
  end_requests(e, calls);
  for_each_peer(calls, [&](int peer) {
    MPI_Win_unlock(peer, window.get());
    for (size_t k = 0; k < calls.size(); ++k)
      if (calls[k]->o.peer == peer) compare(e, k, *calls[k], "after MPI_Win_unlock");
  });
  end_afterwards(e, calls);
}

// One target at a time, as ranks could wait for each other.
void by_exclusive_locks(const Epoch& e, Window& window, Call_list& calls) {
  for_each_peer(calls, [&](int peer) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, window.get());
    for (auto& call : calls)
      if (call->o.peer == peer) issue(e, window, *call);
    MPI_Win_unlock(peer, window.get());
    for (size_t k = 0; k < calls.size(); ++k)
      if (calls[k]->o.peer == peer) compare(e, k, *calls[k], "after an exclusive lock");
  });
  end_requests(e, calls);
  end_afterwards(e, calls);
}

// The functions that complete operations on a window that is locked.
enum Flush { kFlush, kFlushAll, kFlushLocal, kFlushLocalAll, kUnlockAll };
template <Flush flush>
void by_lock_all(const Epoch& e, Window& window, Call_list& calls) {
  MPI_Win_lock_all(0, window.get());
  issue_all(e, window, calls);
  if (e.round % 2 == 0) end_requests(e, calls);
  for_each_peer(calls, [&](int peer) {
    if (flush == kFlush) MPI_Win_flush(peer, window.get());
    if (flush == kFlushLocal) MPI_Win_flush_local(peer, window.get());
    for (size_t k = 0; k < calls.size() && (flush == kFlush || flush == kFlushLocal); ++k)
      if (calls[k]->o.peer == peer) compare(e, k, *calls[k], "after a flush");
  });
  if (flush == kFlushAll) MPI_Win_flush_all(window.get());
  if (flush == kFlushLocalAll) MPI_Win_flush_local_all(window.get());
  if (flush == kFlushAll || flush == kFlushLocalAll) compare_all(e, calls, "after a flush of all");
  end_requests(e, calls);
  MPI_Win_unlock_all(window.get());
  compare_all(e, calls, "after MPI_Win_unlock_all");
  end_afterwards(e, calls);
}

struct Kind {
  const char* name;
  bool passive;
  void (*run)(const Epoch& e, Window& window, Call_list& calls);
};
const Kind kKinds[] = {{"fence", false, by_fence},
                       {"start", false, by_start},
                       {"shared locks", true, by_locks},
                       {"exclusive locks", true, by_exclusive_locks},
                       {"flush", true, by_lock_all<kFlush>},
                       {"flush_all", true, by_lock_all<kFlushAll>},
                       {"flush_local", true, by_lock_all<kFlushLocal>},
                       {"flush_local_all", true, by_lock_all<kFlushLocalAll>},
                       {"unlock_all", true, by_lock_all<kUnlockAll>}};

// Returns what a rank does in an epoch. All ranks add to the same place, too.
std::vector<Operation> draw_all(int kind, int round, int rank) {
  Draws draws(kind, round, rank);
  std::vector<Operation> all;
  for (int slot = 0; slot < kSlots; ++slot)
    if (round == 0 || draws.below(4) != 0) all.push_back(draw(draws, rank, slot, kKinds[kind].passive));
  Operation sum;
  sum.call = kAccumulate;
  sum.origin_count = sum.target_count = 57;
  sum.peer = round % g_size;
  sum.at = slot_at(g_size, 0);
  all.push_back(sum);
  return all;
}

// Does what all ranks do in an epoch on a model of the windows. Returns this rank's window then, and stores what is in
// its buffers.
Bytes model(int kind, int round, std::vector<Bytes>* images) {
  std::vector<Bytes> windows;
  for (int rank = 0; rank < g_size; ++rank) windows.push_back(first_bytes(rank, round));
  for (int rank = 0; rank < g_size; ++rank)
    for (const Operation& o : draw_all(kind, round, rank)) {
      const Bytes image = do_on(windows[static_cast<size_t>(std::max(o.peer, 0))].data(), o, rank, round);
      if (rank == g_rank) images->push_back(image);
    }
  return windows[static_cast<size_t>(g_rank)];
}

void run(Where where, Window& window, const char* name, int kind, int round) {
  Epoch e = {kKinds[kind].name, name, round, {}};
  const Bytes wanted = model(kind, round, &e.expected);
  Call_list calls;
  for (const Operation& o : draw_all(kind, round, g_rank)) calls.push_back(std::make_unique<Issued>(where, o, round));
  window.fill(round);
  MPI_Barrier(MPI_COMM_WORLD);
  kKinds[kind].run(e, window, calls);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto found = std::mismatch(wanted.begin(), wanted.end(), window.data());
  if (!checked(found.first == wanted.end()))
    fail("%s, %s, round %d: the window differs at %td", name, e.kind, round, found.first - wanted.begin());
  MPI_Barrier(MPI_COMM_WORLD);
}

void every_call(Where where, const std::string& name) {
  Window window(name);
  for (int kind = 0; kind < static_cast<int>(std::size(kKinds)); ++kind) {
    if (kKinds[kind].run == by_lock_all<kFlushLocal> && !g_component.flushes_locally()) continue;
    for (int round = 0; round < g_component.epochs(); ++round) run(where, window, name.c_str(), kind, round);
  }
}

// ---- others ----

// Many small operations under way at once, more than the system gives mappings.
void many_at_once(const std::string& kind) {
  const int many = g_component.many();
  Window window(kind);
  window.fill(5);
  Memory results(Where::device, static_cast<size_t>(many));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window.get());
  const int peer = (g_rank + 1) % g_size;
  for (int i = 0; i < many; ++i)
    MPI_Get(results.at(i), 1, MPI_BYTE, peer, window.place(peer, static_cast<size_t>(i)), 1, MPI_BYTE, window.get());
  MPI_Win_flush_local_all(window.get());
  Bytes got(results.bytes());
  results.read(got.data());
  for (size_t i = 0; i < got.size(); ++i)
    if (!checked(got[i] == pattern(peer, i, 5))) fail("%s, many MPI_Get: wrong byte %zu", kind.c_str(), i);
  MPI_Win_unlock_all(window.get());
}

// A type of absolute addresses, and one for which there is no memory.
void absolute_and_far(const std::string& kind) {
  Window window(kind);
  window.fill(6);
  MPI_Win_set_errhandler(window.get(), MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  Memory first(Where::device, 40), second(Where::device, 40);
  const int peer = (g_rank + 1) % g_size, lengths[] = {11, 6}, far_lengths[] = {1, 1};
  MPI_Aint places[2];
  const MPI_Aint far_places[] = {0, MPI_Aint{1} << 47};
  MPI_Get_address(first.at(3), &places[0]);
  MPI_Get_address(second.at(5), &places[1]);
  MPI_Datatype type, far_type;
  MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &type);
  MPI_Type_create_hindexed(2, far_lengths, far_places, MPI_BYTE, &far_type);
  MPI_Type_commit(&type);
  MPI_Type_commit(&far_type);
  Bytes bytes(40, 1);
  first.write(bytes.data());
  second.write(bytes.data());
  MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, window.get());
  MPI_Request request;
  const MPI_Aint at = window.place(peer, 0);
  const int put = class_of(MPI_Put(first.at(0), 1, far_type, peer, at, 2, MPI_BYTE, window.get()));
  const int got = class_of(MPI_Rget(first.at(0), 1, far_type, peer, at, 2, MPI_BYTE, window.get(), &request));
  if (!checked(put == MPI_ERR_NO_MEM && got == MPI_ERR_NO_MEM)) fail("without memory: classes %d and %d", put, got);
  MPI_Get(MPI_BOTTOM, 1, type, peer, at, 17, MPI_BYTE, window.get());
  MPI_Win_unlock(peer, window.get());
  Bytes got_first(40), got_second(40);
  first.read(got_first.data());
  second.read(got_second.data());
  for (size_t i = 0; i < 40; ++i) {
    const uint8_t a = i >= 3 && i < 14 ? pattern(peer, i - 3, 6) : 1,
                  b = i >= 5 && i < 11 ? pattern(peer, i + 6, 6) : 1;
    if (!checked(got_first[i] == a && got_second[i] == b)) fail("%s, MPI_BOTTOM: wrong byte %zu", kind.c_str(), i);
  }
  MPI_Type_free(&type);
  MPI_Type_free(&far_type);
}

// Outside of an epoch a component that looks refuses memory of both kinds.
void outside_of_epochs(const std::string& kind) {
  Window window(kind);
  MPI_Win_set_errhandler(window.get(), MPI_ERRORS_RETURN);
  Memory host(Where::host, 64), device(Where::device, 64);
  const int peer = (g_rank + 1) % g_size;
  const MPI_Aint at = window.place(peer, 0);
  const int wanted = class_of(MPI_Get(host.at(0), 64, MPI_BYTE, peer, at, 64, MPI_BYTE, window.get()));
  if (wanted == MPI_SUCCESS) return;
  const int found = class_of(MPI_Get(device.at(0), 64, MPI_BYTE, peer, at, 64, MPI_BYTE, window.get()));
  if (!checked(found == wanted)) fail("%s, outside of an epoch: class %d instead of %d", kind.c_str(), found, wanted);
}

// Several threads of a rank on one window, each in a slot of its own.
void slots_of_threads(const std::string& kind) {
  constexpr int kThreads = 4, kRounds = 150;
  Window window(kind);
  window.fill(7);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window.get());
  on_threads(kThreads, [&](int t) {
    Draws draws(t, 9, g_rank);
    Memory origin(Where::device, 5000), result(Where::device, 5000);
    Bytes sent(5000), got(5000);
    for (int round = 0; round < kRounds; ++round) {
      const int peer = draws.below(g_size), n = 1 + draws.below(round % 5 == 0 ? 5000 : 60);
      const MPI_Aint at = window.place(peer, slot_at(g_rank, t) + static_cast<size_t>(draws.below(90)));
      for (size_t i = 0; i < sent.size(); ++i) sent[i] = pattern(g_rank + t, i, round);
      origin.write(sent.data());
      MPI_Put(origin.at(0), n, MPI_BYTE, peer, at, n, MPI_BYTE, window.get());
      MPI_Win_flush(peer, window.get());
      MPI_Request request = MPI_REQUEST_NULL;
      if (round % 2 == 0)
        MPI_Get(result.at(0), n, MPI_BYTE, peer, at, n, MPI_BYTE, window.get());
      else
        MPI_Rget(result.at(0), n, MPI_BYTE, peer, at, n, MPI_BYTE, window.get(), &request);
      if (round % 4 != 1) MPI_Win_flush_all(window.get());
      if (round % 4 == 3) result.read(got.data());
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (round % 4 != 3) result.read(got.data());
      if (!checked(std::equal(got.begin(), got.begin() + n, sent.begin()))) fail("thread %d, round %d", t, round);
    }
  });
  MPI_Win_unlock_all(window.get());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  const bool threads = word == "threads", host = word == "host";
  const int first = threads || host ? 2 : 1;
  if (argc > first) g_component.name = argv[first];
  Mpi mpi(argc, argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  use_own_device();
  for (int w = first + 1; w < argc; ++w) {
    if (threads) {
      if (mpi.threads() == MPI_THREAD_MULTIPLE) slots_of_threads(argv[w]);
      checked(true);
      continue;
    }
    every_call(host ? Where::host : Where::device, argv[w]);
    if (host) continue;
    absolute_and_far(argv[w]);
    outside_of_epochs(argv[w]);
    many_at_once(argv[w]);
  }
  return mpi.finish("one_sided_origins");
}
