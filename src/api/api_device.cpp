// The C API: devices, streams and memory, for programs that run on GPUs and on the emulated device.
#include <cstdio>

#include "api/handles.h"
#include "base/params.h"
#include "base/status.h"
#include "core/launch/graph_users.h"
#include "gpu/device.h"
#include "gpucoll/gpucoll.h"

using namespace gpucoll;
using coll::null_argument;

namespace {

// Runs body(platform) behind the C boundary.
template <class Body>
gpucollResult_t on_platform(const char* where, Body&& body) {
  return static_cast<gpucollResult_t>(static_cast<int>(guarded(where, [&]() -> Status {
    GC_TRY(params_status());
    GC_TRY_AS(gpu::Platform * platform, gpu::platform());
    return body(*platform);
  })));
}

// Runs body(device) on the device that the calling thread has chosen.
template <class Body>
gpucollResult_t on_device(const char* where, Body&& body) {
  return on_platform(where, [&](gpu::Platform& platform) -> Status {
    GC_TRY_AS(gpu::Device * device, platform.open(platform.current_device()));
    return body(*device);
  });
}

// The device that owns a pointer; the chosen one for host memory.
Result<gpu::Device*> owner(gpu::Platform& platform, const void* pointer) {
  gpu::PointerInfo info = platform.classify(pointer);
  return platform.open(info.device >= 0 ? info.device : platform.current_device());
}

}  // namespace

extern "C" {

gpucollResult_t gpucollDeviceKind(const char** kind) {
  return on_platform("gpucollDeviceKind", [&](gpu::Platform& platform) -> Status {
    if (!kind) return null_argument("kind");
    *kind = platform.name();
    return {};
  });
}

gpucollResult_t gpucollDeviceCount(int* count) {
  return on_platform("gpucollDeviceCount", [&](gpu::Platform& platform) -> Status {
    if (!count) return null_argument("count");
    GC_TRY_AS(*count, platform.device_count());
    return {};
  });
}

gpucollResult_t gpucollSetDevice(int index) {
  return on_platform("gpucollSetDevice", [&](gpu::Platform& platform) { return platform.choose_device(index); });
}

gpucollResult_t gpucollDeviceName(int index, char* name, size_t bytes) {
  return on_platform("gpucollDeviceName", [&](gpu::Platform& platform) -> Status {
    if (!name || !bytes) return null_argument("name");
    GC_TRY_AS(gpu::Device * device, platform.open(index));
    std::snprintf(name, bytes, "%s", device->identity().name);
    return {};
  });
}

gpucollResult_t gpucollStreamCreate(gpucollStream_t* stream) {
  return on_device("gpucollStreamCreate", [&](gpu::Device& device) -> Status {
    if (!stream) return null_argument("stream");
    GC_TRY_AS(*stream, device.create_stream());
    return {};
  });
}

gpucollResult_t gpucollStreamSynchronize(gpucollStream_t stream) {
  return on_device("gpucollStreamSynchronize", [&](gpu::Device& device) { return device.synchronize(stream); });
}

gpucollResult_t gpucollStreamDestroy(gpucollStream_t stream) {
  return on_device("gpucollStreamDestroy", [&](gpu::Device& device) -> Status {
    if (!stream) return null_argument("stream");
    return device.destroy_stream(stream);
  });
}

gpucollResult_t gpucollStreamWaitStream(gpucollStream_t stream, gpucollStream_t other) {
  return on_device("gpucollStreamWaitStream", [&](gpu::Device& device) { return device.stream_wait(stream, other); });
}

gpucollResult_t gpucollStreamBeginCapture(gpucollStream_t stream) {
  return on_device("gpucollStreamBeginCapture", [&](gpu::Device& device) { return device.begin_capture(stream); });
}

gpucollResult_t gpucollStreamEndCapture(gpucollStream_t stream, gpucollGraph_t* graph) {
  return on_device("gpucollStreamEndCapture", [&](gpu::Device& device) -> Status {
    if (!graph) return null_argument("graph");
    const auto capture = device.capture_of(stream);  // what fails here fails again
    GC_TRY_AS(gpu::Graph ended, device.end_capture(stream));
    if (capture) core::GraphUsers::instance().bind(*capture, ended);
    *graph = static_cast<gpucollGraph_t>(ended);
    return {};
  });
}

gpucollResult_t gpucollGraphLaunch(gpucollGraph_t graph, gpucollStream_t stream) {
  return on_device("gpucollGraphLaunch", [&](gpu::Device& device) -> Status {
    if (!graph) return null_argument("graph");
    GC_TRY(core::GraphUsers::instance().may_launch(graph));
    return device.launch_graph(graph, stream);
  });
}

gpucollResult_t gpucollGraphDestroy(gpucollGraph_t graph) {
  return on_device("gpucollGraphDestroy", [&](gpu::Device& device) -> Status {
    if (!graph) return null_argument("graph");
    core::GraphUsers::instance().forget(static_cast<gpu::Graph>(graph));
    return device.destroy_graph(graph);
  });
}

gpucollResult_t gpucollMalloc(void** ptr, size_t bytes) {
  return on_device("gpucollMalloc", [&](gpu::Device& device) -> Status {
    if (!ptr) return null_argument("ptr");
    *ptr = nullptr;
    if (bytes == 0) return {};
    GC_TRY_AS(*ptr, device.user_allocate(bytes));
    return {};
  });
}

gpucollResult_t gpucollFree(void* ptr) {
  return on_platform("gpucollFree", [&](gpu::Platform& platform) -> Status {
    if (!ptr) return {};
    GC_TRY_AS(gpu::Device * device, owner(platform, ptr));
    return device->user_release(ptr);
  });
}

gpucollResult_t gpucollMemcpy(void* dst, const void* src, size_t bytes) {
  return on_platform("gpucollMemcpy", [&](gpu::Platform& platform) -> Status {
    if (bytes == 0) return {};
    if (!dst || !src) return null_argument(dst ? "src" : "dst");
    GC_TRY_AS(gpu::Device * device, owner(platform, platform.is_device(dst) ? dst : src));
    return device->copy(dst, src, bytes);
  });
}

gpucollResult_t gpucollMemset(void* ptr, int byte, size_t bytes) {
  return on_platform("gpucollMemset", [&](gpu::Platform& platform) -> Status {
    if (bytes == 0) return {};
    if (!ptr) return null_argument("ptr");
    GC_TRY_AS(gpu::Device * device, owner(platform, ptr));
    return device->fill(ptr, byte, bytes);
  });
}

}  // extern "C"
