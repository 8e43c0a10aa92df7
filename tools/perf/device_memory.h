// Device memory through gpucoll's C API, which gives it on GPUs and on the emulated device alike.
//
// Thread safety: none. Ownership: a DeviceMemory frees what it holds.
#pragma once
#include <cstddef>
#include <utility>

#include "base/status.h"

namespace gpucoll::perf {

class DeviceMemory {
 public:
  static Result<DeviceMemory> create(size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept : address_(std::exchange(other.address_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(address_, other.address_);
    return *this;
  }
  ~DeviceMemory();
  void* at(size_t offset) const { return static_cast<char*>(address_) + offset; }

 private:
  explicit DeviceMemory(void* address) : address_(address) {}
  void* address_;
};

// The buffers that all measurements share. REQUIRES: large enough for each call, plus kGuardBytes behind recv.
struct Buffers {
  static constexpr size_t kGuardBytes = 512;
  DeviceMemory send, recv;
};

// gpucollMemcpy and gpucollMemset as Status.
Status copy(void* dst, const void* src, size_t bytes);
Status fill(void* dst, int byte, size_t bytes);
// An answer of the C API, with the sentence that belongs to it.
Status from_api(int result, const char* call);

}  // namespace gpucoll::perf
