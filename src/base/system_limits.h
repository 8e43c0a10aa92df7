// Says what to do where a call of the system failed at one of its limits, or at another process that may not be looked
// into. Thread safety: pure.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>

namespace gpucoll {

// Returns whether a call failed since no descriptor was left, in this process or in the whole system.
bool no_descriptor_left(int errnum) noexcept;
// Returns how many descriptors this process may have open (RLIMIT_NOFILE).
size_t most_descriptors() noexcept;
// Appended to a sentence about a failed call: "; raise `ulimit -n`, ..."; "" where no limit was met.
const char* limit_advice(int errnum) noexcept;
// Makes room for 1,024 descriptors in the process's table, where the limit allows that. Linux doubles a table that is
// full from 64 on, and meanwhile every thread that opens one waits for an RCU grace period: for 10 to 20 ms, and far
// longer on busy virtual machines.
void widen_descriptor_table() noexcept;
// Returns whether a file may grow to so many bytes. Growing it beyond RLIMIT_FSIZE would kill the process with SIGXFSZ
// instead of failing with EFBIG.
bool fits_file_limit(size_t bytes) noexcept;
// Why opening /proc/PID/fd/FD of another process failed, and what to do: "; it has ended", "; it runs as another ...".
std::string process_obstacle(int errnum, pid_t pid);

}  // namespace gpucoll
