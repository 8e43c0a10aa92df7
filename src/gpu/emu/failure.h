// Lets an emulated device fail as a GPU does after an error that sticks, for tests: device N of a process does once
// there is a file whose name is the parameter emu_failure, a dot and N. Work that has not begun is dropped then, and
// calls that put work into streams fail. A kernel that runs goes on, unlike on a GPU, until it sees the fault latch.
//
// Thread safety: any thread.
#pragma once
#include <unistd.h>

#include <string>

#include "base/params.h"
#include "base/status.h"

namespace gpucoll::gpu::emu {

inline bool has_failed(int device) {
  const std::string& path = params().emu_failure;
  return !path.empty() && access((path + "." + std::to_string(device)).c_str(), F_OK) == 0;
}

inline Status health_of(int device) {
  if (!has_failed(device)) return {};
  return Status::error(Code::device, "the emulated device %d has failed, as the parameter emu_failure asks for",
                       device);
}

}  // namespace gpucoll::gpu::emu
