// MPI_Bsend and MPI_Ibsend of device memory end though the receiver makes no call of MPI any more: wherever it was, a
// few tests after its receive.
#include <unistd.h>

#include <atomic>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kMostTests = 40, kMostBytes = 100'000;

// A word of memory that both ranks see without MPI.
class SharedWord {
 public:
  SharedWord() {
    MPI_Win_allocate_shared(g_rank == 0 ? sizeof(int) : 0, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory_,
                            &window_);
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(window_, 0, &bytes, &unit, &memory_);
    if (g_rank == 0) *memory_ = 0;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~SharedWord() { MPI_Win_free(&window_); }
  SharedWord(const SharedWord&) = delete;
  SharedWord& operator=(const SharedWord&) = delete;
  void store(int value) { std::atomic_ref(*memory_).store(value); }
  // Returns whether the value has come within ten seconds.
  bool await(int value) {
    constexpr int kLooks = 100'000;
    for (int look = 0; look < kLooks && std::atomic_ref(*memory_).load() < value; ++look) usleep(100);
    return std::atomic_ref(*memory_).load() >= value;
  }

 private:
  int* memory_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
};

unsigned char byte_at(int i, int call) { return static_cast<unsigned char>(i * 7 + i / 250 + call); }

void send(Memory& memory, int bytes, int call, SharedWord& word) {
  std::vector<unsigned char> data(kMostBytes);
  for (int i = 0; i < bytes; ++i) data[static_cast<size_t>(i)] = byte_at(i, call);
  memory.write(data.data());
  word.await(2 * call + 1);
  if (call % 2) {
    MPI_Bsend(memory.at(0), bytes, MPI_BYTE, 1, call, MPI_COMM_WORLD);
  } else {
    MPI_Request request;
    MPI_Ibsend(memory.at(0), bytes, MPI_BYTE, 1, call, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  word.store(2 * call + 2);
  memory.write(std::vector<unsigned char>(kMostBytes, 0xee).data());  // the program may use it again
}

void receive(Memory& memory, int bytes, int call, int tests, SharedWord& word) {
  MPI_Request request;
  MPI_Irecv(memory.at(0), bytes, MPI_BYTE, 0, call, MPI_COMM_WORLD, &request);
  word.store(2 * call + 1);
  int done = 0;
  for (int i = 0; i < tests && !done; ++i) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  if (!checked(word.await(2 * call + 2))) fail("call %d of %d bytes, %d tests: the send waits", call, bytes, tests);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  std::vector<unsigned char> data(kMostBytes);
  memory.read(data.data());
  for (int i = 0; i < bytes; ++i)
    if (data[static_cast<size_t>(i)] != byte_at(i, call)) {
      fail("call %d of %d bytes: wrong data at %d", call, bytes, i);
      break;
    }
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  std::vector<char> room(2 * kMostBytes);
  MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
  {
    SharedWord word;
    Memory memory(Where::device, kMostBytes);
    int call = 0;
    for (const int bytes : {8, 113, 1000, 4096, 4097, kMostBytes})
      for (int tests = 0; tests < kMostTests; tests += bytes == kMostBytes ? 10 : 3, ++call) {
        if (g_rank == 0) send(memory, bytes, call, word);
        if (g_rank == 1) receive(memory, bytes, call, tests, word);
        MPI_Barrier(MPI_COMM_WORLD);
      }
  }
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
  return mpi.finish("buffered_sends");
}
