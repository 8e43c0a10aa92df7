// Streams, events, signals and graphs of a GPU.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "gpu/cuda/device.h"

namespace gpucoll::gpu::cuda {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(Event event) { return static_cast<cudaEvent_t>(event); }
cudaGraphExec_t native_graph(Graph graph) { return static_cast<cudaGraphExec_t>(graph); }

// The thing that a graph keeps; owned by the driver's user object.
struct Kept {
  void (*release)(void*);
  void* argument;
};

void CUDART_CB release_kept(void* it) {
  const std::unique_ptr<Kept> kept(static_cast<Kept*>(it));
  if (kept->release != nullptr) kept->release(kept->argument);
}

}  // namespace

Result<Stream> CudaDevice::create_stream() {
  const Unrestricted current(context_);
  cudaStream_t stream = nullptr;
  GC_CUDA(index_, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return static_cast<Stream>(stream);
}

// Streams of different priority do not share a queue of the hardware, in which one could wait for the other.
Result<Stream> CudaDevice::create_urgent_stream() { return create_stream_below_highest(0); }
Result<Stream> CudaDevice::create_waiting_stream() { return create_stream_below_highest(1); }

// Lower numbers are higher priorities.
Result<Stream> CudaDevice::create_stream_below_highest(int steps) {
  const Unrestricted current(context_);
  int lowest = 0, highest = 0;
  GC_CUDA(index_, cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  cudaStream_t stream = nullptr;
  GC_CUDA(index_, cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, std::min(highest + steps, lowest)));
  return static_cast<Stream>(stream);
}

Status CudaDevice::destroy_stream(Stream stream) {
  const Unrestricted current(context_);
  GC_CUDA(index_, cudaStreamSynchronize(native(stream)));
  GC_CUDA(index_, cudaStreamDestroy(native(stream)));
  return {};
}

uint64_t CudaDevice::stream_id(Stream stream) noexcept {
  const Current current(context_);
  unsigned long long id = 0;
  if (cudaStreamGetId(native(stream), &id) == cudaSuccess) return id;
  cudaGetLastError();
  return 0;
}

Status CudaDevice::synchronize(Stream stream) {
  const Unrestricted current(context_);
  GC_CUDA(index_, cudaStreamSynchronize(native(stream)));
  return {};
}

Result<cudaEvent_t> CudaDevice::take_event() {
  std::lock_guard lock(mutex_);
  if (!events_.empty()) {
    cudaEvent_t event = events_.back();
    events_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  GC_CUDA(index_, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

Status CudaDevice::stream_wait(Stream stream, Stream other) {
  if (stream == other) return {};
  const Current current(context_);
  CUcontext owner = context_;
  if (other != nullptr) GC_CUDA(index_, driver()->stream_context(native(other), &owner));
  if (owner != context_) return record_foreign(native(other), owner, native(stream));
  GC_TRY_AS(cudaEvent_t event, take_event());
  cudaError_t error = cudaEventRecord(event, native(other));
  if (error == cudaSuccess) error = cudaStreamWaitEvent(native(stream), event, 0);
  {
    // The wait has taken over what it waits for: the event may be recorded again at once.
    std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  GC_CUDA(index_, error);
  return {};
}

// An event is recorded on its own GPU only; waiting for it is possible on all.
Status CudaDevice::record_foreign(cudaStream_t other, CUcontext owner, cudaStream_t waiter) {
  const Unrestricted current(owner);
  cudaEvent_t event = nullptr;
  GC_CUDA(index_, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  cudaError_t error = cudaEventRecord(event, other);
  if (error == cudaSuccess) {
    const Current back(context_);
    error = cudaStreamWaitEvent(waiter, event, 0);
  }
  cudaEventDestroy(event);  // the wait has taken over what it waits for
  GC_CUDA(index_, error);
  return {};
}

Result<Event> CudaDevice::create_event() {
  const Unrestricted current(context_);
  cudaEvent_t event = nullptr;
  GC_CUDA(index_, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return static_cast<Event>(event);
}

void CudaDevice::destroy_event(Event event) noexcept {
  const Unrestricted current(context_);
  if (cudaEventDestroy(native_event(event)) != cudaSuccess) cudaGetLastError();
}

Result<bool> CudaDevice::capturing(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  GC_CUDA(index_, cudaStreamIsCapturing(native(stream), &status));
  return status == cudaStreamCaptureStatusActive;
}

// The external flag has a meaning in captures only.
Status CudaDevice::record(Event event, Stream stream) {
  const Current current(context_);
  GC_TRY_AS(const bool captured, capturing(stream));
  GC_CUDA(index_, cudaEventRecordWithFlags(native_event(event), native(stream),
                                           captured ? cudaEventRecordExternal : cudaEventRecordDefault));
  return {};
}

Status CudaDevice::wait_event(Stream stream, Event event) {
  const Current current(context_);
  GC_TRY_AS(const bool captured, capturing(stream));
  GC_CUDA(index_, cudaStreamWaitEvent(native(stream), native_event(event),
                                      captured ? cudaEventWaitExternal : cudaEventWaitDefault));
  return {};
}

Result<bool> CudaDevice::reached(Event event) {
  const Unrestricted current(context_);  // the program may be capturing another stream
  const cudaError_t state = cudaEventQuery(native_event(event));
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // or the application would find it there
    return false;
  }
  GC_CUDA(index_, state);
  return true;
}

Status CudaDevice::copy_async(void* dst, const void* src, size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  const Current current(context_);
  GC_CUDA(index_, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, native(stream)));
  return {};
}

Status CudaDevice::check_signals() const {
  if (has_signals_) return {};
  return Status::error(Code::unsupported, "GPU %d (%s) does not support stream memory operations: update the driver",
                       index_, identity_.name);
}

Status CudaDevice::write_value(Stream stream, uint64_t* word, uint64_t value) {
  GC_TRY(check_signals());
  const Current current(context_);
  GC_CUDA(index_, driver()->write_value(native(stream), reinterpret_cast<CUdeviceptr>(word), value,
                                        CU_STREAM_WRITE_VALUE_DEFAULT));
  return {};
}

// The GPU does not look at abort: whoever gives up stores the word.
Status CudaDevice::wait_value(Stream stream, const uint64_t* word, uint64_t value, const uint32_t*) {
  GC_TRY(check_signals());
  const Current current(context_);
  GC_CUDA(index_,
          driver()->wait_value(native(stream), reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WAIT_VALUE_GEQ));
  return {};
}

Result<uint64_t> CudaDevice::capture_of(Stream stream) {
  const Current current(context_);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  GC_CUDA(index_, cudaStreamGetCaptureInfo(native(stream), &status, &id));
  if (status == cudaStreamCaptureStatusInvalidated)
    return Status::error(Code::invalid_usage,
                         "the capture that the stream takes part in has failed already; end it to learn why");
  return status == cudaStreamCaptureStatusActive ? uint64_t{id} : 0;
}

Status CudaDevice::begin_capture(Stream stream) {
  const Current current(context_);
  GC_CUDA(index_, cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
  return {};
}

Result<Graph> CudaDevice::end_capture(Stream stream) {
  const Unrestricted current(context_);
  cudaGraph_t graph = nullptr;
  GC_CUDA(index_, cudaStreamEndCapture(native(stream), &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  cudaGraphDestroy(graph);  // the executable has its own share of what is kept
  if (error != cudaSuccess) return failure(error, index_, "cudaGraphInstantiate");
  return static_cast<Graph>(executable);
}

Status CudaDevice::launch_graph(Graph graph, Stream stream) {
  const Current current(context_);
  GC_CUDA(index_, cudaGraphLaunch(native_graph(graph), native(stream)));
  return {};
}

Status CudaDevice::destroy_graph(Graph graph) {
  const Unrestricted current(context_);
  GC_CUDA(index_, cudaGraphExecDestroy(native_graph(graph)));
  return {};
}

Status CudaDevice::keep_with_graph(Stream stream, void (*release)(void*), void* argument) {
  const Unrestricted current(context_);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  GC_CUDA(index_, cudaStreamGetCaptureInfo(native(stream), &status, nullptr, &graph));
  if (graph == nullptr) return Status::error(Code::invalid_usage, "the stream takes part in no capture");
  auto kept = std::make_unique<Kept>(Kept{release, argument});
  cudaUserObject_t object = nullptr;
  GC_CUDA(index_, cudaUserObjectCreate(&object, kept.get(), release_kept, 1, cudaUserObjectNoDestructorSync));
  Kept* const owned = kept.release();
  const cudaError_t error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
  if (error == cudaSuccess) return {};
  owned->release = nullptr;  // not kept: it stays with the caller
  cudaUserObjectRelease(object, 1);
  return failure(error, index_, "cudaGraphRetainUserObject");
}

}  // namespace gpucoll::gpu::cuda
