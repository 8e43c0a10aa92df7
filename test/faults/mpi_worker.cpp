// A rank of MPI that calls collectives on device memory until one fails, or for ever: the fault driver (faults.py)
// kills, stops and continues some of them, and reads their sentences in err.RANK. usage: mpi_worker FOLDER MODE SEED
#include <mpi.h>

#if OMPI_MAJOR_VERSION >= 5
#define GC_INIT(X) MPI_##X##_init
#else
#include <mpi-ext.h>
#define GC_INIT(X) MPIX_##X##_init
#endif

#include <algorithm>
#include <array>
#include <iterator>

#include "gpucoll/gpucoll.h"
#include "worker.h"

namespace {

using faults::Diary;

constexpr int kUnderWay = 6, kMostCount = 60'000;

struct Worker {
  std::string mode;
  int rank, size;
  std::mt19937 random;  // the same on all ranks
  Diary diary;
  int* memory = nullptr;  // kUnderWay + 1 parts of kMostCount
  std::array<MPI_Request, kUnderWay> requests = {};
  bool made = false;  // persistent ones

  int* part(int i) const { return memory + static_cast<ptrdiff_t>(i) * kMostCount; }
};

void need(gpucollResult_t result, const char* what) {
  if (result == gpucollSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, gpucollGetLastError(nullptr));
  _exit(3);
}

int some_count(Worker& w) {
  constexpr int kCounts[] = {1, 25, 1000, 10'000, kMostCount};
  return kCounts[w.random() % std::size(kCounts)];
}

int call_blocking(Worker& w) {
  const int count = some_count(w), root = static_cast<int>(w.random() % static_cast<unsigned>(w.size));
  int *const in = w.part(0), *const out = w.part(1);
  const int share = std::max(count / w.size, 1);
  switch (w.random() % 5) {
    case 0: return MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    case 1: return MPI_Bcast(in, count, MPI_INT, root, MPI_COMM_WORLD);
    case 2: return MPI_Allgather(in, share, MPI_INT, out, share, MPI_INT, MPI_COMM_WORLD);
    case 3: return MPI_Alltoall(in, share, MPI_INT, out, share, MPI_INT, MPI_COMM_WORLD);
    default: return MPI_Reduce(in, out, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
  }
}

// All of them, whatever becomes of one; the first failure.
template <class F>
int each_request(Worker& w, const F& f) {
  int first = MPI_SUCCESS;
  for (int i = 0; i < kUnderWay; ++i)
    if (const int rc = f(i, w.requests[static_cast<size_t>(i)]); first == MPI_SUCCESS) first = rc;
  return first;
}

int wait_for_all(Worker& w) {
  return each_request(w, [](int, MPI_Request& request) { return MPI_Wait(&request, MPI_STATUS_IGNORE); });
}

int call_nonblocking(Worker& w) {
  const int begun = each_request(w, [&](int i, MPI_Request& request) {
    const int count = some_count(w), root = i % w.size;
    request = MPI_REQUEST_NULL;
    return i % 2 ? MPI_Ibcast(w.part(i), count, MPI_INT, root, MPI_COMM_WORLD, &request)
                 : MPI_Iallreduce(MPI_IN_PLACE, w.part(i), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  });
  const int ended = wait_for_all(w);
  return begun == MPI_SUCCESS ? ended : begun;
}

int call_persistent(Worker& w) {
  if (!w.made) {
    w.made = true;
    const int made = each_request(w, [&](int i, MPI_Request& request) {
      return GC_INIT(Allreduce)(MPI_IN_PLACE, w.part(i), some_count(w), MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                &request);
    });
    if (made != MPI_SUCCESS) return made;
  }
  const int begun = each_request(w, [](int, MPI_Request& request) { return MPI_Start(&request); });
  if (begun != MPI_SUCCESS) return begun;
  return wait_for_all(w);
}

int call_some(Worker& w) {
  if (w.mode == "nonblocking") return call_nonblocking(w);
  if (w.mode == "persistent") return call_persistent(w);
  return call_blocking(w);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string folder = argv[1];
  if (!std::freopen((folder + "/err." + std::to_string(rank)).c_str(), "a", stderr)) return 2;
  Worker w = {argv[2], rank, size, std::mt19937(static_cast<unsigned>(std::atoi(argv[3]))), Diary(folder, rank)};
  int devices = 0;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  need(gpucollSetDevice(rank % devices), "gpucollSetDevice");
  void* memory = nullptr;
  need(gpucollMalloc(&memory, (kUnderWay + 1) * kMostCount * sizeof(int)), "gpucollMalloc");
  w.memory = static_cast<int*>(memory);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Barrier(MPI_COMM_WORLD);
  w.diary.tell("meets");
  int rc = MPI_SUCCESS;
  while (rc == MPI_SUCCESS) {
    rc = call_some(w);
    if (rc != MPI_SUCCESS) break;
    w.diary.count_call();
    if (w.diary.calls() == 1) w.diary.tell("runs");
  }
  std::fflush(stderr);
  w.diary.tell("error " + std::to_string(rc));
  // MPI itself cannot be finished with a rank missing.
  w.diary.tell("ends");
  _exit(0);
}
