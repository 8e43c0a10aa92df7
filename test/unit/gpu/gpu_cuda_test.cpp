// The CUDA device on a real GPU; skipped where there is none. One GPU is enough.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gpu/cuda/driver.h"
#include "gpu/device.h"

namespace gpucoll::gpu {
namespace {

bool there_is_a_gpu() { return cuda_platform() != nullptr && cuda_platform()->device_count().ok(); }
Device& device() { return **cuda_platform()->open(0); }

CUcontext context_of_this_thread() {
  CUcontext context = nullptr;
  return cuda::driver()->get_current(&context) == CUDA_SUCCESS ? context : nullptr;
}

// Another process with a device of its own, forked before anybody used CUDA.
class Peer {
 public:
  static constexpr int kPieces = 3;
  static constexpr size_t kBytes[kPieces] = {300, 128, (size_t{4} << 20) + 100};
  struct Offer {
    MemoryHandle handle[kPieces];
    Identity identity;
  };

  Peer() {
    if (pipe(down_) != 0 || pipe(up_) != 0) _exit(2);
    pid_ = fork();
    if (pid_ != 0) return;
    close(down_[1]);
    char command;
    while (read(down_[0], &command, 1) == 1) serve(command);
    _exit(0);
  }
  Offer offer() {
    tell('o');
    return hear<Offer>();
  }
  uint8_t first_byte(int piece) {
    tell(static_cast<char>('0' + piece));
    return hear<uint8_t>();
  }
  void end() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  void tell(char command) {
    if (write(down_[1], &command, 1) != 1) _exit(3);
  }
  template <class T>
  T hear() {
    T value;
    if (read(up_[0], &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(4);
    return value;
  }
  template <class T>
  void answer(const T& value) {
    if (write(up_[1], &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(5);
  }
  void serve(char command) {
    if (command != 'o') {
      uint8_t byte = 0;
      if (!device().copy(&byte, memory_[command - '0'], 1)) _exit(6);
      return answer(byte);
    }
    Offer offer;
    offer.identity = device().identity();
    for (int i = 0; i < kPieces; ++i) {
      memory_[i] = *device().allocate(kBytes[i]);
      if (!device().fill(memory_[i], 10 + i, kBytes[i])) _exit(7);
      offer.handle[i] = *device().export_memory(memory_[i]);
    }
    answer(offer);
  }

  int down_[2], up_[2];
  pid_t pid_ = 0;
  void* memory_[kPieces];
};
Peer* the_peer;

class GpuCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!there_is_a_gpu()) GTEST_SKIP() << "no GPU here";
  }
};

// Runs first: afterwards the driver is initialised.
TEST_F(GpuCuda, AskingLeavesTheThreadWithoutAContext) {
  int host = 0;
  EXPECT_FALSE(cuda_platform()->is_device(&host));
  EXPECT_EQ(cuda_platform()->current_device(), 0);
  EXPECT_EQ(context_of_this_thread(), nullptr);
  Device& gpu = device();
  void* memory = *gpu.user_allocate(1000);
  EXPECT_TRUE(gpu.fill(memory, 1, 1000));
  EXPECT_TRUE(gpu.user_release(memory));
  EXPECT_EQ(context_of_this_thread(), nullptr);
}

TEST_F(GpuCuda, ChoosingADeviceHoldsForThisThread) {
  std::thread([] {
    ASSERT_TRUE(cuda_platform()->choose_device(0));
    const CUcontext mine = context_of_this_thread();
    EXPECT_NE(mine, nullptr);
    device().release(*device().allocate(100));
    EXPECT_EQ(context_of_this_thread(), mine);
  }).join();
  EXPECT_EQ(context_of_this_thread(), nullptr);
  EXPECT_EQ(cuda_platform()->choose_device(1000).code(), Code::invalid_argument);
}

TEST_F(GpuCuda, HasAnIdentity) {
  const Identity& identity = device().identity();
  EXPECT_STREQ(identity.kind, "cuda");
  EXPECT_NE(std::string(identity.name), "");
  EXPECT_EQ(std::string(identity.bus_id).size(), 12u) << identity.bus_id;
  EXPECT_TRUE(device().can_reach(identity));
  Identity other = identity;
  other.uuid[0] ^= 1;
  EXPECT_TRUE(device().can_reach(other));  // a GPU that is hidden from this process: trying will tell
  EXPECT_FALSE(device().can_reach((*emu_platform().open(0))->identity()));
  RecordProperty("shares_between_processes", device().shares_between_processes());
}

TEST_F(GpuCuda, ClassifiesMemory) {
  Platform& gpus = *cuda_platform();
  auto* user = static_cast<char*>(*device().user_allocate(10000));
  const PointerInfo info = gpus.classify(user + 5000);
  EXPECT_EQ(info.kind, MemoryKind::device);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.base, user);
  EXPECT_EQ(info.bytes, 10000u);
  EXPECT_TRUE(info.exportable);
  EXPECT_TRUE(gpus.is_device(user + 9999));
  ASSERT_TRUE(device().user_release(user));
  void* again = *device().user_allocate(10000);
  EXPECT_NE(gpus.classify(again).buffer_id, info.buffer_id);
  ASSERT_TRUE(device().user_release(again));

  const HostBlock block = *device().allocate_host(5000);
  EXPECT_EQ(gpus.classify(block.host).kind, MemoryKind::pinned);
  EXPECT_FALSE(gpus.is_device(block.host));
  device().release_host(block);
  int host = 0;
  EXPECT_EQ(gpus.classify(&host).kind, MemoryKind::host);
}

TEST_F(GpuCuda, ClassifiesManagedAndPoolMemory) {
  Platform& gpus = *cuda_platform();
  const cuda::Current current([] {
    CUcontext context = nullptr;
    EXPECT_EQ(cuda::driver()->retain_primary(&context, 0), CUDA_SUCCESS);
    return context;
  }());
  void* managed = nullptr;
  ASSERT_EQ(cudaMallocManaged(&managed, 4096), cudaSuccess);
  EXPECT_EQ(gpus.classify(managed).kind, MemoryKind::managed);
  EXPECT_FALSE(gpus.classify(managed).exportable);
  EXPECT_TRUE(gpus.is_device(managed));
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
  void* pooled = nullptr;
  ASSERT_EQ(cudaMallocAsync(&pooled, 4096, nullptr), cudaSuccess);
  EXPECT_EQ(gpus.classify(pooled).kind, MemoryKind::device);
  EXPECT_FALSE(gpus.classify(pooled).exportable);
  EXPECT_TRUE(gpus.is_device(pooled));
  EXPECT_EQ(cudaFree(pooled), cudaSuccess);
}

TEST_F(GpuCuda, CopiesBetweenAllKindsOfMemory) {
  constexpr size_t kBytes = 1000003;
  std::vector<uint8_t> in(kBytes), out(kBytes);
  for (size_t i = 0; i < kBytes; ++i) in[i] = static_cast<uint8_t>(i * 31 + i / 256);
  const HostBlock block = *device().allocate_host(kBytes);
  EXPECT_EQ(static_cast<uint8_t*>(block.host)[kBytes - 1], 0);
  void* user = *device().user_allocate(kBytes);
  void* runtime = *device().allocate(kBytes);
  void* chain[] = {in.data(), user, runtime, block.host, user, out.data()};
  for (size_t i = 1; i < std::size(chain); ++i) {
    ASSERT_TRUE(device().fill(chain[i] == out.data() ? user : chain[i], 0, 0));
    ASSERT_TRUE(device().copy(chain[i], chain[i - 1], kBytes)) << i;
  }
  EXPECT_EQ(in, out);
  ASSERT_TRUE(device().fill(user, 0x5a, 20));
  ASSERT_TRUE(device().copy(out.data(), user, kBytes));
  for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(out[i], i < 20 ? 0x5a : in[i]) << i;
  device().release_host(block);
  device().release(runtime);
  ASSERT_TRUE(device().user_release(user));
}

TEST_F(GpuCuda, MisuseIsAnsweredAndLeavesNoTrace) {
  auto huge = device().user_allocate(size_t{1} << 46);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.status().code(), Code::out_of_memory) << huge.status().what();
  int local = 0;
  EXPECT_EQ(device().user_release(&local).code(), Code::invalid_argument);
  EXPECT_EQ(*device().user_allocate(0), nullptr);
  EXPECT_TRUE(device().user_release(nullptr));
  EXPECT_EQ(device().prepare({"none", nullptr, nullptr}).code(), Code::unsupported);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(GpuCuda, RuntimeMemoryIsZeroed) {
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<uint8_t> seen(5000, 1);
    void* memory = *device().allocate(5000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 128, 0u);
    ASSERT_TRUE(device().copy(seen.data(), memory, 5000));
    EXPECT_EQ(seen, std::vector<uint8_t>(5000, 0));
    ASSERT_TRUE(device().fill(memory, 0xff, 5000));
    device().release(memory);
  }
}

TEST_F(GpuCuda, SharedHostMemoryIsRegistered) {
  void* mine = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mine, MAP_FAILED);
  auto block = device().register_host(mine, 8192);
  ASSERT_TRUE(block) << block.status().what();
  EXPECT_NE(block->kernel, nullptr);
  EXPECT_EQ(cuda_platform()->classify(mine).kind, MemoryKind::pinned);
  device().unregister_host(*block);
  EXPECT_EQ(cuda_platform()->classify(mine).kind, MemoryKind::host);
  munmap(mine, 8192);
}

TEST_F(GpuCuda, StreamsComeAndGo) {
  Stream one = *device().create_stream(), two = *device().create_stream();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(device().stream_wait(one, two));
    ASSERT_TRUE(device().stream_wait(two, one));
    ASSERT_TRUE(device().stream_wait(two, nullptr));
    ASSERT_TRUE(device().stream_wait(one, one));
  }
  EXPECT_TRUE(device().synchronize(one));
  EXPECT_TRUE(device().synchronize(nullptr));
  EXPECT_TRUE(device().destroy_stream(one));
  EXPECT_TRUE(device().destroy_stream(two));
}

// Holds a stream until open() is called, by a word in host memory.
class Gate {
 public:
  explicit Gate(Device& gpu) : gpu_(gpu), block_(*gpu.allocate_host(8)) {}
  ~Gate() { gpu_.release_host(block_); }
  void close(Stream stream) {
    __atomic_store_n(host(), 0, __ATOMIC_RELEASE);
    EXPECT_TRUE(gpu_.wait_value(stream, static_cast<uint64_t*>(block_.kernel), 1, nullptr));
  }
  void open() { __atomic_store_n(host(), 1, __ATOMIC_RELEASE); }

 private:
  uint64_t* host() { return static_cast<uint64_t*>(block_.host); }
  Device& gpu_;
  HostBlock block_;
};

// Integers in device memory, which copies in streams move about; copies between host memories would hold up the caller.
class Cells {
 public:
  explicit Cells(int n) : first_(static_cast<int*>(*device().allocate(static_cast<size_t>(n) * sizeof(int)))) {
    EXPECT_TRUE(device().fill(first_, 0, static_cast<size_t>(n) * sizeof(int)));
  }
  ~Cells() { device().release(first_); }
  void set(int i, int value) { EXPECT_TRUE(device().copy(at(i), &value, sizeof value)); }
  int get(int i) {
    int value = -1;
    EXPECT_TRUE(device().copy(&value, at(i), sizeof value));
    return value;
  }
  int* at(int i) { return first_ + i; }
  Status move(int to, int from, Stream stream) { return device().copy_async(at(to), at(from), sizeof(int), stream); }

 private:
  int* first_;
};

void count(void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }

// Callbacks come from a thread of the driver's.
bool becomes(const std::atomic<int>& counter, int value) {
  for (int tries = 0; tries < 1000 && counter.load() != value; ++tries) usleep(1000);
  return counter.load() == value;
}

TEST_F(GpuCuda, AnEventStandsForWhatWasBeforeIt) {
  Gate gate(device()), later(device());
  Cells cells(3);
  Stream early = *device().create_stream(), late = *device().create_stream();
  const Event event = *device().create_event();
  cells.set(0, 5);
  ASSERT_TRUE(device().wait_event(late, event));  // never recorded: passes
  gate.close(early);
  ASSERT_TRUE(cells.move(1, 0, early));
  ASSERT_TRUE(device().record(event, early));
  later.close(early);
  ASSERT_TRUE(device().wait_event(late, event));
  ASSERT_TRUE(cells.move(2, 1, late));
  usleep(20000);
  EXPECT_EQ(cells.get(2), 0);
  EXPECT_FALSE(*device().reached(event));
  gate.open();
  EXPECT_TRUE(device().synchronize(late));
  EXPECT_EQ(cells.get(2), 5);
  EXPECT_TRUE(*device().reached(event));
  later.open();
  EXPECT_TRUE(device().destroy_stream(early));
  EXPECT_TRUE(device().destroy_stream(late));
  device().destroy_event(event);
}

TEST_F(GpuCuda, WordsAreSignalsBetweenStreams) {
  constexpr int kRounds = 20;
  Stream sender = *device().create_stream(), receiver = *device().create_stream();
  auto* words = static_cast<uint64_t*>(*device().allocate(16));
  Cells cells(2 * kRounds + 1);
  constexpr int kSlot = 2 * kRounds;
  for (int i = 0; i < kRounds; ++i) {
    cells.set(i, 1000 + i);
    ASSERT_TRUE(device().wait_value(sender, words + 1, i, nullptr));
    ASSERT_TRUE(cells.move(kSlot, i, sender));
    ASSERT_TRUE(device().write_value(sender, words, i + 1));
    ASSERT_TRUE(device().wait_value(receiver, words, i + 1, nullptr));
    ASSERT_TRUE(cells.move(kRounds + i, kSlot, receiver));
    ASSERT_TRUE(device().write_value(receiver, words + 1, i + 1));
  }
  EXPECT_TRUE(device().synchronize(receiver));
  for (int i = 0; i < kRounds; ++i) EXPECT_EQ(cells.get(kRounds + i), 1000 + i);
  EXPECT_TRUE(device().destroy_stream(sender));
  EXPECT_TRUE(device().destroy_stream(receiver));
  device().release(words);
}

TEST_F(GpuCuda, AnUploadDoesNotWaitForTheDefaultStream) {
  Gate gate(device());
  auto* memory = *device().allocate(sizeof(int));
  const int value = 77;
  int seen = 0;
  gate.close(nullptr);
  ASSERT_TRUE(device().upload(memory, &value, sizeof value));  // would hang
  gate.open();
  ASSERT_TRUE(device().copy(&seen, memory, sizeof seen));
  EXPECT_EQ(seen, 77);
  device().release(memory);
}

TEST_F(GpuCuda, AGraphRunsAtEachLaunchOnly) {
  Cells cells(4);
  Stream stream = *device().create_stream(), branch = *device().create_stream();
  auto* word = static_cast<uint64_t*>(*device().allocate(8));
  EXPECT_EQ(*device().capture_of(stream), 0u);
  ASSERT_TRUE(device().begin_capture(stream));
  ASSERT_TRUE(device().stream_wait(branch, stream));
  EXPECT_NE(*device().capture_of(stream), 0u);
  EXPECT_EQ(*device().capture_of(branch), *device().capture_of(stream));
  ASSERT_TRUE(cells.move(1, 0, branch));
  ASSERT_TRUE(device().write_value(branch, word, 1));
  ASSERT_TRUE(device().wait_value(stream, word, 1, nullptr));  // the two branches run side by side
  ASSERT_TRUE(device().stream_wait(stream, branch));
  ASSERT_TRUE(cells.move(2, 1, stream));
  ASSERT_TRUE(device().write_value(stream, word, 0));
  auto graph = device().end_capture(stream);
  ASSERT_TRUE(graph) << graph.status().what();
  EXPECT_EQ(*device().capture_of(branch), 0u);
  for (int round = 1; round < 10; ++round) {
    cells.set(0, round);
    usleep(1000);
    EXPECT_EQ(cells.get(2), round - 1);
    ASSERT_TRUE(device().launch_graph(*graph, stream));
    ASSERT_TRUE(device().synchronize(stream));
    EXPECT_EQ(cells.get(2), round);
  }
  EXPECT_TRUE(device().destroy_graph(*graph));
  EXPECT_TRUE(device().destroy_stream(stream));
  EXPECT_TRUE(device().destroy_stream(branch));
  device().release(word);
}

TEST_F(GpuCuda, EventsAreRecordedAndWaitedForAtEachLaunch) {
  Cells cells(4);
  Stream captured = *device().create_stream(), outside = *device().create_stream();
  const Event begin = *device().create_event(), end = *device().create_event();
  ASSERT_TRUE(device().begin_capture(captured));
  ASSERT_TRUE(device().wait_event(captured, begin));
  ASSERT_TRUE(cells.move(2, 1, captured));
  ASSERT_TRUE(device().record(end, captured));
  auto graph = device().end_capture(captured);
  ASSERT_TRUE(graph) << graph.status().what();
  Gate gate(device());
  for (int round = 1; round < 10; ++round) {
    cells.set(0, round);
    gate.close(outside);
    ASSERT_TRUE(cells.move(1, 0, outside));
    ASSERT_TRUE(device().record(begin, outside));
    ASSERT_TRUE(device().launch_graph(*graph, captured));
    ASSERT_TRUE(device().wait_event(outside, end));
    ASSERT_TRUE(cells.move(3, 2, outside));
    usleep(1000);
    gate.open();
    ASSERT_TRUE(device().synchronize(outside));
    EXPECT_EQ(cells.get(3), round);
  }
  EXPECT_TRUE(device().synchronize(captured));
  EXPECT_TRUE(device().destroy_graph(*graph));
  EXPECT_TRUE(device().destroy_stream(captured));
  EXPECT_TRUE(device().destroy_stream(outside));
  device().destroy_event(begin);
  device().destroy_event(end);
}

TEST_F(GpuCuda, WhatAGraphKeepsGoesAfterItsLastLaunch) {
  Gate gate(device());
  std::atomic<int> released{0};
  Stream stream = *device().create_stream();
  ASSERT_TRUE(device().begin_capture(stream));
  gate.close(stream);
  ASSERT_TRUE(device().keep_with_graph(stream, count, &released));
  auto graph = device().end_capture(stream);
  ASSERT_TRUE(graph) << graph.status().what();
  ASSERT_TRUE(device().launch_graph(*graph, stream));
  ASSERT_TRUE(device().launch_graph(*graph, stream));
  std::thread opener([&] {
    usleep(20000);
    EXPECT_EQ(released.load(), 0);
    gate.open();
  });
  EXPECT_TRUE(device().destroy_graph(*graph));
  EXPECT_TRUE(device().synchronize(stream));
  opener.join();
  EXPECT_TRUE(becomes(released, 1));

  Stream branch = *device().create_stream();
  Cells cells(2);
  ASSERT_TRUE(device().begin_capture(stream));
  ASSERT_TRUE(device().keep_with_graph(stream, count, &released));
  ASSERT_TRUE(device().stream_wait(branch, stream));
  ASSERT_TRUE(cells.move(1, 0, branch));
  auto failed = device().end_capture(stream);  // nobody waited for the branch
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.status().code(), Code::invalid_usage) << failed.status().what();
  EXPECT_TRUE(becomes(released, 2));
  EXPECT_EQ(device().keep_with_graph(stream, count, &released).code(), Code::invalid_usage);
  EXPECT_TRUE(device().destroy_stream(branch));
  EXPECT_TRUE(device().destroy_stream(stream));
}

// The strictest mode, and a stream that the default stream waits for: a call that disturbs captures would end this one.
TEST_F(GpuCuda, ACaptureOfTheApplicationSurvivesAllOurCalls) {
  ASSERT_TRUE(cuda_platform()->choose_device(0));
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  int value = 3, seen = 0;
  void* memory = *device().allocate(4096);
  EXPECT_TRUE(device().upload(memory, &value, sizeof value));
  EXPECT_TRUE(device().copy(&seen, memory, sizeof seen));
  EXPECT_EQ(seen, 3);
  EXPECT_TRUE(device().fill(memory, 0, 4096));
  device().release(memory);
  device().release_host(*device().allocate_host(4096));
  void* user = *device().user_allocate(4096);
  EXPECT_TRUE(device().export_memory(user));
  EXPECT_TRUE(device().user_release(user));
  const Event event = *device().create_event();
  Stream other = *device().create_stream();
  EXPECT_TRUE(device().record(event, other));
  EXPECT_TRUE(device().wait_event(other, event));
  EXPECT_TRUE(device().synchronize(other));
  EXPECT_TRUE(device().destroy_stream(other));
  device().destroy_event(event);
  EXPECT_NE(*device().capture_of(stream), 0u);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(GpuCuda, StreamsOfTwoGpusAreOrderedAndCapturedTogether) {
  if (*cuda_platform()->device_count() < 2) GTEST_SKIP() << "one GPU only";
  Device& second = **cuda_platform()->open(1);
  Stream here = *device().create_stream(), there = *second.create_stream();
  Gate gate(device());
  Cells cells(3);
  cells.set(0, 9);
  gate.close(here);
  ASSERT_TRUE(cells.move(1, 0, here));
  ASSERT_TRUE(device().stream_wait(there, here));
  ASSERT_TRUE(second.copy_async(cells.at(2), cells.at(1), sizeof(int), there));
  ASSERT_TRUE(second.stream_wait(here, there));
  usleep(10000);
  EXPECT_EQ(cells.get(2), 0);
  gate.open();
  EXPECT_TRUE(device().synchronize(here));
  EXPECT_EQ(cells.get(2), 9);

  ASSERT_TRUE(device().begin_capture(here));
  ASSERT_TRUE(second.stream_wait(there, here));
  ASSERT_TRUE(second.copy_async(cells.at(1), cells.at(0), sizeof(int), there));
  ASSERT_TRUE(second.stream_wait(here, there));
  ASSERT_TRUE(cells.move(2, 1, here));
  auto graph = device().end_capture(here);
  ASSERT_TRUE(graph) << graph.status().what();
  cells.set(0, 10);
  ASSERT_TRUE(device().launch_graph(*graph, here));
  EXPECT_TRUE(device().synchronize(here));
  EXPECT_EQ(cells.get(2), 10);
  EXPECT_TRUE(device().destroy_graph(*graph));
  EXPECT_TRUE(device().destroy_stream(here));
  EXPECT_TRUE(second.destroy_stream(there));
}

TEST_F(GpuCuda, InTheSameProcessTheAddressIsTheSame) {
  void* memory = *device().allocate(5000);
  const MemoryHandle handle = *device().export_memory(memory);
  auto opened = device().open_memory(handle);
  ASSERT_TRUE(opened) << opened.status().what();
  EXPECT_EQ(*opened, memory);
  device().close_memory(*opened);
  EXPECT_TRUE(device().fill(memory, 1, 5000));  // still there
  device().release(memory);
}

TEST_F(GpuCuda, ProcessesShareMemoryAlsoInSmallPieces) {
  const Peer::Offer offer = the_peer->offer();
  EXPECT_TRUE(device().can_reach(offer.identity));
  void* opened[Peer::kPieces];
  for (int i = 0; i < Peer::kPieces; ++i) {
    auto memory = device().open_memory(offer.handle[i]);
    ASSERT_TRUE(memory) << i << ": " << memory.status().what();
    EXPECT_EQ(*device().open_memory(offer.handle[i]), *memory) << i;  // open twice
    device().close_memory(*memory);
    opened[i] = *memory;
  }
  for (int i = 0; i < Peer::kPieces; ++i) {
    std::vector<uint8_t> seen(Peer::kBytes[i]);
    ASSERT_TRUE(device().copy(seen.data(), opened[i], seen.size())) << i;
    EXPECT_EQ(seen, std::vector<uint8_t>(seen.size(), static_cast<uint8_t>(10 + i))) << i;
    ASSERT_TRUE(device().fill(opened[i], 100 + i, 1));
    EXPECT_EQ(the_peer->first_byte(i), 100 + i);
  }
  for (void* memory : opened) device().close_memory(memory);
}

// Runs last: it ends the peer.
TEST_F(GpuCuda, MemoryOfADeadProcessIsAnError) {
  const Peer::Offer offer = the_peer->offer();
  the_peer->end();
  auto opened = device().open_memory(offer.handle[0]);
  ASSERT_FALSE(opened);
  EXPECT_NE(std::string(opened.status().what()).find("process"), std::string::npos) << opened.status().what();
}

}  // namespace
}  // namespace gpucoll::gpu

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  gpucoll::gpu::the_peer = new gpucoll::gpu::Peer;  // before anything of CUDA is touched
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
