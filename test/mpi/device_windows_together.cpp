// Windows of device memory with several things at once: targets, requests, windows, communicators, threads, and other
// traffic; and what they refuse.
#include <memory>

#include "device_windows.h"

namespace {
using namespace windows;

void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
int id(int from, int to, int turn) { return from * 10007 + to * 101 + turn; }

// Ints in memory of some kind, of which MPI sees elements.
class Ints {
 public:
  Ints(Where where, size_t n, int value = -1) : memory_(where, n * sizeof(int)), values_(n, value) { store(); }
  void* at(size_t i) const { return memory_.at(static_cast<ptrdiff_t>(i * sizeof(int))); }
  std::vector<int>& values() { return values_; }
  void store() { memory_.write(values_.data()); }
  const std::vector<int>& load() {
    memory_.read(values_.data());
    return values_;
  }

 private:
  Memory memory_;
  std::vector<int> values_;
};

class IntWindow {
 public:
  IntWindow(Where where, size_t n, MPI_Comm comm = MPI_COMM_WORLD, int value = -1) : ints_(where, n, value) {
    MPI_Win_create(ints_.at(0), static_cast<MPI_Aint>(n * sizeof(int)), sizeof(int), MPI_INFO_NULL, comm, &window_);
  }
  ~IntWindow() { MPI_Win_free(&window_); }
  IntWindow(const IntWindow&) = delete;
  IntWindow& operator=(const IntWindow&) = delete;
  MPI_Win get() const { return window_; }
  Ints& ints() { return ints_; }

 private:
  Ints ints_;
  MPI_Win window_ = MPI_WIN_NULL;
};

void expect(const char* what, int got, int wanted, int at) {
  if (!checked(got == wanted)) fail("%s: %d instead of %d at %d", what, got, wanted, at);
}

// Each rank has a place in each rank's window.
void expect_places(const char* what, IntWindow& window, int turn) {
  const std::vector<int>& now = window.ints().load();
  for (int r = 0; r < g_size; ++r) expect(what, now[static_cast<size_t>(r)], id(r, g_rank, turn), r);
}

// ---- many targets ----

void to_all(IntWindow& window, Ints& values, int turn) {
  for (int r = 0; r < g_size; ++r) values.values()[static_cast<size_t>(r)] = id(g_rank, r, turn);
  values.store();
  for (int r = 0; r < g_size; ++r)
    MPI_Put(values.at(static_cast<size_t>(r)), 1, MPI_INT, r, g_rank, 1, MPI_INT, window.get());
}

void in_all_epochs() {
  const auto n = static_cast<size_t>(g_size);
  IntWindow window(Where::device, n);
  Ints values(Where::device, n);
  MPI_Group all;
  MPI_Win_get_group(window.get(), &all);
  for (int turn = 0; turn < 8; ++turn) {
    MPI_Win_fence(0, window.get());
    to_all(window, values, turn);
    MPI_Win_fence(0, window.get());
    expect_places("fences", window, turn);
    barrier();
    MPI_Win_post(all, 0, window.get());
    MPI_Win_start(all, 0, window.get());
    to_all(window, values, turn + 100);
    MPI_Win_complete(window.get());
    MPI_Win_wait(window.get());
    expect_places("post and start with all", window, turn + 100);
    barrier();
    MPI_Win_lock_all(0, window.get());
    to_all(window, values, turn + 200);
    turn % 2 ? MPI_Win_flush_all(window.get()) : MPI_Win_flush_local_all(window.get());
    MPI_Win_unlock_all(window.get());
    barrier();
    expect_places("a lock of all", window, turn + 200);
    barrier();
  }
  MPI_Group_free(&all);
}

// Rank 0 exposes its memory to all others again and again, which run ahead of it and of each other.
void one_for_all() {
  IntWindow window(Where::device, static_cast<size_t>(g_size), MPI_COMM_WORLD, 0);
  MPI_Group all, zero, others;
  MPI_Win_get_group(window.get(), &all);
  const int first = 0;
  MPI_Group_incl(all, 1, &first, &zero);
  MPI_Group_excl(all, 1, &first, &others);
  for (int turn = 1; turn <= 20; ++turn) {
    if (g_rank == 0) {
      MPI_Win_post(others, 0, window.get());
      MPI_Win_wait(window.get());
      for (int r = 1; r < g_size; ++r)
        expect("an exposure", window.ints().load()[static_cast<size_t>(r)], id(r, 0, turn), r);
      continue;
    }
    const int value = id(g_rank, 0, turn);
    MPI_Win_start(zero, 0, window.get());
    MPI_Put(&value, 1, MPI_INT, 0, g_rank, 1, MPI_INT, window.get());
    MPI_Win_complete(window.get());
  }
  for (MPI_Group* group : {&all, &zero, &others}) MPI_Group_free(group);
}

// More operations than are under way at a time.
void a_flood() {
  constexpr int kMany = 5000;
  IntWindow window(Where::device, kMany, MPI_COMM_WORLD, 0);
  std::vector<int> values(kMany);
  for (int i = 0; i < kMany; ++i) values[static_cast<size_t>(i)] = id(g_rank, i, 0);
  MPI_Win_fence(0, window.get());
  for (int i = 0; i < kMany; ++i)
    MPI_Put(&values[static_cast<size_t>(i)], 1, MPI_INT, next(), i, 1, MPI_INT, window.get());
  MPI_Win_fence(0, window.get());
  const std::vector<int>& now = window.ints().load();
  for (int i = 0; i < kMany; ++i) expect("a flood", now[static_cast<size_t>(i)], id(previous(), i, 0), i);
}

// ---- requests ----

// Operations with requests, of which each has a place of its own in the window, and an origin and a result.
class Requests {
 public:
  static constexpr int kTurns = 30, kCount = 321;
  explicit Requests(MPI_Win win) : win_(win), pending_(kTurns, MPI_REQUEST_NULL) {
    for (int turn = 0; turn < kTurns; ++turn) {
      origins_.push_back(std::make_unique<Ints>(turn % 3 ? Where::device : Where::host, kCount, id(g_rank, turn, 1)));
      results_.push_back(std::make_unique<Ints>(turn % 2 ? Where::device : Where::host, kCount));
    }
  }
  void store(int turn) {
    void* const origin = origins_[static_cast<size_t>(turn)]->at(0);
    MPI_Request* const request = &pending_[static_cast<size_t>(turn)];
    const int at = turn * kCount;
    if (turn % 2)
      MPI_Rput(origin, kCount, MPI_INT, next(), at, kCount, MPI_INT, win_, request);
    else
      MPI_Raccumulate(origin, kCount, MPI_INT, next(), at, kCount, MPI_INT, MPI_SUM, win_, request);
  }
  void fetch(int turn) {
    void* const origin = origins_[static_cast<size_t>(turn)]->at(0);
    void* const result = results_[static_cast<size_t>(turn)]->at(0);
    MPI_Request* const request = &pending_[static_cast<size_t>(turn)];
    const int at = turn * kCount;
    if (turn % 2)
      MPI_Rget(result, kCount, MPI_INT, next(), at, kCount, MPI_INT, win_, request);
    else
      MPI_Rget_accumulate(origin, kCount, MPI_INT, result, kCount, MPI_INT, next(), at, kCount, MPI_INT, MPI_REPLACE,
                          win_, request);
  }
  void wait_for_all() { MPI_Waitall(kTurns, pending_.data(), MPI_STATUSES_IGNORE); }
  // Waits for one, which has fetched what the rank stored before.
  void expect_one() {
    int i = 0;
    MPI_Waitany(kTurns, pending_.data(), &i, MPI_STATUS_IGNORE);
    expect("a request's result", results_[static_cast<size_t>(i)]->load()[kCount - 1], id(g_rank, i, 1), i);
  }

 private:
  MPI_Win win_;
  std::vector<std::unique_ptr<Ints>> origins_, results_;
  std::vector<MPI_Request> pending_;
};

void requests_of_nothing(MPI_Win win) {
  MPI_Request none = MPI_REQUEST_NULL;
  int value = 0;
  MPI_Rput(nullptr, 0, MPI_INT, next(), 0, 0, MPI_INT, win, &none);
  MPI_Wait(&none, MPI_STATUS_IGNORE);
  MPI_Rget(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &none);
  MPI_Wait(&none, MPI_STATUS_IGNORE);
}

void requests() {
  IntWindow window(Where::device, Requests::kTurns * Requests::kCount, MPI_COMM_WORLD, 0);
  Requests requests(window.get());
  MPI_Win_lock_all(0, window.get());
  barrier();
  for (int turn = 0; turn < Requests::kTurns; ++turn) requests.store(turn);
  requests.wait_for_all();
  MPI_Win_flush_all(window.get());
  for (int turn = 0; turn < Requests::kTurns; ++turn) requests.fetch(turn);
  for (int turn = 0; turn < Requests::kTurns; ++turn) requests.expect_one();
  requests_of_nothing(window.get());
  MPI_Win_unlock_all(window.get());
  barrier();
}

// ---- windows and communicators ----

// The ranks of a window are those of its communicator.
void on_other_communicators() {
  MPI_Comm reversed, halves;
  MPI_Comm_split(MPI_COMM_WORLD, 0, g_size - g_rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, g_rank, &halves);
  for (const MPI_Comm comm : {reversed, halves, MPI_COMM_SELF}) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    IntWindow window(Where::device, 3, comm);
    const int value = id(g_rank, rank, size), to = (rank + 1) % size;
    std::vector<int> all(static_cast<size_t>(size));
    MPI_Allgather(&value, 1, MPI_INT, all.data(), 1, MPI_INT, comm);
    MPI_Win_fence(0, window.get());
    MPI_Put(&value, 1, MPI_INT, to, 1, 1, MPI_INT, window.get());
    MPI_Win_fence(0, window.get());
    expect("another communicator", window.ints().load()[1], all[static_cast<size_t>((rank + size - 1) % size)], size);
  }
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&halves);
}

// Accesses of several windows at once, two of them of the same memory, beside messages and collectives.
void several_windows() {
  constexpr int kCount = 4000;
  IntWindow first(Where::device, kCount), second(Where::device, kCount);
  MPI_Win same = MPI_WIN_NULL;
  MPI_Win_create(first.ints().at(kCount / 2), kCount / 2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                 &same);
  Ints one(Where::device, kCount, id(g_rank, 1, 0)), two(Where::device, kCount, id(g_rank, 2, 0)),
      sum(Where::device, 100, 1);
  Ints message(Where::device, kCount, g_rank), received(Where::device, kCount);
  for (const MPI_Win win : {first.get(), second.get(), same}) MPI_Win_fence(0, win);
  MPI_Put(one.at(0), kCount / 2, MPI_INT, next(), 0, kCount / 2, MPI_INT, first.get());
  MPI_Put(two.at(0), kCount, MPI_INT, next(), 0, kCount, MPI_INT, second.get());
  MPI_Put(two.at(0), kCount / 2, MPI_INT, previous(), 0, kCount / 2, MPI_INT, same);
  MPI_Sendrecv(message.at(0), kCount, MPI_INT, next(), 1, received.at(0), kCount, MPI_INT, previous(), 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Allreduce(MPI_IN_PLACE, sum.at(0), 100, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (const MPI_Win win : {same, second.get(), first.get()}) MPI_Win_fence(0, win);
  expect("the first window", first.ints().load()[kCount / 2 - 1], id(previous(), 1, 0), 0);
  expect("a window of the same memory", first.ints().load()[kCount - 1], id(next(), 2, 0), 0);
  expect("the second window", second.ints().load()[kCount - 1], id(previous(), 2, 0), 0);
  expect("a message beside windows", received.load()[kCount - 1], previous(), 0);
  expect("a collective beside windows", sum.load()[99], g_size, 0);
  MPI_Win_free(&same);
}

void attributes() {
  Ints ints(Where::device, 10);
  MPI_Win win;
  MPI_Win_create(ints.at(0), 40, 2, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  void* base = nullptr;
  MPI_Aint* size = nullptr;
  int *unit = nullptr, *flavor = nullptr, *model = nullptr, flag = 0;
  MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
  MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag);
  MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag);
  MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
  MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
  if (!checked(base == ints.at(0) && *size == 40 && *unit == 2 && *flavor == MPI_WIN_FLAVOR_CREATE &&
               *model == MPI_WIN_UNIFIED))
    fail("the window's attributes are %p, %ld, %d, %d, %d", base, static_cast<long>(*size), *unit, *flavor, *model);
  MPI_Win_free(&win);
}

// A put or get may have fewer data than there is room for, as a message may.
void fewer_data_than_room() {
  IntWindow window(Where::device, 6, MPI_COMM_WORLD, 1);
  Ints origin(Where::device, 2, 2), result(Where::device, 4, 3);
  MPI_Win_fence(0, window.get());
  MPI_Put(origin.at(0), 2, MPI_INT, next(), 1, 4, MPI_INT, window.get());
  MPI_Win_fence(0, window.get());
  MPI_Get(result.at(0), 4, MPI_INT, next(), 2, 2, MPI_INT, window.get());
  MPI_Win_fence(0, window.get());
  const std::vector<int> wanted = {1, 2, 2, 1, 1, 1}, gotten = {2, 1, 3, 3};
  for (size_t i = 0; i < 6; ++i)
    expect("fewer data than room", window.ints().load()[i], wanted[i], static_cast<int>(i));
  for (size_t i = 0; i < 4; ++i) expect("room for more data", result.load()[i], gotten[i], static_cast<int>(i));
}

// ---- what is refused ----

void expect_class(const char* what, int rc, int wanted) {
  if (!checked(class_of(rc) == wanted)) fail("%s: class %d instead of %d", what, class_of(rc), wanted);
}

void refusals() {
  IntWindow window(Where::device, 10);
  const MPI_Win win = window.get();
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  Ints ints(Where::device, 100, 5);
  int flag = 0;
  expect_class("MPI_Put outside of an epoch", MPI_Put(ints.at(0), 1, MPI_INT, next(), 0, 1, MPI_INT, win),
               MPI_ERR_RMA_SYNC);
  expect_class("MPI_Win_flush without a lock", MPI_Win_flush(next(), win), MPI_ERR_RMA_SYNC);
  expect_class("MPI_Win_unlock without a lock", MPI_Win_unlock(next(), win), MPI_ERR_RMA_SYNC);
  expect_class("MPI_Win_unlock_all without a lock", MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
  expect_class("MPI_Win_complete without a start", MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
  expect_class("MPI_Win_wait without a post", MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
  expect_class("MPI_Win_test without a post", MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
  MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, win);
  expect_class("a second lock", MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, win), MPI_ERR_RMA_SYNC);
  expect_class("a lock of all", MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
  expect_class("a start beside a lock", MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
  for (int rank : {-1, g_size, 1 << 28})
    for (auto flush : {MPI_Win_flush, MPI_Win_flush_local})
      expect_class("a flush of a rank that there is not", flush(rank, win), MPI_ERR_RANK);
  expect_class("a flush of no rank", MPI_Win_flush(MPI_PROC_NULL, win), MPI_SUCCESS);
  expect_class("MPI_Put beyond the end", MPI_Put(ints.at(0), 2, MPI_INT, next(), 9, 2, MPI_INT, win),
               MPI_ERR_RMA_RANGE);
  expect_class("MPI_Get beyond the end", MPI_Get(ints.at(0), 11, MPI_INT, next(), 0, 11, MPI_INT, win),
               MPI_ERR_RMA_RANGE);
  expect_class("MPI_Get far away", MPI_Get(ints.at(0), 1, MPI_INT, next(), MPI_Aint{1} << 61, 1, MPI_INT, win),
               MPI_ERR_RMA_RANGE);
  expect_class("MPI_Put of more than fits", MPI_Put(ints.at(0), 3, MPI_INT, next(), 0, 2, MPI_INT, win), MPI_ERR_TYPE);
  expect_class("MPI_Get of more than fits", MPI_Get(ints.at(0), 2, MPI_INT, next(), 0, 3, MPI_INT, win), MPI_ERR_TYPE);
  expect_class("bits of a double", MPI_Fetch_and_op(ints.at(0), ints.at(10), MPI_DOUBLE, next(), 0, MPI_BAND, win),
               MPI_ERR_OP);
  expect_class("MPI_Put at the end", MPI_Put(ints.at(0), 1, MPI_INT, next(), 9, 1, MPI_INT, win), MPI_SUCCESS);
  expect_class("MPI_Win_unlock", MPI_Win_unlock(next(), win), MPI_SUCCESS);
  barrier();
  expect("a put beside what is refused", window.ints().load()[9], 5, 9);
  expect_class("MPI_Win_attach", MPI_Win_attach(win, ints.at(0), 4), MPI_ERR_RMA_FLAVOR);
}

// ---- threads ----

// Each thread has places of its own in each rank's window, a counter with all others, and a window of its own.
void by_thread(IntWindow& shared, IntWindow& own, MPI_Win counters, int t) {
  constexpr int kTurns = 40, kCount = 50;
  Ints values(t % 2 ? Where::device : Where::host, kCount), back(Where::device, kCount);
  const long one = 1;
  long old = -1, last = -1;
  for (int turn = 0; turn < kTurns; ++turn) {
    const int to = (g_rank + turn) % g_size, at = (g_rank * 4 + t) * kCount;
    std::fill(values.values().begin(), values.values().end(), id(g_rank, t, turn));
    values.store();
    MPI_Put(values.at(0), kCount, MPI_INT, to, at, kCount, MPI_INT, shared.get());
    MPI_Win_flush(to, shared.get());
    MPI_Get(back.at(0), kCount, MPI_INT, to, at, kCount, MPI_INT, shared.get());
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, counters);
    MPI_Win_flush(to, shared.get());
    MPI_Win_flush(0, counters);
    expect("a thread's put", back.load()[kCount - 1], id(g_rank, t, turn), turn);
    if (!checked(old > last)) fail("a counter of threads goes from %ld to %ld", last, old);
    last = old;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, own.get());
    MPI_Accumulate(values.at(0), 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, own.get());
    MPI_Win_unlock(to, own.get());
  }
}

void threads() {
  constexpr int kThreads = 4;
  g_keep_memory = true;
  IntWindow shared(Where::device, static_cast<size_t>(g_size) * kThreads * 50);
  Memory counter(Where::device, sizeof(long));
  const long zero = 0;
  counter.write(&zero);
  MPI_Win counters;
  MPI_Win_create(counter.at(0), sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &counters);
  std::vector<std::unique_ptr<IntWindow>> own;
  for (int t = 0; t < kThreads; ++t) own.push_back(std::make_unique<IntWindow>(Where::device, 1, MPI_COMM_WORLD, 0));
  MPI_Win_lock_all(0, shared.get());
  MPI_Win_lock_all(0, counters);
  on_threads(kThreads, [&](int t) { by_thread(shared, *own[static_cast<size_t>(t)], counters, t); });
  MPI_Win_unlock_all(counters);
  MPI_Win_unlock_all(shared.get());
  barrier();
  long total = -1;
  counter.read(&total);
  if (g_rank == 0 && !checked(total == long{g_size} * kThreads * 40)) fail("threads have counted to %ld", total);
  for (int t = 0; t < kThreads; ++t) {
    int sum = 0;
    for (int r = 0; r < g_size; ++r)
      for (int turn = 0; turn < 40; ++turn) sum += (r + turn) % g_size == g_rank ? id(r, t, turn) : 0;
    expect("a sum of threads", own[static_cast<size_t>(t)]->ints().load()[0], sum, t);
  }
  barrier();
  MPI_Win_free(&counters);
}

void one_thread() {
  in_all_epochs();
  one_for_all();
  a_flood();
  requests();
  on_other_communicators();
  several_windows();
  attributes();
  fewer_data_than_room();
  refusals();
}

// Leaves a window to MPI_Finalize, behind operations and with a lock that is held. Rank 0 alone has used a device
// besides.
int leave_a_window(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  static Ints ints(g_rank == 0 ? Where::device : Where::host, 100, 0);  // it lives longer than MPI
  MPI_Win win;
  MPI_Win_create(ints.at(0), 400, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  if (g_rank == 0) MPI_Reduce_local(ints.at(50), ints.at(10), 10, MPI_INT, MPI_SUM);
  MPI_Win_lock_all(0, win);
  MPI_Put(&g_rank, 1, MPI_INT, next(), 0, 1, MPI_INT, win);
  MPI_Win_flush(next(), win);
  barrier();
  expect("a window that is left", ints.load()[0], previous(), 0);
  return mpi.finish("device_windows_together left");
}

// Windows of host memory need no agreement on who carries them.
void host_memory() {
  IntWindow window(Where::host, 10);
  MPI_Win_fence(0, window.get());
  MPI_Put(&g_rank, 1, MPI_INT, next(), 0, 1, MPI_INT, window.get());
  MPI_Win_fence(0, window.get());
  expect("a window of host memory", window.ints().load()[0], previous(), 0);
}

int use_host_memory(int argc, char** argv) {
  Mpi mpi(argc, argv);
  host_memory();
  return mpi.finish("device_windows_together host");
}

// Prints how long the fastest MPI_Put with MPI_Win_flush takes: on a busy machine the others tell of what else it does.
void time_puts(int bytes) {
  constexpr int kTurns = 300;
  IntWindow window(Where::device, static_cast<size_t>(bytes) / sizeof(int));
  Ints values(Where::device, static_cast<size_t>(bytes) / sizeof(int));
  MPI_Win_lock_all(0, window.get());
  double fastest = 1e9;
  for (int turn = 0; g_rank == 0 && turn < kTurns; ++turn) {
    const double begin = MPI_Wtime();
    MPI_Put(values.at(0), bytes, MPI_BYTE, next(), 0, bytes, MPI_BYTE, window.get());
    MPI_Win_flush(next(), window.get());
    fastest = std::min(fastest, MPI_Wtime() - begin);
  }
  if (g_rank == 0) std::printf("MPI_Put of %d bytes and MPI_Win_flush: %.1f us\n", bytes, fastest * 1e6);
  barrier();
  MPI_Win_unlock_all(window.get());
  checked(true);
}

int measure(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  for (const int bytes : {8, 4096, 65536, 1 << 20}) time_puts(bytes);
  return mpi.finish("device_windows_together times");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "left") return leave_a_window(argc, argv);
  if (word == "host") return use_host_memory(argc, argv);
  if (word == "times") return measure(argc, argv);
  return main_of(argc, argv, "device_windows_together", one_thread, threads);
}
