#include "net/bootstrap/dialed_connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/mutant.h"

namespace gpucoll::net {

Result<DialedConnection> DialedConnection::start(const Address& address, const proto::BootstrapHello& hello) {
  GC_TRY_AS(Dial dial, Dial::start(address));
  return DialedConnection(std::move(dial), address, hello);
}

void DialedConnection::watch(PollSet* set) const {
  if (fd_)
    set->add(fd_.get(), POLLIN);
  else
    dial_.watch(set);
}

Status DialedConnection::say_hello() {
  GC_TRY_AS(UniqueFd fd, dial_.finish());
  if (!fd) return {};
  // A fresh connection has room for so few bytes. Where it has ended already, the answer is missing.
  [[maybe_unused]] const ssize_t n = send(fd.get(), &hello_, sizeof hello_, MSG_NOSIGNAL);
  fd_ = std::move(fd);
  was_taken_ = true;
  return {};
}

Result<UniqueFd> DialedConnection::finish() {
  if (!fd_) GC_TRY(say_hello());
  if (!fd_) return UniqueFd();
  uint8_t answer = 0;
  const ssize_t n = recv(fd_.get(), &answer, 1, MSG_DONTWAIT);
  if (n == 1 && answer == proto::kAdmitted) return std::move(fd_);
  if (n < 0 && not_now(errno)) return UniqueFd();
  fd_.reset();
  if (n == 1 && answer == proto::kNoDescriptor && !gc_mutant(616))
    return Status::error(Code::remote,
                         "its process has no file descriptor left for the connection: raise `ulimit -n` there, the "
                         "number of files that a process may have open");
  if (gc_mutant(452)) return Status::error(Code::remote, "%s hung up", to_string(address_).c_str());
  dial_.again();
  return UniqueFd();
}

std::string unanswered(const std::string& rank, int64_t waited_s, const char* parameter, const std::string& whom,
                       const Address& at, bool taken) {
  constexpr char kSilent[] =
      "%s has waited %lld s (parameter %s) for %s, which does not answer at %s: let the firewalls between the hosts "
      "pass connections to that port, or name another interface by the parameter socket_ifname";
  constexpr char kTaken[] =
      "%s has waited %lld s (parameter %s) for %s, whose host takes connections at %s, but whose process does not "
      "answer: it may be stopped, by a signal or a debugger, or have given up";
  char text[512];
  std::snprintf(text, sizeof text, taken ? kTaken : kSilent, rank.c_str(), static_cast<long long>(waited_s), parameter,
                whom.c_str(), to_string(at).c_str());
  return text;
}

}  // namespace gpucoll::net
