// One rank of a communicator, without MPI, which would take most of the time on an emulated machine: functions of the C
// API, checked, or allreduces until one fails; or before the functions many allreduces, checked.
//   functions RANK SIZE FILE [endless|stream]: rank 0 makes the unique id and puts it into FILE
#include <gpucoll/gpucoll.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

int rank, size, failures = 0;
gpucollComm_t comm;
gpucollStream_t stream;

void check(gpucollResult_t result, const char* what) {
  if (result == gpucollSuccess) return;
  std::fprintf(stderr, "rank %d: %s failed: %s\n", rank, what, gpucollGetLastError(comm));
  std::exit(1);
}

int value(int of, size_t i) { return of * 1000 + static_cast<int>(i % 997); }
int sum(size_t i) {
  int all = 0;
  for (int r = 0; r < size; ++r) all += value(r, i);
  return all;
}

struct Buffer {
  int* data = nullptr;
  size_t count;
  explicit Buffer(size_t n) : count(n) {
    check(gpucollMalloc(reinterpret_cast<void**>(&data), n * sizeof(int)), "gpucollMalloc");
    check(gpucollMemset(data, 0xff, n * sizeof(int)), "gpucollMemset");
  }
  // Holds this rank's values.
  static Buffer input(size_t n) {
    Buffer buffer(n);
    std::vector<int> host(n);
    for (size_t i = 0; i < n; ++i) host[i] = value(rank, i);
    check(gpucollMemcpy(buffer.data, host.data(), n * sizeof(int)), "gpucollMemcpy");
    return buffer;
  }
  Buffer(Buffer&& other) noexcept : data(std::exchange(other.data, nullptr)), count(other.count) {}
  ~Buffer() { check(gpucollFree(data), "gpucollFree"); }
  void expect(const char* what, const std::function<int(size_t)>& right) {
    check(gpucollStreamSynchronize(stream), what);
    std::vector<int> host(count);
    check(gpucollMemcpy(host.data(), data, count * sizeof(int)), "gpucollMemcpy");
    for (size_t i = 0; i < count; ++i) {
      if (host[i] == right(i)) continue;
      std::fprintf(stderr, "rank %d: %s: element %zu of %zu is %d instead of %d\n", rank, what, i, count, host[i],
                   right(i));
      ++failures;
      return;
    }
  }
};

void all_functions(size_t n) {
  const auto ranks = static_cast<size_t>(size);
  Buffer in = Buffer::input(n), wide = Buffer::input(n * ranks), out(n), all(n * ranks);
  const int last = size - 1, next = (rank + 1) % size, previous = (rank + last) % size;
  const auto of_rank = [n](size_t i) { return value(static_cast<int>(i / n), i % n); };
  check(gpucollAllReduce(in.data, out.data, n, gpucollInt32, gpucollSum, comm, stream), "allreduce");
  out.expect("allreduce", sum);
  check(gpucollBroadcast(in.data, out.data, n, gpucollInt32, last, comm, stream), "broadcast");
  out.expect("broadcast", [&](size_t i) { return value(last, i); });
  check(gpucollReduce(in.data, out.data, n, gpucollInt32, gpucollSum, 0, comm, stream), "reduce");
  if (rank == 0) out.expect("reduce", sum);
  check(gpucollAllGather(in.data, all.data, n, gpucollInt32, comm, stream), "allgather");
  all.expect("allgather", of_rank);
  check(gpucollReduceScatter(wide.data, out.data, n, gpucollInt32, gpucollSum, comm, stream), "reduce_scatter");
  out.expect("reduce_scatter", [&](size_t i) { return sum(static_cast<size_t>(rank) * n + i); });
  check(gpucollAlltoAll(wide.data, all.data, n, gpucollInt32, comm, stream), "alltoall");
  all.expect("alltoall",
             [&](size_t i) { return value(static_cast<int>(i / n), static_cast<size_t>(rank) * n + i % n); });
  check(gpucollGroupStart(), "group");
  check(gpucollSend(in.data, n, gpucollInt32, next, comm, stream), "send");
  check(gpucollRecv(out.data, n, gpucollInt32, previous, comm, stream), "receive");
  check(gpucollGroupEnd(), "send and receive");
  out.expect("send and receive", [&](size_t i) { return value(previous, i); });
}

void endless() {
  Buffer in = Buffer::input(1000), out(1000);
  for (long calls = 0;; ++calls) {
    check(gpucollAllReduce(in.data, out.data, in.count, gpucollInt32, gpucollSum, comm, stream), "allreduce");
    check(gpucollStreamSynchronize(stream), "allreduce");
    gpucollResult_t fault = gpucollSuccess;
    check(gpucollCommGetAsyncError(comm, &fault), "gpucollCommGetAsyncError");
    check(fault, "allreduce");
    if (calls == 2) std::printf("rank %d is under way\n", rank), std::fflush(stdout);
  }
}

// Checks each of many calls.
void stream_of_calls() {
  Buffer in = Buffer::input(20000), out(20000);
  for (int call = 0; call < 1500 && !failures; ++call) {
    check(gpucollAllReduce(in.data, out.data, in.count, gpucollInt32, gpucollSum, comm, stream), "allreduce");
    out.expect("allreduce", sum);
    check(gpucollMemset(out.data, 0xff, out.count * sizeof(int)), "gpucollMemset");
    if (call == 2) std::printf("rank %d is under way\n", rank), std::fflush(stdout);
  }
}

gpucollUniqueId meet(const std::string& file) {
  gpucollUniqueId id;
  if (rank == 0) {
    check(gpucollGetUniqueId(&id), "gpucollGetUniqueId");
    std::ofstream(file + ".new", std::ios::binary).write(reinterpret_cast<const char*>(&id), sizeof id);
    std::rename((file + ".new").c_str(), file.c_str());
    return id;
  }
  while (!std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&id), sizeof id))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return id;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: functions RANK SIZE FILE [endless|stream]\n"), 2;
  rank = std::atoi(argv[1]);
  size = std::atoi(argv[2]);
  check(gpucollCommInitRank(&comm, size, meet(argv[3]), rank), "gpucollCommInitRank");
  check(gpucollStreamCreate(&stream), "gpucollStreamCreate");
  const std::string calls = argc > 4 ? argv[4] : "";
  if (calls == "endless") endless();
  if (calls == "stream") stream_of_calls();
  for (const size_t n : {1, 1000, 30000}) all_functions(n);
  check(gpucollCommDestroy(comm), "gpucollCommDestroy");
  std::printf("rank %d of %d: %d failures\n", rank, size, failures);
  return failures != 0;
}
