#include "gpu/program_copies.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>

#include "gpu/cuda/driver.h"

namespace gpucoll::gpu {
namespace {

// A copy from pageable memory begins behind all that its stream has had, so what is left of it takes little time. A
// stream that is busy for longer runs kernels that were launched since.
constexpr std::chrono::milliseconds kMost{5};

// Returns whether asking the stream spoils no capture.
bool may_ask(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const bool may = cudaStreamIsCapturing(stream, &status) == cudaSuccess && status == cudaStreamCaptureStatusNone;
  if (!may) cudaGetLastError();
  return may;
}

void await(cudaStream_t stream, std::chrono::steady_clock::time_point end) {
  if (!may_ask(stream)) return;
  cudaError_t answer = cudaStreamQuery(stream);
  for (; answer == cudaErrorNotReady && std::chrono::steady_clock::now() < end; answer = cudaStreamQuery(stream))
    sched_yield();
  if (answer != cudaSuccess) cudaGetLastError();  // else it is an error of the program's
}

// Lets copies of this allocation end before their calls return. Memory of pools cannot have that.
void make_synchronous(const void* address) {
  unsigned on = 1;
  cuda::driver()->set_pointer_attribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, reinterpret_cast<CUdeviceptr>(address));
}

// The allocations that the process has seen last, by their numbers.
class Known {
 public:
  bool has(uint64_t buffer_id) const { return place(buffer_id).load(std::memory_order_relaxed) == buffer_id; }
  void add(uint64_t buffer_id) { place(buffer_id).store(buffer_id, std::memory_order_relaxed); }

 private:
  const std::atomic<uint64_t>& place(uint64_t buffer_id) const { return ids_[buffer_id % ids_.size()]; }
  std::atomic<uint64_t>& place(uint64_t buffer_id) { return ids_[buffer_id % ids_.size()]; }
  std::array<std::atomic<uint64_t>, 4096> ids_ = {};
};

}  // namespace

void await_program_copies(const void* address, const PointerInfo& info) noexcept {
  static Known known;
  CUcontext context = nullptr;
  if (info.kind != MemoryKind::device || info.buffer_id == 0 || known.has(info.buffer_id)) return;
  if (cuda::driver() == nullptr || cuda::driver()->get_current(&context) != CUDA_SUCCESS || context == nullptr) return;
  make_synchronous(address);
  const cuda::Unrestricted current(context);
  const auto end = std::chrono::steady_clock::now() + kMost;
  for (cudaStream_t stream : {cudaStreamLegacy, cudaStreamPerThread}) await(stream, end);
  known.add(info.buffer_id);
}

}  // namespace gpucoll::gpu
