// Standard output of all programs.
//
// Thread safety: as that of the C library's streams.
#pragma once
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/status.h"

namespace gpucoll::tools {

// Whether all that was printed has arrived: a disk may be full, and standard output closed.
inline Status flush_output() {
  if (!std::fflush(stdout) && !std::ferror(stdout)) return {};
  return Status::error(Code::system, "cannot write to standard output: %s", std::strerror(errno));
}

inline Status print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return flush_output();
}

}  // namespace gpucoll::tools
