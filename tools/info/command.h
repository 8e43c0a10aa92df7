// Runs a command of the shell.
#pragma once
#include <csignal>
#include <cstdio>
#include <string>

namespace gpucoll::info {

// Appends what a command prints; returns whether it ran and ended well. Where the starter ignores SIGCHLD, pclose would
// not learn how it ended.
inline bool run_command(const char* command, std::string* output) {
  std::signal(SIGCHLD, SIG_DFL);
  FILE* const pipe = popen(command, "r");
  if (!pipe) return false;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof piece, pipe)) > 0;) output->append(piece, n);
  return pclose(pipe) == 0;
}

}  // namespace gpucoll::info
