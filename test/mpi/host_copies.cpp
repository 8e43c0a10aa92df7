// Who copies the host memory of a nonblocking or persistent collective that runs on the device: the thread that starts
// and completes it, not that which launches the calls of all communicators. Each buffer faults when it is first
// touched.
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kCount = 1024;
constexpr size_t kBytes = 4096;  // of kCount, and a page

class Watched;
Watched* g_watched = nullptr;
std::atomic<pid_t> g_first{0};

// A page that notes which thread touches it first since watch().
class Watched {
 public:
  Watched() : page_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Watched() { munmap(page_, kBytes); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  int* ints() const { return static_cast<int*>(page_); }
  bool has(const void* address) const { return address >= page_ && address < static_cast<const char*>(page_) + kBytes; }
  void watch() {
    g_first = 0;
    g_watched = this;
    mprotect(page_, kBytes, PROT_NONE);
  }
  void open() const { mprotect(page_, kBytes, PROT_READ | PROT_WRITE); }

 private:
  void* page_;
};

void on_fault(int, siginfo_t* info, void*) {
  if (!g_watched || !g_watched->has(info->si_addr)) {
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  pid_t nobody = 0;
  g_first.compare_exchange_strong(nobody, gettid());
  g_watched->open();
}

void check(const int* sums, const char* what) {
  for (int i = 0; i < kCount; i++)
    if (!checked(sums[i] == g_size * i + g_size * (g_size - 1) / 2)) return fail("%s: %d is %d", what, i, sums[i]);
}

// Rank 0 comes first, so that nothing can be launched before its call has returned.
void begin(const void* send, void* recv, MPI_Request* request, bool persistent) {
  int word = 0;
  if (g_rank != 0) MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (persistent)
    MPI_Start(request);
  else
    MPI_Iallreduce(send, recv, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
  for (int r = 1; g_rank == 0 && r < g_size; r++) MPI_Send(&word, 1, MPI_INT, r, 1, MPI_COMM_WORLD);
}

// Host memory of one side. The first round makes connections.
void round(bool sends, bool persistent, int number) {
  const char* name = persistent ? "persistent" : "nonblocking";
  Watched host;
  Memory device(Where::device, kBytes);
  std::vector<int> in(kCount), out(kCount);
  std::iota(in.begin(), in.end(), g_rank);
  if (sends)
    std::copy(in.begin(), in.end(), host.ints());
  else
    device.write(in.data());
  const void* const send = sends ? host.ints() : device.as<int>();
  void* const recv = sends ? device.as<int>() : host.ints();
  MPI_Request request;
  if (persistent) {
    GC_INIT(Allreduce)(send, recv, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);  // it may not have a place yet
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  host.watch();
  begin(send, recv, &request, persistent);
  if (sends && number > 0 && !checked(g_first == gettid())) fail("%s: what is sent was not copied by its call", name);
  usleep(20000);  // another thread may launch it, and see its end
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (!checked(g_first == gettid()))
    fail("%s: what is %s was copied by another thread", name, sends ? "sent" : "received");
  if (persistent) MPI_Request_free(&request);
  if (sends) device.read(out.data());
  check(sends ? out.data() : host.ints(), name);
  g_watched = nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  for (int number = 0; number < 3; number++)
    for (bool sends : {true, false})
      for (bool persistent : {false, true}) round(sends, persistent, number);
  return mpi.finish("host_copies");
}
