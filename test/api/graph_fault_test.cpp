// Graphs whose communicator goes while they are under way: their operations end within the timeout, what they use stays
// until then, and launching them again does no harm.
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/mutant.h"
#include "process_ranks.h"

using namespace gpucoll_test;

namespace {

// Names what the other rank does while this one's graph waits for it.
enum class Peer { aborts, dies, is_late };
// How far rank 0 is.
enum class Stage { begins, launched, ended };
struct Size {
  const char* name;
  size_t count;
  bool registered;
};
constexpr Size kSizes[] = {
    {"small", 100, false}, {"medium", 20'000, false}, {"large", 2'000'000, false}, {"registered", 1'000'000, true}};

struct Shape {
  bool aborts;  // else it destroys
  Peer peer;
  Size size;
};
void PrintTo(const Shape&, std::ostream*) {}  // its name tells it
std::string name_of(const Shape& shape) {
  const char* const peers[] = {"peer_aborts", "peer_dies", "peer_is_late"};
  return std::string(shape.aborts ? "abort_" : "destroy_") + peers[static_cast<int>(shape.peer)] + "_" +
         shape.size.name;
}

// Of what takes the parameter timeout at most, which is to be 3 s.
int bound() {
  const char* const asked = std::getenv("GC_TEST_BOUND");
  return asked ? std::atoi(asked) : 15;
}

// An allreduce, captured.
class Captured {
 public:
  Captured(gpucollComm_t comm, const Size& size) : comm_(comm), size_(size) {
    if (size.registered) {
      void* handle = nullptr;
      EXPECT_EQ(gpucollSuccess, gpucollMemAlloc(&memory_, bytes()));
      EXPECT_EQ(gpucollSuccess, gpucollCommRegister(comm, memory_, bytes(), &handle));
    } else {
      EXPECT_EQ(gpucollSuccess, gpucollMalloc(&memory_, bytes()));
    }
    EXPECT_EQ(gpucollSuccess, gpucollMemset(memory_, 0, bytes()));
    EXPECT_EQ(gpucollSuccess, gpucollStreamBeginCapture(stream_.handle));
    EXPECT_EQ(gpucollSuccess,
              gpucollAllReduce(memory_, memory_, size.count, gpucollInt32, gpucollSum, comm, stream_.handle))
        << gpucollGetLastError(nullptr);
    EXPECT_EQ(gpucollSuccess, gpucollStreamEndCapture(stream_.handle, &graph_)) << gpucollGetLastError(nullptr);
  }
  ~Captured() {
    drop();
    EXPECT_EQ(gpucollSuccess, size_.registered ? gpucollMemFree(memory_) : gpucollFree(memory_));
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  void drop() {
    gpucollGraph_t graph = std::exchange(graph_, nullptr);
    EXPECT_TRUE(!graph || gpucollGraphDestroy(graph) == gpucollSuccess) << gpucollGetLastError(nullptr);
  }
  gpucollResult_t launch() { return launch_in(stream_); }
  gpucollResult_t launch_in(const Stream& stream) { return gpucollGraphLaunch(graph_, stream.handle); }
  const Stream& stream() const { return stream_; }
  void wait() { EXPECT_EQ(gpucollSuccess, gpucollStreamSynchronize(stream_.handle)); }

 private:
  size_t bytes() const { return size_.count * sizeof(int32_t); }
  gpucollComm_t comm_;
  const Size size_;
  Stream stream_;
  void* memory_ = nullptr;
  gpucollGraph_t graph_ = nullptr;
};

// What is put into its stream once it is closed waits until it opens: by a graph of a communicator of its own, to which
// only rank 0 comes. No launch outside of graphs is under way then, which would put off that memory is freed.
class Gate {
 public:
  // By both ranks: the first operation connects them.
  explicit Gate(gpucollComm_t comm) : comm_(comm), work_(comm, kSizes[0]) {}
  void close() { EXPECT_EQ(gpucollSuccess, work_.launch()); }
  void open() { EXPECT_EQ(gpucollSuccess, gpucollCommAbort(comm_)); }
  const Stream& stream() const { return work_.stream(); }

 private:
  gpucollComm_t comm_;
  Captured work_;
};

// Memory of communicators that are gone is freed when another one is made, once watchdogs have told that it is not
// used. The mutant must be seen.
void free_what_may_be_freed(const Shape& shape) {
  if (shape.size.count == kSizes[0].count) usleep(gc_mutant(140) ? 2'000'000 : 250'000);
  gpucollComm_t alone = nullptr;
  const int device = 0;
  GC_OK(gpucollCommInitAll(&alone, 1, &device));
  GC_OK(gpucollCommDestroy(alone));
}

// Rank 0: its graph waits for the other rank when the communicator goes. It has been launched once more by then, but
// that begins only when the communicator is gone.
void lose_the_communicator(gpucollComm_t comm, Gate& gate, Captured& work, const Shape& shape,
                           std::atomic<Stage>& stage) {
  gate.close();
  GC_OK(work.launch());
  GC_OK(work.launch_in(gate.stream()));
  stage = Stage::launched;
  if (shape.peer != Peer::is_late) usleep(20'000);
  alarm(static_cast<unsigned>(bound()));
  const auto end = shape.aborts ? gpucollCommAbort : gpucollCommDestroy;
  const gpucollResult_t result = end(comm);
  EXPECT_EQ(shape.aborts, result == gpucollSuccess) << "destroying is to tell of an allreduce that nobody came to";
  work.wait();
  EXPECT_NE(gpucollSuccess, work.launch()) << "a graph was launched without its communicator";
  free_what_may_be_freed(shape);
  gate.open();
  EXPECT_EQ(gpucollSuccess, gpucollStreamSynchronize(gate.stream().handle));
  alarm(0);
}

void await(const std::atomic<Stage>& stage, Stage awaited) {
  for (int i = 0; stage < awaited && i < 2000 * bound(); ++i) usleep(1000);
}

// The other rank, which has a graph as well.
void keep_rank_0_waiting(gpucollComm_t comm, Captured& work, const Shape& shape, const std::atomic<Stage>& stage) {
  await(stage, Stage::launched);
  if (shape.peer == Peer::dies) raise(SIGKILL);
  if (shape.peer == Peer::aborts) {
    GC_OK(gpucollCommAbort(comm));
    if (shape.aborts) work.drop();
  }
  await(stage, Stage::ended);
  if (shape.peer == Peer::is_late) gpucollCommDestroy(comm);
}

void take_part(gpucollComm_t comm, int rank, Captured& work, const Shape& shape, std::atomic<Stage>& stage) {
  gpucollComm_t other = nullptr;
  GC_OK(gpucollCommSplit(comm, 0, rank, &other));
  Gate gate(other);
  GC_OK(work.launch());
  work.wait();
  if (rank != 0) {
    keep_rank_0_waiting(comm, work, shape, stage);
    gpucollCommDestroy(other);
  } else {
    lose_the_communicator(comm, gate, work, shape, stage);
    stage = Stage::ended;
  }
}

class Faults : public testing::TestWithParam<Shape> {};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (bool aborts : {true, false})
    for (Peer peer : {Peer::aborts, Peer::dies, Peer::is_late})
      for (const Size& size : kSizes)  // who is late costs the parameter timeout
        if (peer != Peer::is_late || size.registered || size.count < 1000) all.push_back({aborts, peer, size});
  return all;
}

TEST_P(Faults, OfProcesses) {
  const Shape& shape = GetParam();
  auto* const stage = static_cast<std::atomic<Stage>*>(
      mmap(nullptr, sizeof(std::atomic<Stage>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(stage), MAP_FAILED);
  const auto statuses = on_processes(2, [&](gpucollComm_t comm, int rank) {
    Captured work(comm, shape.size);
    take_part(comm, rank, work, shape, *stage);
  });
  munmap(stage, sizeof *stage);
  EXPECT_EQ(statuses[0], 0);
  if (shape.peer == Peer::dies)
    EXPECT_TRUE(WIFSIGNALED(statuses[1]) && WTERMSIG(statuses[1]) == SIGKILL);
  else
    EXPECT_EQ(statuses[1], 0);
}

TEST_P(Faults, OfThreads) {
  const Shape& shape = GetParam();
  if (shape.peer == Peer::dies) GTEST_SKIP() << "a thread does not die alone";
  std::atomic<Stage> stage{Stage::begins};
  const auto statuses = on_processes(1, [&](gpucollComm_t alone, int) {
    gpucollCommDestroy(alone);
    on_ranks_that_destroy(2, [&](gpucollComm_t comm, int rank) {
      Captured work(comm, shape.size);
      take_part(comm, rank, work, shape, stage);
    });
  });
  EXPECT_EQ(statuses[0], 0);
}

INSTANTIATE_TEST_SUITE_P(Graphs, Faults, testing::ValuesIn(shapes()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
