// The id of the running kernel: equal for all processes of a machine, until it boots anew. Thread safety: any thread.
#pragma once
#include <fstream>
#include <string>

namespace gpucoll {

// Returns "" where the id cannot be read; errno says why.
inline std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

}  // namespace gpucoll
