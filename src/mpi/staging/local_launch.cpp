#include "mpi/staging/local_launch.h"

#include <map>
#include <mutex>

namespace gpucoll::coll {
namespace {

// Kept, as the device may be gone when the process ends.
Result<gpu::Stream> stream_of(gpu::Device& device) {
  static auto* const mutex = new std::mutex;
  static auto* const streams = new std::map<int, gpu::Stream>;
  std::lock_guard lock(*mutex);
  if (auto known = streams->find(device.index()); known != streams->end()) return known->second;
  GC_TRY_AS(const gpu::Stream made, device.create_stream());
  return streams->emplace(device.index(), made).first->second;
}

}  // namespace

Status launch_and_wait(gpu::Device& device, const gpu::Kernel& kernel, const proto::Plan& plan, int blocks) {
  GC_TRY_AS(const gpu::Stream stream, stream_of(device));
  GC_TRY(device.prepare(kernel));
  GC_TRY(device.launch(kernel, plan, blocks, device.defaults().threads, stream));
  return device.synchronize(stream);
}

}  // namespace gpucoll::coll
