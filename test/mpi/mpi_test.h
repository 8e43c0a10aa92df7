// Shared by the MPI test programs: who we are, memory of either kind, failures that say where they happened.
//
// Thread safety: fail() and checked() may be called from any thread; the rest from the main one.
// Ownership: a Memory owns its bytes; Mpi owns MPI_Init and MPI_Finalize.
#pragma once
#include <dlfcn.h>
#include <mpi.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

// Persistent collectives became part of MPI with Open MPI 5.0; before, they were an extension.
#if OMPI_MAJOR_VERSION >= 5
#define GC_INIT(X) MPI_##X##_init
#else
#include <mpi-ext.h>  // after mpi.h, which it leans on
#define GC_INIT(X) MPIX_##X##_init
#endif

#include "gpucoll/gpucoll.h"

namespace mpi_test {

inline int g_rank = 0, g_size = 1;
inline std::atomic<long> g_checks{0}, g_failures{0};

inline void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
inline void fail(const char* format, ...) {
  if (g_failures++ > 20) return;  // the first ones tell most
  char text[400];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  std::printf("FAIL rank %d of %d: %s\n", g_rank, g_size, text);
  std::fflush(stdout);
}

inline bool checked(bool right) {
  ++g_checks;
  return right;
}

inline void need(gpucollResult_t result, const char* what) {
  if (result == gpucollSuccess) return;
  std::printf("rank %d: %s failed: %s\n", g_rank, what, gpucollGetLastError(nullptr));
  MPI_Abort(MPI_COMM_WORLD, 3);
}

// Chooses this thread's device: each rank its own, as far as there are enough.
inline void use_own_device() {
  int devices = 1;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  need(gpucollSetDevice(g_rank % devices), "gpucollSetDevice");
}

// Runs body(t) in n threads, each with this rank's device.
template <class Body>
void on_threads(int n, const Body& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < n; ++t)
    threads.emplace_back([&body, t] {
      use_own_device();
      body(t);
    });
  for (std::thread& thread : threads) thread.join();
}

// Returns the class of what a function of MPI returns.
inline int class_of(int rc) {
  int found = rc;
  if (rc != MPI_SUCCESS) MPI_Error_class(rc, &found);
  return found;
}

// Returns whether as_nodes.sh has put the ranks on several nodes.
inline bool on_several_nodes() { return std::getenv("GPUCOLL_HOST_ID") != nullptr; }

// MPI from start to end; finish() tells the result, the same on every rank.
class Mpi {
 public:
  Mpi(int argc, char** argv, int wanted_threads = MPI_THREAD_SINGLE) {
    MPI_Init_thread(&argc, &argv, wanted_threads, &threads_);
    MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &g_size);
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  int threads() const { return threads_; }

  int finish(const char* name) {
    long mine[2] = {g_checks, g_failures}, all[2] = {0, 0};
    MPI_Reduce(mine, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Bcast(all, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    if (g_rank == 0) std::printf("%s: %ld checks, %ld failures\n", name, all[0], all[1]);
    MPI_Finalize();
    return all[1] != 0 || all[0] == 0;
  }

 private:
  int threads_ = 0;
};

// The main function of a program that does one thing, or another one where it is called with the word threads.
inline int main_of(int argc, char** argv, const char* name, void (*with_one_thread)(), void (*with_threads)()) {
  const bool threads = argc > 1 && !std::strcmp(argv[1], "threads");
  Mpi mpi(argc, argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  use_own_device();
  if (!threads)
    with_one_thread();
  else if (mpi.threads() == MPI_THREAD_MULTIPLE)
    with_threads();
  else
    checked(true);  // this MPI was built without
  return mpi.finish(name);
}

enum class Where { host, device };
inline const char* name_of(Where where) { return where == Where::host ? "host" : "device"; }

// Device memory is kept until the process ends. For threads that free while collectives of others are under way:
// cudaFree waits for all that its device does, so that two ranks, each with the kernel of another collective running,
// wait for each other.
inline std::atomic<bool> g_keep_memory{false};

// CUDA's driver, in the context of this rank's GPU. For tests on GPUs.
class CudaDriver {
 public:
  static CudaDriver& instance() {
    static CudaDriver driver;
    return driver;
  }
  // Calls the driver's function `name`, and ends the program where that fails.
  template <class... Arguments>
  void call(const char* name, Arguments... arguments) {
    void* const function = driver_ ? dlsym(driver_, name) : nullptr;
    const int result = function ? reinterpret_cast<int (*)(Arguments...)>(function)(arguments...) : -1;
    if (result == 0) return;
    std::printf("rank %d: %s of CUDA's driver failed: error %d\n", g_rank, name, result);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }

 private:
  CudaDriver() {
    int devices = 1, device = 0;
    void* context = nullptr;
    need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
    call<unsigned>("cuInit", 0);
    call<int*, int>("cuDeviceGet", &device, g_rank % devices);
    call<void**, int>("cuDevicePrimaryCtxRetain", &context, device);
    call<void*>("cuCtxSetCurrent", context);
  }
  void* driver_ = dlopen("libcuda.so.1", RTLD_NOW);
};

// Gives managed memory, which migrates between host and GPU. For tests on GPUs: see test/device/run.
class ManagedMemory {
 public:
  static bool is_wanted() {
    static const bool wanted = std::getenv("GC_TEST_MANAGED") != nullptr;
    return wanted;
  }
  static ManagedMemory& instance() {
    static ManagedMemory memory;
    return memory;
  }
  void* allocate(size_t bytes) {
    constexpr unsigned kGlobal = 1;
    void* made = nullptr;
    CudaDriver::instance().call<void**, size_t, unsigned>("cuMemAllocManaged", &made, bytes, kGlobal);
    return made;
  }
  void release(void* memory) { CudaDriver::instance().call<void*>("cuMemFree_v2", memory); }
};

using Bytes = std::vector<uint8_t>;

// Bytes in host or device memory; reading and writing work on both.
class Memory {
 public:
  Memory(Where where, size_t bytes) : where_(where), bytes_(bytes) {
    if (where == Where::host)
      data_ = std::malloc(bytes + 1);
    else if (ManagedMemory::is_wanted())
      data_ = ManagedMemory::instance().allocate(bytes + 1);
    else
      need(gpucollMalloc(&data_, bytes + 1), "gpucollMalloc");
  }
  ~Memory() {
    if (where_ == Where::host)
      std::free(data_);
    else if (g_keep_memory)
      return;
    else if (ManagedMemory::is_wanted())
      ManagedMemory::instance().release(data_);
    else
      need(gpucollFree(data_), "gpucollFree");
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* at(ptrdiff_t offset) const { return static_cast<char*>(data_) + offset; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }
  void write(const void* from) { copy(data_, from, bytes_); }
  void read(void* to) const { copy(to, data_, bytes_); }
  Bytes image() const {
    Bytes now(bytes_);
    read(now.data());
    return now;
  }
  // Its beginning.
  void write(const void* from, size_t bytes) { copy(data_, from, bytes); }
  void read(void* to, size_t bytes) const { copy(to, data_, bytes); }

 private:
  void copy(void* to, const void* from, size_t bytes) const {
    if (bytes == 0) return;
    if (where_ == Where::host)
      std::memcpy(to, from, bytes);
    else
      need(gpucollMemcpy(to, from, bytes), "gpucollMemcpy");
  }
  Where where_;
  size_t bytes_;
  void* data_ = nullptr;
};

// Whether memory that is freed can be used again: AddressSanitizer keeps it.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kFreedIsUsedAgain = false;
#else
inline constexpr bool kFreedIsUsedAgain = true;
#endif

// The same number for the same arguments everywhere; different ones differ in all bits.
inline uint64_t mix(uint64_t a, uint64_t b = 0, uint64_t c = 0) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu + 0x2545f4914f6cdd1du;
  for (int i = 0; i < 3; i++) x = (x ^ (x >> 29)) * 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

// How a collective is called: MPI_X, MPI_Ix and wait, or GC_INIT(X), start and wait.
enum class Form { blocking, nonblocking, persistent };
inline constexpr Form kForms[] = {Form::blocking, Form::nonblocking, Form::persistent};
inline const char* name_of(Form form) {
  return form == Form::blocking ? "" : form == Form::nonblocking ? "nonblocking " : "persistent ";
}

}  // namespace mpi_test
