// One-sided communication on host memory, in a program that has devices as well: gpucoll has nothing to do with it, and
// must not be in its way. Open MPI's osc/pt2pt, where it runs, starts persistent receives of the PML for it.
#include <numeric>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 3000;

int value(int rank, int i, int round) { return rank * 100003 + i * 7 + round; }

class Window {
 public:
  Window() : memory_(kCount, -1) {
    MPI_Win_create(memory_.data(), kCount * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window_);
  }
  ~Window() { MPI_Win_free(&window_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  MPI_Win get() const { return window_; }
  int* data() { return memory_.data(); }

 private:
  std::vector<int> memory_;
  MPI_Win window_ = MPI_WIN_NULL;
};

int next() { return (g_rank + 1) % g_size; }
int previous() { return (g_rank + g_size - 1) % g_size; }

void expect(const char* what, int got, int wanted, int at) {
  if (!checked(got == wanted)) fail("%s: %d instead of %d at %d", what, got, wanted, at);
}

void put_between_fences(Window& window, int round, int count) {
  std::vector<int> own(kCount);
  for (int i = 0; i < kCount; ++i) own[static_cast<size_t>(i)] = value(g_rank, i, round);
  MPI_Win_fence(0, window.get());
  MPI_Put(own.data(), count, MPI_INT, next(), round, count, MPI_INT, window.get());
  MPI_Win_fence(0, window.get());
  for (int i = 0; i < count; ++i) expect("MPI_Put", window.data()[round + i], value(previous(), i, round), i);
}

void get_under_lock(Window& window, int round, int count) {
  for (int i = 0; i < kCount; ++i) window.data()[i] = value(g_rank, i, round);
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<int> got(static_cast<size_t>(count), -1);
  MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, window.get());
  MPI_Get(got.data(), count, MPI_INT, next(), round, count, MPI_INT, window.get());
  MPI_Win_unlock(next(), window.get());
  for (int i = 0; i < count; ++i) expect("MPI_Get", got[static_cast<size_t>(i)], value(next(), round + i, round), i);
  MPI_Barrier(MPI_COMM_WORLD);
}

void accumulate_at_zero(Window& window, int count) {
  std::fill_n(window.data(), count, 0);
  std::vector<int> own(static_cast<size_t>(count));
  std::iota(own.begin(), own.end(), g_rank);
  MPI_Win_fence(0, window.get());
  MPI_Accumulate(own.data(), count, MPI_INT, 0, 0, count, MPI_INT, MPI_SUM, window.get());
  MPI_Win_fence(0, window.get());
  for (int i = 0; g_rank == 0 && i < count; ++i)
    expect("MPI_Accumulate", window.data()[i], g_size * i + g_size * (g_size - 1) / 2, i);
}

// Device memory in a collective and in messages between the rounds.
void use_device(int round) {
  Memory send(Where::device, 64), recv(Where::device, 64);
  std::vector<int> values(16, g_rank + round);
  send.write(values.data());
  MPI_Allreduce(send.as<int>(), recv.as<int>(), 16, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  recv.read(values.data());
  expect("MPI_Allreduce", values[15], g_size * round + g_size * (g_size - 1) / 2, 15);
  MPI_Sendrecv(send.as<int>(), 16, MPI_INT, next(), 3, recv.as<int>(), 16, MPI_INT, previous(), 3, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  recv.read(values.data());
  expect("MPI_Sendrecv", values[0], previous() + round, 0);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  {
    Window window;
    for (int round = 0; round < 6; ++round) {
      for (const int count : {1, 28, 1000}) {  // 28: about as large as an envelope
        put_between_fences(window, round, count);
        get_under_lock(window, round, count);
        accumulate_at_zero(window, count);
      }
      if (round > 0) use_device(round);
    }
  }
  return mpi.finish("one_sided");
}
