// GPUs through CUDA: how many there are, what a pointer is, one CudaDevice for each GPU in use.
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <iterator>
#include <mutex>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/handle.h"
#include "gpu/hint.h"

namespace gpucoll::gpu {
namespace cuda {

uint64_t this_process() noexcept {
  static const uint64_t id = [] {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) == static_cast<ssize_t>(sizeof random)) return random;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (static_cast<uint64_t>(getpid()) << 40) ^ static_cast<uint64_t>(now.tv_sec * 1000000000 + now.tv_nsec);
  }();
  return id;
}

namespace {

Result<int> count_devices() {
  if (driver() == nullptr) return Status::error(Code::unsupported, "%s", driver_problem());
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  if (error == cudaErrorInsufficientDriver)
    return Status::error(Code::unsupported,
                         "the CUDA driver is too old for CUDA %d.%d, with which gpucoll was built; update the driver",
                         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (error == cudaSuccess || error == cudaErrorNoDevice)
    return Status::error(Code::unsupported,
                         "the CUDA driver shows no GPU; look at CUDA_VISIBLE_DEVICES and at who may open /dev/nvidia*");
  return Status::error(Code::unsupported, "GPUs cannot be used: %s (%s)", cudaGetErrorString(error),
                       cudaGetErrorName(error));
}

// Answers of the driver about one pointer. Zero is the answer for memory that it does not know.
struct Answers {
  unsigned memory_type = 0, managed = 0, ipc_capable = 0;
  int ordinal = -1;
  unsigned long long buffer_id = 0;
  CUdeviceptr start = 0;
  size_t bytes = 0;
};

MemoryKind kind_of(unsigned memory_type, unsigned managed) {
  if (managed != 0) return MemoryKind::managed;
  if (memory_type == CU_MEMORYTYPE_DEVICE) return MemoryKind::device;
  return memory_type == CU_MEMORYTYPE_HOST ? MemoryKind::pinned : MemoryKind::host;
}

class CudaPlatform final : public Platform {
 public:
  const char* name() const override { return "cuda"; }

  Result<int> device_count() override {
    static const auto* const count = new Result<int>(count_devices());  // does not change while a process lives
    return *count;
  }

  // Asks the driver, not the runtime library: the application may bring its own copy of that.
  int current_device() override {
    CUcontext context = nullptr;
    CUdevice device = 0;
    if (driver() == nullptr || driver()->get_current(&context) != CUDA_SUCCESS || context == nullptr) return 0;
    return driver()->current_device(&device) == CUDA_SUCCESS ? device : 0;
  }

  Status choose_device(int index) override {
    GC_TRY_AS(CudaDevice * device, find(index));
    GC_CUDA(index, driver()->set_current(device->context()));
    return {};
  }

  Result<Device*> open(int index) override {
    GC_TRY_AS(CudaDevice * device, find(index));
    return static_cast<Device*>(device);
  }

  PointerInfo classify(const void* address) override;
  bool is_device(const void* address) noexcept override;

 private:
  Result<CudaDevice*> find(int index) {
    GC_TRY_AS(const int count, device_count());
    if (index < 0 || index >= count)
      return Status::error(Code::invalid_argument, "there is no GPU number %d: this process sees %d, counted from 0",
                           index, count);
    std::lock_guard lock(mutex_);
    devices_.resize(static_cast<size_t>(count));
    CudaDevice*& device = devices_[static_cast<size_t>(index)];
    if (device == nullptr) {
      GC_TRY_AS(device, CudaDevice::create(index));
    }
    return device;
  }

  std::mutex mutex_;
  std::vector<CudaDevice*> devices_;  // null until used; never destroyed, as the driver may be gone at exit
};

PointerInfo CudaPlatform::classify(const void* address) {
  PointerInfo info;
  if (driver() == nullptr) return info;
  Answers a;
  CUpointer_attribute questions[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                     CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                     CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* answers[] = {&a.memory_type, &a.managed, &a.ipc_capable, &a.ordinal, &a.buffer_id, &a.start, &a.bytes};
  static_assert(std::size(questions) == std::size(answers));
  // Also fails while nobody has initialised the driver: then there is no device memory yet.
  if (driver()->pointer_attributes(std::size(questions), questions, answers, reinterpret_cast<CUdeviceptr>(address)) !=
      CUDA_SUCCESS)
    return info;
  info.kind = kind_of(a.memory_type, a.managed);
  if (info.kind == MemoryKind::host) return info;
  info.device = info.kind == MemoryKind::pinned ? -1 : a.ordinal;
  info.buffer_id = a.buffer_id;
  info.base = reinterpret_cast<const void*>(a.start);
  info.bytes = a.bytes;
  info.exportable = info.kind == MemoryKind::device && a.ipc_capable != 0;
  info.shares_block = a.bytes < kMemoryBlock;
  return info;
}

bool CudaPlatform::is_device(const void* address) noexcept {
  const Driver* cuda = driver();
  if (cuda == nullptr) return false;
  unsigned memory_type = 0, managed = 0;
  CUpointer_attribute questions[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* answers[] = {&memory_type, &managed};
  return cuda->pointer_attributes(2, questions, answers, reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS &&
         (memory_type == CU_MEMORYTYPE_DEVICE || managed != 0);
}

}  // namespace
}  // namespace cuda

Platform* cuda_platform() {
  static auto* const platform = new cuda::CudaPlatform;
  // Without a driver every pointer is host memory, and no one needs to ask again.
  static const bool ruled_out = cuda::driver() == nullptr && (rule_out_gpus(), true);
  (void)ruled_out;
  return platform;
}

}  // namespace gpucoll::gpu
