#include "core/memory/workspace.h"

namespace gpucoll::core {
namespace {

Status make(gpu::Device& device, size_t bytes, uint8_t** memory) {
  if (*memory) return {};
  GC_TRY_AS(void* const made, device.allocate(bytes));
  *memory = static_cast<uint8_t*>(made);
  return {};
}

}  // namespace

Workspace::~Workspace() {
  if (stream_) device_.destroy_stream(stream_).ignore();
  if (scratch_) device_.release(scratch_);
  if (exchange_) device_.release(exchange_);
}

Result<gpu::Stream> Workspace::stream() {
  if (!stream_) {
    GC_TRY_AS(stream_, device_.create_stream());
  }
  return stream_;
}

Result<uint8_t*> Workspace::scratch() {
  GC_TRY(make(device_, kScratchBytes, &scratch_));
  return scratch_;
}

Status Workspace::make_exchange(size_t bytes) { return make(device_, bytes, &exchange_); }

}  // namespace gpucoll::core
