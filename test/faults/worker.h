// What the workers of the fault driver (faults.py) share: the files by which a worker tells the driver how it fares.
//
// In the round's folder, rank R writes to `rank.R` one line for each thing that happens, the time by the monotonic
// clock first, and to `calls.R` how many calls have ended.
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <set>
#include <string>

namespace faults {

class Diary {
 public:
  Diary(const std::string& folder, int rank) {
    lines_ = open((folder + "/rank." + std::to_string(rank)).c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    calls_ = open((folder + "/calls." + std::to_string(rank)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    tell("process " + std::to_string(getpid()));
  }
  void tell(const std::string& what) const {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const std::string line =
        std::to_string(now.tv_sec * 1'000'000'000ll + now.tv_nsec) + " " + what.substr(0, what.find('\n')) + "\n";
    if (write(lines_, line.data(), line.size()) < 0) std::perror("the diary");
  }
  void count_call() {
    ++n_calls_;
    if (pwrite(calls_, &n_calls_, sizeof n_calls_, 0) < 0) std::perror("the diary");
  }
  uint64_t calls() const { return n_calls_; }

 private:
  int lines_, calls_;
  uint64_t n_calls_ = 0;
};

// On SIGUSR1 cuts one of this process's connections to another host, as a wire does that is pulled: the other side is
// told by its own system. Where it has none, makes a file `uncut` in the folder.
inline void cut_on_signal(const std::string& folder, unsigned seed) {
  static unsigned which;
  static std::string uncut;
  which = seed;
  uncut = folder + "/uncut";
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) {
    constexpr int kMost = 1024;
    int connected[kMost], n = 0;
    for (int fd = 0; fd < kMost; ++fd) {
      sockaddr_storage peer = {};
      socklen_t bytes = sizeof peer;
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
      if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) connected[n++] = fd;
    }
    if (n > 0)
      shutdown(connected[which % static_cast<unsigned>(n)], SHUT_RDWR);
    else
      close(open(uncut.c_str(), O_CREAT | O_WRONLY, 0600));
  };
  sigaction(SIGUSR1, &action, nullptr);
}

// Drops the inode of "socket:[4711]", but not the kind of "anon_inode:[pidfd]".
inline std::string without_inode(const std::string& target) {
  const size_t inode = target.find(":[");
  const bool is_number = inode != std::string::npos && std::isdigit(static_cast<unsigned char>(target[inode + 2]));
  return is_number ? target.substr(0, inode) : target;
}

// Returns the process that a pidfd watches, which tells peers' from others, as " (Pid:\t4711)"; "" for the rest.
inline std::string process_of(const char* descriptor) {
  std::ifstream info(std::string("/proc/self/fdinfo/") + descriptor);
  for (std::string line; std::getline(info, line);)
    if (line.rfind("Pid:", 0) == 0) return " (" + line + ")";
  return "";
}

// The descriptors of this process, by what they refer to, but for those of CUDA's driver, which keeps them.
inline std::multiset<std::string> descriptors() {
  std::multiset<std::string> all;
  DIR* const dir = opendir("/proc/self/fd");
  while (const dirent* entry = dir ? readdir(dir) : nullptr) {
    if (entry->d_name[0] == '.' || std::atoi(entry->d_name) == dirfd(dir)) continue;
    char target[256] = "";
    const ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
    std::string what(target, n > 0 ? static_cast<size_t>(n) : 0);
    if (what.rfind("/dev/nvidia", 0) == 0) continue;
    all.insert(without_inode(what) + process_of(entry->d_name));
  }
  if (dir) closedir(dir);
  return all;
}

// What a process keeps from its first communicator with ranks of other nodes on: its entrance for connections.
inline void add_entrance(std::multiset<std::string>* all) {
  if (std::getenv("GPUCOLL_HOST_ID")) all->insert({"/dev/null", "anon_inode:[eventfd]", "socket", "socket"});
}

// Returns what there is now beside what there was before, "" where that is nothing.
inline std::string added(const std::multiset<std::string>& before) {
  std::string text;
  std::multiset<std::string> rest = before;
  for (const std::string& what : descriptors()) {
    const auto known = rest.find(what);
    if (known != rest.end())
      rest.erase(known);
    else
      text += (text.empty() ? "" : ", ") + what;
  }
  return text;
}

}  // namespace faults
