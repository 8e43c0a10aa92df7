// A connection that shows who dials, by a Hello, and counts once the other side has admitted it (format/bootstrap.h).
// Thread safety: one caller at a time.
#pragma once
#include <string>

#include "net/bootstrap/socket.h"
#include "proto/format/bootstrap.h"

namespace gpucoll::net {

// Makes a connection without waiting. The other side may hang up on it before it has heard the Hello, where too many
// knock at once or where this process was stopped in between: then it dials again, after
// pauses that grow.
class DialedConnection {
 public:
  // Errors: remote.
  static Result<DialedConnection> start(const Address& address, const proto::BootstrapHello& hello);
  const Address& address() const noexcept { return address_; }
  // Returns whether the other host has taken a connection, and its process is still to admit it.
  bool taken() const noexcept { return was_taken_; }
  // Adds what finish() waits for.
  void watch(PollSet* set) const;
  // Returns the connection once the other side has admitted it; empty before. Errors: remote.
  Result<UniqueFd> finish();

 private:
  DialedConnection(Dial dial, const Address& address, const proto::BootstrapHello& hello)
      : dial_(std::move(dial)), address_(address), hello_(hello) {}
  Status say_hello();
  Dial dial_;
  Address address_;
  proto::BootstrapHello hello_;
  UniqueFd fd_;  // of a connection over which the Hello was said
  bool was_taken_ = false;
};

// Returns what a rank says that has waited for an answer of another process: "rank 0 has waited 60 s (parameter
// report_after) for rank 1 on host node1, ...", with what to do. taken: the other host has taken the connection.
std::string unanswered(const std::string& rank, int64_t waited_s, const char* parameter, const std::string& whom,
                       const Address& at, bool taken);

}  // namespace gpucoll::net
