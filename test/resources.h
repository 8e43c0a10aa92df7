// What this process has of the system: for tests that nothing of it grows.
#pragma once
#include <dirent.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

namespace gpucoll_test {

inline int open_descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  int n = 0;
  while (readdir(directory)) ++n;
  closedir(directory);
  return n;
}

// Returns what `body` says in a child, where it may lower limits and change its user; the signal that ended it,
// otherwise.
inline std::string said_in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends)) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = body();
    _exit(write(ends[1], said.data(), said.size()) != static_cast<ssize_t>(said.size()));
  }
  close(ends[1]);
  std::string said;
  char piece[512];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) said.append(piece, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : said;
}

// Returns the status of a child that ends within the time; kills it otherwise.
inline int status_in_time(pid_t child, std::chrono::seconds bound) {
  const auto start = std::chrono::steady_clock::now();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() - start > bound) kill(child, SIGKILL);
    usleep(1000);
  }
  return status;
}

// Lowers a limit of this process.
inline void limit(int resource, rlim_t most) {
  rlimit limits = {};
  getrlimit(resource, &limits);
  limits.rlim_cur = most;
  if (setrlimit(resource, &limits)) _exit(8);
}

// Becomes another user, where this one is root: whom no limit of processes holds, and who may look into any process.
inline void become(unsigned user) {
  if (geteuid() != 0) return;
  const gid_t group = user;
  if (setgroups(1, &group) || setgid(group) || setuid(user)) _exit(9);
  prctl(PR_SET_DUMPABLE, 1);
}

// Pages that this process has in memory, in KiB, and mappings.
inline long resident_kib() {
  long pages = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "re");
  if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  std::fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}
inline int mappings() {
  FILE* file = std::fopen("/proc/self/maps", "re");
  int n = 0;
  for (int c; (c = std::fgetc(file)) != EOF;) n += c == '\n';
  std::fclose(file);
  return n;
}

// What sanitizers keep of freed memory counts as well: up to 256 MiB.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr long kMostMoreKib = 288 << 10;
#else
inline constexpr long kMostMoreKib = 2 << 10;
#endif

}  // namespace gpucoll_test
