// TCP sockets with deadlines. Every function that waits gives up at the deadline with Code::timed_out, or as soon
// as the peer closes with Code::remote. Thread safety: value types.
#pragma once
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "net/bootstrap/address.h"

namespace gpucoll::net {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// `seconds` from now; 0 means (practically) never.
Deadline deadline_after(int64_t seconds);

// Returns whether a call on a socket that does not wait has failed only because it would have had to.
inline bool not_now(int errnum) noexcept { return errnum == EAGAIN || errnum == EWOULDBLOCK || errnum == EINTR; }

// Equal for two processes that reach each other over the loopback; 0 where that is not known.
uint64_t loopback_id();

// Holds what a turn of a loop waits for.
class PollSet {
 public:
  // May be called again for the same descriptor.
  void add(int fd, short events);
  // Waits until something is ready, at most a second, or `most` where that is less. Errors: timed_out, once the
  // deadline has passed: also where something is ready all the time.
  Status wait(Deadline deadline, std::chrono::milliseconds most = std::chrono::milliseconds(1000));
  // Finds out what is ready, without waiting.
  Status look();
  // Returns what is ready on a descriptor; 0 where nothing is, or it is not in the set.
  short ready(int fd) const;

 private:
  Status poll_for(int milliseconds);
  std::vector<pollfd> fds_;
  std::unordered_map<int, size_t> places_;
};

// Returns listening sockets, without waiting, one for each of these addresses of this host; *at says where, as the
// system chooses the ports. Errors: system, where it gives none of them.
Result<std::vector<UniqueFd>> listen_on(const Addresses& addresses, Addresses* at);
// Returns what accept4 gives: a socket without waiting. Sets errno where it gives none.
UniqueFd accept_now(int listener) noexcept;

// The pause between two attempts: 20 ms at first, then twice as long each time, up to a second.
class Backoff {
 public:
  // Returns whether the pause is not over at that time.
  bool lasts(Clock::time_point now) const noexcept { return now < until_; }
  // Begins the next pause.
  void begin(Clock::time_point now) noexcept;

 private:
  Clock::time_point until_{};
  std::chrono::milliseconds next_{20};
};

// A connection that is being made, without waiting. Where the other host does not answer, or hangs up at once, this
// connects again after a pause.
class Dial {
 public:
  static Result<Dial> start(const Address& address);
  // Adds what finish() waits for: nothing during a pause, so wait for a short time only.
  void watch(PollSet* set) const;
  // Returns the connection; empty while it is still being made. Call it again then. Errors: remote, where nobody
  // listens there.
  Result<UniqueFd> finish();
  // Begins anew after a pause, as the connection that finish() returned was of no use.
  void again() noexcept;
  // Returns whether the system is making the connection, as it does not during a pause.
  bool is_under_way() const noexcept { return static_cast<bool>(fd_); }

 private:
  Status begin();
  Address address_;
  UniqueFd fd_;
  Backoff backoff_;
};
Result<UniqueFd> connect_to(const Address& address, Deadline deadline);

// A number of bytes in one direction, which goes on without waiting.
struct Transfer {
  int fd;
  uint8_t* data;
  size_t left;
  bool sending;
  Status step();
};
Status send_all(int fd, const void* data, size_t bytes, Deadline deadline);
Status receive_all(int fd, void* data, size_t bytes, Deadline deadline);

// A connection whose messages are put and taken whole, without waiting.
class Line {
 public:
  Line() noexcept = default;
  explicit Line(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  int fd() const noexcept { return fd_.get(); }
  void watch(PollSet* set) const;
  void put(const void* data, size_t bytes);
  // Sends and receives what goes without waiting.
  void turn();
  // The next `bytes` bytes that came, once all of them are there.
  bool take(void* to, size_t bytes);
  // Returns whether the other side has hung up: nothing more will come than what can be taken.
  bool ended() const noexcept { return ended_; }
  // Also where a forked child has inherited the connection.
  void hang_up() noexcept;

 private:
  void flush();
  UniqueFd fd_;
  std::vector<uint8_t> in_, out_;
  bool ended_ = false;
};

}  // namespace gpucoll::net
