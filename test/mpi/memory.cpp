// Memory that comes and goes between collectives: buffers freed and allocated anew at the same addresses, of other
// sizes, kinds and devices, inside of allocations or as large as them; and what collectives themselves take, and give
// back. usage: memory [ROUNDS [SEED]]
//
// Everything about a round follows from its seed, so every rank knows every other rank's input.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "call_form.h"

namespace {
using namespace mpi_test;

size_t z(int value) { return static_cast<size_t>(value); }
uint64_t u(int value) { return static_cast<uint64_t>(value); }

// ---- buffers anew ----

enum class Kind { host, device, best, other_device };

// Freed at once, so that the next one gets its address.
class Buffer {
 public:
  Buffer(Kind kind, size_t bytes, size_t inside) : kind_(kind) {
    if (kind == Kind::host) {
      data_ = std::malloc(bytes + inside);
    } else if (kind == Kind::best) {
      need(gpucollMemAlloc(&data_, bytes + inside), "gpucollMemAlloc");
    } else {
      if (kind == Kind::other_device) choose(1);
      need(gpucollMalloc(&data_, bytes + inside), "gpucollMalloc");
      if (kind == Kind::other_device) choose(0);
    }
    at_ = static_cast<char*>(data_) + inside;
  }
  ~Buffer() {
    if (kind_ == Kind::host)
      std::free(data_);
    else
      need(kind_ == Kind::best ? gpucollMemFree(data_) : gpucollFree(data_), "gpucollFree");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  bool on_device() const { return kind_ != Kind::host; }
  void* data() const { return data_; }
  int* at() const { return reinterpret_cast<int*>(at_); }
  void write(const std::vector<int>& from) { need(gpucollMemcpy(at_, from.data(), 4 * from.size()), "gpucollMemcpy"); }
  std::vector<int> read(size_t n) const {
    std::vector<int> to(n);
    need(gpucollMemcpy(to.data(), at_, 4 * n), "gpucollMemcpy");
    return to;
  }

 private:
  static void choose(int beside) {
    int devices = 1;
    need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
    need(gpucollSetDevice((g_rank + beside) % devices), "gpucollSetDevice");
  }
  const Kind kind_;
  void* data_ = nullptr;
  char* at_ = nullptr;
};

class Round {
 public:
  explicit Round(uint64_t seed) : seed_(seed) {
    // Small, in one hop, straight from buffer to buffer, by copy engine.
    constexpr int kCounts[] = {1, 50, 3000, 20000, 70000, 400000, 1100000};
    count_ = kCounts[draw(1) % std::size(kCounts)] + static_cast<int>(draw(2) % 3);
    function_ = static_cast<int>(draw(3) % 4);
    if (function_ >= 2) count_ = count_ / g_size + 1;
    form_ = kForms[draw(4) % 3];
    mostly_device_ = draw(5) % 4 != 0;
  }
  // Whether an address came again.
  bool run(std::set<void*>* known) const;

 private:
  uint64_t draw(uint64_t what, int rank = 0) const { return mix(seed_, what, u(rank)); }
  Buffer make(uint64_t what, size_t n) const {
    const uint64_t random = draw(what, g_rank);
    constexpr Kind kKinds[] = {Kind::device, Kind::best, Kind::device, Kind::host, Kind::other_device};
    const Kind kind = kKinds[random % (mostly_device_ ? 3 : 5)];
    return Buffer(kind, 4 * n, random / 64 % 3 ? 0 : 4 * (random / 1024 % 5000));
  }
  int value(int rank, size_t i) const { return static_cast<int>(mix(seed_, u(rank), i) % 100000); }
  size_t sent() const { return z(count_) * z(function_ == 3 ? g_size : 1); }
  size_t received() const { return z(count_) * z(function_ >= 2 ? g_size : 1); }
  int expected(size_t i) const;
  int call(const int* send, int* recv) const;

  uint64_t seed_;
  int count_, function_;
  Form form_;
  bool mostly_device_;
};

int Round::expected(size_t i) const {
  const size_t n = z(count_);
  if (function_ == 1) return value(g_size - 1, i);
  if (function_ == 2) return value(static_cast<int>(i / n), i % n);
  if (function_ == 3) return value(static_cast<int>(i / n), z(g_rank) * n + i % n);
  int sum = 0;
  for (int r = 0; r < g_size; r++) sum += value(r, i);
  return sum;
}

int Round::call(const int* send, int* recv) const {
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Comm comm = MPI_COMM_WORLD;
  switch (function_) {
    case 0: return GC_CALL_IN_FORM(form_, comm, Allreduce, allreduce, send, recv, count_, MPI_INT, MPI_SUM);
    case 1: return GC_CALL_IN_FORM(form_, comm, Bcast, bcast, recv, count_, MPI_INT, g_size - 1);
    case 2: return GC_CALL_IN_FORM(form_, comm, Allgather, allgather, send, count_, MPI_INT, recv, count_, MPI_INT);
    default: return GC_CALL_IN_FORM(form_, comm, Alltoall, alltoall, send, count_, MPI_INT, recv, count_, MPI_INT);
  }
}

bool Round::run(std::set<void*>* known) const {
  Buffer send = make(6, sent()), recv = make(7, received());
  bool again = false;
  for (const Buffer* buffer : {&send, &recv}) again |= buffer->on_device() && !known->insert(buffer->data()).second;
  std::vector<int> input(sent());
  for (size_t i = 0; i < input.size(); i++) input[i] = value(g_rank, i);
  send.write(input);
  recv.write(function_ == 1 ? input : std::vector<int>(received(), -1));
  const int rc = call(send.at(), recv.at());
  const std::vector<int> got = recv.read(received());
  size_t wrong = 0;
  while (wrong < got.size() && got[wrong] == expected(wrong)) wrong++;
  if (!checked(rc == MPI_SUCCESS && wrong == got.size()))
    fail("round %llu: %sfunction %d of %d ints: code %d, int %zu is %d instead of %d",
         static_cast<unsigned long long>(seed_), name_of(form_), function_, count_, rc, wrong,
         wrong < got.size() ? got[wrong] : 0, wrong < got.size() ? expected(wrong) : 0);
  return again;
}

// ---- calls that come again ----

// A call has come so often that what it takes is kept. Then the memory of its result is freed, and what is allocated at
// that address is shorter: the call must be refused, and come again once there is enough.
void calls_are_kept_for_their_memory_alone() {
  constexpr int kCount = 1000, kTimes = 8;
  constexpr size_t kBytes = sizeof(int) * kCount;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  void *send = nullptr, *recv = nullptr, *anew = nullptr;
  need(gpucollMalloc(&send, kBytes), "gpucollMalloc");
  need(gpucollMalloc(&recv, kBytes), "gpucollMalloc");
  need(gpucollMemset(send, 1, kBytes), "gpucollMemset");
  const auto reduce = [&] { return MPI_Allreduce(send, recv, kCount, MPI_INT, MPI_SUM, comm); };
  const auto expect_sums = [&](const char* when) {
    for (int i = 0; i < kTimes; i++) {
      need(gpucollMemset(recv, 0, kBytes), "gpucollMemset");
      int last = 0;
      const int rc = reduce();
      need(gpucollMemcpy(&last, static_cast<char*>(recv) + kBytes - sizeof last, sizeof last), "gpucollMemcpy");
      if (!checked(rc == MPI_SUCCESS && last == g_size * 0x01010101))
        fail("%s: call %d: code %d, %x", when, i, rc, last);
    }
  };
  expect_sums("a call that is kept");
  need(gpucollFree(recv), "gpucollFree");
  need(gpucollMalloc(&anew, kBytes - 64), "gpucollMalloc");
  int same = anew == recv, all_same = 0;
  MPI_Allreduce(&same, &all_same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all_same && !checked(reduce() != MPI_SUCCESS))
    fail("a call is kept for memory that was freed, and is shorter now");
  need(gpucollFree(anew), "gpucollFree");
  need(gpucollMalloc(&recv, kBytes), "gpucollMalloc");
  expect_sums("the call on new memory");
  need(gpucollFree(recv), "gpucollFree");
  need(gpucollFree(send), "gpucollFree");
  MPI_Comm_free(&comm);
}

// A program keeps its lists, and changes what they say.
void calls_are_kept_for_their_lists_as_they_were() {
  constexpr int kMost = 6, kTimes = 8;
  const size_t ints = z(g_size * kMost);
  Memory send(Where::device, 4 * ints), recv(Where::device, 4 * ints);
  std::vector<int> counts(z(g_size)), places(z(g_size)), out(ints), got(ints);
  for (int round = 0; round < 4 * kTimes; round++) {
    const int count = kMost - round / kTimes;
    for (int r = 0; r < g_size; r++) {
      counts[z(r)] = count;
      places[z(r)] = r * kMost;
    }
    for (size_t i = 0; i < ints; i++) out[i] = 1000 * round + 100 * g_rank + static_cast<int>(i) / kMost;
    need(gpucollMemcpy(send.at(0), out.data(), 4 * ints), "gpucollMemcpy");
    need(gpucollMemset(recv.at(0), 0xff, 4 * ints), "gpucollMemset");
    const int rc = MPI_Alltoallv(send.at(0), counts.data(), places.data(), MPI_INT, recv.at(0), counts.data(),
                                 places.data(), MPI_INT, MPI_COMM_WORLD);
    need(gpucollMemcpy(got.data(), recv.at(0), 4 * ints), "gpucollMemcpy");
    for (int i = 0; i < g_size * kMost; i++) {
      const int wanted = i % kMost < count ? 1000 * round + 100 * (i / kMost) + g_rank : -1;
      if (!checked(rc == MPI_SUCCESS && got[z(i)] == wanted))
        fail("alltoallv %d of %d ints each: code %d, int %d is %d instead of %d", round, count, rc, i, got[z(i)],
             wanted);
    }
  }
}

// Two calls may differ in how the same bytes are spread over the ranks, and in nothing else that rank 0 sees.
void calls_are_kept_for_their_recvcounts() {
  constexpr int kMost = 3, kTimes = 8;
  const size_t ints = z(g_size * kMost);
  Memory send(Where::device, 4 * ints), recv(Where::device, 4 * kMost);
  std::vector<int> counts(z(g_size)), in(ints), got(kMost);
  for (int round = 0; round < 4 * kTimes; round++) {
    for (int r = 0; r < g_size; r++) counts[z(r)] = r == 0 ? 2 : 1 + (r + round / kTimes) % 2;
    int place = 0, all = 0;
    for (int r = 0; r < g_size; r++) {
      if (r == g_rank) place = all;
      all += counts[z(r)];
    }
    for (size_t i = 0; i < ints; i++) in[i] = 1000 * round + 10 * static_cast<int>(i) + g_rank;
    need(gpucollMemcpy(send.at(0), in.data(), 4 * ints), "gpucollMemcpy");
    need(gpucollMemset(recv.at(0), 0xff, 4 * kMost), "gpucollMemset");
    const int rc = MPI_Reduce_scatter(send.at(0), recv.at(0), counts.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    need(gpucollMemcpy(got.data(), recv.at(0), 4 * kMost), "gpucollMemcpy");
    for (int i = 0; i < kMost; i++) {
      const int sum = g_size * (1000 * round + 10 * (place + i)) + g_size * (g_size - 1) / 2;
      const int wanted = i < counts[z(g_rank)] ? sum : -1;
      if (!checked(rc == MPI_SUCCESS && got[z(i)] == wanted))
        fail("reduce_scatter %d: code %d, int %d is %d instead of %d", round, rc, i, got[z(i)], wanted);
    }
  }
}

// ---- what a large call has taken ----

// Of the emulated device's memory, what is not the application's.
size_t runtime_bytes() {
  size_t sum = 0;
  DIR* const all = opendir("/proc/self/fd");
  while (const dirent* entry = all ? readdir(all) : nullptr) {
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    char link[64] = "";
    struct stat file = {};
    if (readlink(path.c_str(), link, sizeof link - 1) > 0 && !std::strncmp(link, "/memfd:gpucoll-", 15) &&
        stat(path.c_str(), &file) == 0)
      sum += static_cast<size_t>(file.st_size);
  }
  if (all) closedir(all);
  return sum;
}

// The operands of all ranks of the other group land in memory that is not kept.
void operands_are_given_back() {
  constexpr int kCount = 9 << 20;
  constexpr size_t kBytes = sizeof(int) * kCount, kMuch = 64u << 20;
  MPI_Comm half, bridge;
  MPI_Comm_split(MPI_COMM_WORLD, g_rank > 0, g_rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, g_rank > 0 ? 0 : 1, 5, &bridge);
  {
    Memory send(Where::device, kBytes), recv(Where::device, kBytes);
    const auto reduce = [&](int count) {
      MPI_Request request;
      MPI_Iallreduce(send.at(0), recv.at(0), count, MPI_INT, MPI_SUM, bridge, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    };
    need(gpucollMemset(send.at(0), 1, kBytes), "gpucollMemset");
    reduce(kCount / 100);
    const size_t before = runtime_bytes();
    reduce(kCount);
    int last = 0;
    need(gpucollMemcpy(&last, recv.at(kBytes - 4), 4), "gpucollMemcpy");
    if (!checked(last == (g_rank ? 1 : g_size - 1) * 0x01010101)) fail("a large reduction between groups: %x", last);
    // It may wait for what others have under way.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (runtime_bytes() >= before + kMuch && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!checked(runtime_bytes() < before + kMuch))
      fail("%zu MiB are kept after a reduction between groups", (runtime_bytes() - before) >> 20);
  }
  MPI_Comm_free(&bridge);
  MPI_Comm_free(&half);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 150;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 0;
  std::set<void*> known;
  int again = 0;
  for (int i = 0; i < rounds; i++) again += Round(seed + u(i)).run(&known);
  if (kFreedIsUsedAgain && !checked(again > rounds / 2)) fail("only %d rounds had a buffer at a known address", again);
  calls_are_kept_for_their_memory_alone();
  calls_are_kept_for_their_lists_as_they_were();
  calls_are_kept_for_their_recvcounts();
  if (g_size > 2) operands_are_given_back();
  return mpi.finish("memory");
}
