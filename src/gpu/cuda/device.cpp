#include "gpu/cuda/device.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "base/fork.h"
#include "base/log.h"
#include "gpu/cuda/handle.h"
#include "gpu/cuda/host_registrations.h"

namespace gpucoll::gpu::cuda {
namespace {

// CU_DEVICE_ATTRIBUTE_MPS_ENABLED, by number: headers before CUDA 12.4 do not name it, drivers may know it.
constexpr auto kMpsEnabled = static_cast<CUdevice_attribute>(133);

Result<Identity> identity_of(int index) {
  cudaDeviceProp properties{};
  GC_CUDA(index, cudaGetDeviceProperties(&properties, index));
  Identity identity{};
  std::snprintf(identity.kind, sizeof identity.kind, "cuda");
  static_assert(sizeof identity.uuid == sizeof properties.uuid.bytes);
  std::memcpy(identity.uuid, properties.uuid.bytes, sizeof identity.uuid);
  std::snprintf(identity.name, sizeof identity.name, "%.63s", properties.name);
  std::snprintf(identity.bus_id, sizeof identity.bus_id, "%04x:%02x:%02x.0", properties.pciDomainID & 0xffff,
                properties.pciBusID & 0xff, properties.pciDeviceID & 0xff);
  return identity;
}

// Nothing where CUDA_VISIBLE_DEVICES hides the GPU from this process.
std::optional<int> index_of(const Identity& gpu) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return std::nullopt;
  for (int index = 0; index < count; ++index) {
    auto identity = identity_of(index);
    if (identity && std::memcmp(gpu.uuid, identity->uuid, sizeof gpu.uuid) == 0) return index;
  }
  return std::nullopt;
}

// Whole blocks, where they cost no more memory.
size_t rounded(size_t bytes) {
  return bytes <= kMemoryBlock / 2 || bytes > SIZE_MAX - kMemoryBlock
             ? bytes
             : (bytes + kMemoryBlock - 1) / kMemoryBlock * kMemoryBlock;
}

Result<void*> device_malloc(int index, size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, rounded(bytes));
  if (error == cudaSuccess) return memory;
  char call[64];
  std::snprintf(call, sizeof call, "cudaMalloc of %zu bytes", bytes);
  return failure(error, index, call);
}

}  // namespace

Result<CudaDevice*> CudaDevice::create(int index) {
  CUcontext context = nullptr;
  claim_process();
  GC_CUDA(index, driver()->init(0));
  GC_CUDA(index, driver()->retain_primary(&context, index));
  std::unique_ptr<CudaDevice> device(new CudaDevice(index, context));
  GC_TRY(device->set_up());
  return device.release();
}

Status CudaDevice::set_up() {
  const Unrestricted current(context_);
  GC_TRY_AS(identity_, identity_of(index_));
  int lowest = 0, highest = 0, major = 0, signals = 0, host_tables = 0;
  GC_CUDA(index_, cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  // Streams of different priority do not share a queue of the hardware, in which one could wait for the other.
  GC_CUDA(index_, cudaStreamCreateWithPriority(&service_, cudaStreamNonBlocking, highest));
  GC_CUDA(index_, driver()->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, index_));
  GC_CUDA(index_, driver()->device_attribute(&multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, index_));
  GC_CUDA(index_, driver()->device_attribute(&signals, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, index_));
  GC_CUDA(index_, driver()->device_attribute(&host_tables,
                                             CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, index_));
  keeps_lines_whole_ = major >= 7;
  uses_host_page_tables_ = host_tables != 0;
  has_signals_ = signals != 0 && has_queues();
  return {};
}

std::string CudaDevice::pci_address() const {
  char address[32] = {};
  if (cudaDeviceGetPCIBusId(address, sizeof address, index_) != cudaSuccess) return {};
  std::string text = address;  // sysfs has small letters
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Streams of one queue of the hardware wait for each other, whatever each of them waits for: who lets streams wait for
// other ranks needs several. With MPS a process has two.
bool CudaDevice::has_queues() const {
  constexpr int kEnough = 8;  // what CUDA gives without MPS
  const char* const asked = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (asked ? std::atoi(asked) >= kEnough : !shares_between_processes()) return true;
  log::write(log::Level::info,
             "GPU %d gives this process few queues: what copy engines could move goes by kernels, unless "
             "CUDA_DEVICE_MAX_CONNECTIONS is %d or more",
             index_, kEnough);
  return false;
}

// Without MPS the GPU runs one process at a time.
bool CudaDevice::shares_between_processes() const {
  int enabled = 0;
  if (driver()->device_attribute(&enabled, kMpsEnabled, index_) == CUDA_SUCCESS) return enabled != 0;
  return std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr;
}

// On the service stream: the default stream would wait for kernels of the application, which may wait for us.
Status CudaDevice::clear(void* memory, size_t bytes) {
  GC_CUDA(index_, cudaMemsetAsync(memory, 0, bytes, service_));
  GC_CUDA(index_, cudaStreamSynchronize(service_));
  return {};
}

// Asks the service stream, which is never captured. Only an error that sticks comes twice. Where the process exits, or
// the program has reset the device, there is no context to ask, which is no error.
Status CudaDevice::health() {
  const Unrestricted current(context_);
  const CUresult set = driver()->set_current(context_);  // again, for the answer
  if (set == CUDA_ERROR_DEINITIALIZED || set == CUDA_ERROR_INVALID_CONTEXT || set == CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return {};
  cudaError_t error = cudaSuccess;
  for (int look = 0; look < 2; ++look) {
    error = cudaStreamQuery(service_);
    if (error == cudaSuccess) return {};
    cudaGetLastError();  // or the application would find it there
    if (error == cudaErrorNotReady || error == cudaErrorCudartUnloading) return {};
  }
  return failure(error, index_, "cudaStreamQuery");
}

Result<void*> CudaDevice::allocate(size_t bytes) {
  const Unrestricted current(context_);
  GC_TRY_AS(void* memory, device_malloc(index_, bytes == 0 ? 1 : bytes));
  if (Status status = clear(memory, bytes); !status) {
    cudaFree(memory);
    return status;
  }
  return memory;
}

void CudaDevice::release(void* kernel_address) noexcept {
  const Unrestricted current(context_);
  if (cudaFree(kernel_address) != cudaSuccess) cudaGetLastError();  // the GPU is beyond help; reported elsewhere
}

Result<void*> CudaDevice::user_allocate(size_t bytes) {
  const Unrestricted current(context_);
  if (bytes == 0) return nullptr;
  return device_malloc(index_, bytes);
}

Status CudaDevice::user_release(void* user_address) {
  const Unrestricted current(context_);
  const cudaError_t error = cudaFree(user_address);
  if (error == cudaErrorInvalidValue || error == cudaErrorInvalidDevicePointer) {
    cudaGetLastError();
    return Status::error(Code::invalid_argument, "%p is not the start of memory of GPU %d, or was released before",
                         user_address, index_);
  }
  if (error != cudaSuccess) return failure(error, index_, "cudaFree");
  return {};
}

Result<HostBlock> CudaDevice::allocate_host(size_t bytes) {
  const Unrestricted current(context_);
  HostBlock block;
  block.bytes = bytes;
  GC_CUDA(index_, cudaHostAlloc(&block.host, bytes == 0 ? 1 : bytes, cudaHostAllocPortable | cudaHostAllocMapped));
  if (cudaError_t error = cudaHostGetDevicePointer(&block.kernel, block.host, 0); error != cudaSuccess) {
    cudaFreeHost(block.host);
    return failure(error, index_, "cudaHostGetDevicePointer");
  }
  std::memset(block.host, 0, bytes);
  return block;
}

void CudaDevice::release_host(const HostBlock& block) noexcept {
  const Unrestricted current(context_);
  if (block.host != nullptr && cudaFreeHost(block.host) != cudaSuccess) cudaGetLastError();
}

Result<HostBlock> CudaDevice::register_host(void* host, size_t bytes) {
  const Unrestricted current(context_);
  HostBlock block{host, nullptr, bytes};
  const cudaError_t error = HostRegistrations::instance().add(host, bytes, &block.kernel);
  if (error == cudaSuccess) return block;
  char call[160];
  std::snprintf(call, sizeof call,
                "cudaHostRegister of %zu bytes of shared memory (is the limit on locked memory, `ulimit -l`, too low?)",
                bytes);
  return failure(error, index_, call);
}

void CudaDevice::unregister_host(const HostBlock& block) noexcept {
  const Unrestricted current(context_);
  HostRegistrations::instance().remove(block.host);
}

Result<MemoryHandle> CudaDevice::export_memory(void* kernel_address) {
  const Unrestricted current(context_);
  const auto address = reinterpret_cast<CUdeviceptr>(kernel_address);
  CUdeviceptr base = 0;
  CudaHandle mine{};
  GC_CUDA(index_, driver()->address_range(&base, &mine.bytes, address));
  GC_CUDA(index_, cudaIpcGetMemHandle(&mine.ipc, reinterpret_cast<void*>(base)));
  mine.process_id = this_process();
  mine.address = address;
  mine.offset = address - base;
  mine.buffer_id = cuda_platform()->classify(kernel_address).buffer_id;
  mine.pid = getpid();
  mine.device = index_;
  return mine.pack();
}

Result<void*> CudaDevice::open_memory(const MemoryHandle& handle) {
  const Unrestricted current(context_);
  const CudaHandle peer = CudaHandle::unpack(handle);
  if (peer.process_id == this_process()) return reach_own(peer);
  GC_TRY_AS(void* base, imports_.open(peer, index_));
  return static_cast<void*>(static_cast<char*>(base) + peer.offset);
}

// Memory of this process has its address everywhere; another GPU of the process only needs to be let in.
Result<void*> CudaDevice::reach_own(const CudaHandle& handle) {
  if (handle.device != index_) {
    const cudaError_t error = cudaDeviceEnablePeerAccess(handle.device, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      cudaGetLastError();
    } else if (error != cudaSuccess) {
      return failure(error, index_, "cudaDeviceEnablePeerAccess");
    }
  }
  return reinterpret_cast<void*>(handle.address);
}

void CudaDevice::close_memory(void* kernel_address) noexcept {
  const Unrestricted current(context_);
  imports_.close(kernel_address);
}

bool CudaDevice::can_reach(const Identity& peer) const {
  if (std::strcmp(peer.kind, identity_.kind) != 0) return false;
  if (std::memcmp(peer.uuid, identity_.uuid, sizeof peer.uuid) == 0) return true;
  if (const std::optional<int> other = index_of(peer)) {
    int can = 0;
    return cudaDeviceCanAccessPeer(&can, index_, *other) == cudaSuccess && can != 0;
  }
  // CUDA_VISIBLE_DEVICES hides the peer from this process: opening its memory will tell.
  log::write(log::Level::debug, "GPU %d cannot ask whether it reaches the hidden GPU %s; it will try", index_,
             peer.bus_id);
  return true;
}

bool CudaDevice::has_native_atomics(const Identity& peer) const {
  const std::optional<int> other = index_of(peer);
  int native = 0;
  return other &&
         cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, index_, *other) == cudaSuccess &&
         native != 0;
}

// The driver must not take a thread without a context for a pointer without meaning.
PointerInfo CudaDevice::classify_kernel(const void* address) const {
  const Current current(context_);
  return cuda_platform()->classify(address);
}

// As cudaMemcpy, after the default stream; but using that while some stream is being captured would spoil the capture
// (asking does not), and then nothing can be in it that matters.
cudaStream_t CudaDevice::copy_stream() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(cudaStreamLegacy, &status) == cudaSuccess) return cudaStreamLegacy;
  cudaGetLastError();
  return service_;
}

Status CudaDevice::copy(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return {};
  const Unrestricted current(context_);
  const cudaStream_t stream = copy_stream();
  GC_CUDA(index_, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
  GC_CUDA(index_, cudaStreamSynchronize(stream));
  return {};
}

Status CudaDevice::fill(void* dst, int byte, size_t bytes) {
  if (bytes == 0) return {};
  const Unrestricted current(context_);
  const cudaStream_t stream = copy_stream();
  GC_CUDA(index_, cudaMemsetAsync(dst, byte, bytes, stream));
  GC_CUDA(index_, cudaStreamSynchronize(stream));
  return {};
}

Status CudaDevice::upload(void* kernel_address, const void* host, size_t bytes) {
  if (bytes == 0) return {};
  const Unrestricted current(context_);
  GC_CUDA(index_, cudaMemcpyAsync(kernel_address, host, bytes, cudaMemcpyDefault, service_));
  GC_CUDA(index_, cudaStreamSynchronize(service_));
  return {};
}

Status CudaDevice::prepare(const Kernel& kernel) {
  if (kernel.cuda == nullptr)
    return Status::error(Code::unsupported, "the kernel %s was not built for GPUs", kernel.name);
  std::lock_guard lock(mutex_);
  if (prepared_.count(kernel.cuda)) return {};
  const Unrestricted current(context_);
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel.cuda);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();
    return Status::error(Code::unsupported,
                         "gpucoll was not built for the architecture of GPU %d (%s); configure it with "
                         "--with-cuda-arch",
                         index_, identity_.name);
  }
  if (error != cudaSuccess) return failure(error, index_, kernel.name);
  if (prepared_.empty()) cluster_size_ = cluster_size_for(kernel);
  prepared_.insert(kernel.cuda);
  return {};
}

}  // namespace gpucoll::gpu::cuda
