// Ranks of one communicator as threads of this process, on the device that the environment chooses.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gpucoll/gpucoll.h"
#include "nodes.h"

namespace gpucoll_test {

#define GC_OK(...) ASSERT_EQ(gpucollSuccess, __VA_ARGS__) << gpucollGetLastError(nullptr)

// Device memory that is given back at the end of the scope.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) : bytes_(bytes) {
    EXPECT_EQ(gpucollSuccess, gpucollMalloc(&data_, bytes)) << gpucollGetLastError(nullptr);
  }
  ~DeviceBuffer() { EXPECT_EQ(gpucollSuccess, gpucollFree(data_)); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  char* at(size_t offset = 0) const { return static_cast<char*>(data_) + offset; }
  template <class T>
  void put(const std::vector<T>& from, size_t offset = 0) {
    EXPECT_EQ(gpucollSuccess, gpucollMemcpy(at(offset), from.data(), from.size() * sizeof(T)));
  }
  template <class T>
  std::vector<T> get(size_t count, size_t offset = 0) {
    std::vector<T> to(count);
    EXPECT_EQ(gpucollSuccess, gpucollMemcpy(to.data(), at(offset), count * sizeof(T)));
    return to;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

// A stream of one rank. Ranks that share a device must not share a stream: their kernels wait for each other.
struct Stream {
  gpucollStream_t handle = nullptr;
  Stream() { EXPECT_EQ(gpucollSuccess, gpucollStreamCreate(&handle)); }
  ~Stream() { EXPECT_EQ(gpucollSuccess, gpucollStreamDestroy(handle)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

// Runs body(rank) in n threads.
inline void on_threads(int n, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) threads.emplace_back([&, r] { body(r); });
  for (auto& t : threads) t.join();
}

// Whether n ranks of one process find a device each; the emulated one carries any number.
inline bool enough_devices(int n) {
  const char* kind = "";
  int count = 0;
  EXPECT_EQ(gpucollSuccess, gpucollDeviceKind(&kind));
  EXPECT_EQ(gpucollSuccess, gpucollDeviceCount(&count));
  if (std::strcmp(kind, "cuda") || n <= count) return true;
  std::printf("left out: %d ranks in one process need %d GPUs, %d are here\n", n, n, count);
  return false;
}

inline void choose_device(int rank) {
  int count = 0;
  GC_OK(gpucollDeviceCount(&count));
  GC_OK(gpucollSetDevice(rank % count));
}

// Runs body(comm, rank) on every rank of a fresh communicator of n, which body destroys or aborts.
inline void on_ranks_that_destroy(int n, const std::function<void(gpucollComm_t, int)>& body,
                                  const gpucollConfig_t* config = nullptr) {
  if (!enough_devices(n)) return;
  gpucollUniqueId id;
  GC_OK(gpucollGetUniqueId(&id));
  on_threads(n, [&](int rank) {
    choose_device(rank);
    gpucollComm_t comm = nullptr;
    GC_OK(config ? gpucollCommInitRankConfig(&comm, n, id, rank, config) : gpucollCommInitRank(&comm, n, id, rank));
    body(comm, rank);
  });
}

// The same, and destroys it.
inline void on_ranks(int n, const std::function<void(gpucollComm_t, int)>& body) {
  on_ranks_that_destroy(n, [&](gpucollComm_t comm, int rank) {
    body(comm, rank);
    GC_OK(gpucollCommDestroy(comm));
  });
}

// A value that depends on rank and index, small enough for exact sums in any type.
inline int value(int rank, size_t index) {
  return static_cast<int>((index * 7 + static_cast<size_t>(rank) * 13) % 11) - 3;
}

// The first asynchronous error of a communicator, or none within `seconds`.
inline gpucollResult_t await_error(gpucollComm_t comm, int seconds = 20) {
  gpucollResult_t error = gpucollSuccess;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (error == gpucollSuccess && std::chrono::steady_clock::now() < end) {
    EXPECT_EQ(gpucollSuccess, gpucollCommGetAsyncError(comm, &error));
    usleep(1000);
  }
  return error;
}

}  // namespace gpucoll_test
