#include "net/bootstrap/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/boot_id.h"
#include "base/mutant.h"

namespace gpucoll::net {
namespace {

int milliseconds_left(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000));
}

Result<UniqueFd> open_socket(Family family) {
  const int domain = family == Family::ipv6 ? AF_INET6 : AF_INET;
  UniqueFd fd(socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Status::system(errno, "this process cannot create a bootstrap socket");
  return fd;
}

void send_at_once(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

// Returns whether a connection that could not be made for this error may be made later. Somebody took a connection that
// was reset, and has hung up since.
bool passes(int error) {
  return error == 0 || error == ETIMEDOUT || error == ECONNRESET || error == EPIPE || not_now(error);
}

Status run(Transfer transfer, Deadline deadline) {
  while (transfer.left) {
    PollSet set;
    set.add(transfer.fd, transfer.sending ? POLLOUT : POLLIN);
    GC_TRY(set.wait(deadline));
    if (set.ready(transfer.fd)) GC_TRY(transfer.step());
  }
  return {};
}

}  // namespace

Deadline deadline_after(int64_t seconds) {
  constexpr int64_t kPracticallyNever = 10ll * 365 * 24 * 3600;
  return Clock::now() + std::chrono::seconds(seconds ? seconds : kPracticallyNever);
}

// One kernel and one network namespace of it.
uint64_t loopback_id() {
  const std::string boot = boot_id();
  struct stat space = {};
  if (boot.empty() || stat("/proc/self/ns/net", &space)) return 0;
  return std::hash<std::string>()(boot + ":" + std::to_string(space.st_ino));
}

void PollSet::add(int fd, short events) {
  const auto [place, added] = places_.try_emplace(fd, fds_.size());
  if (added) fds_.push_back({fd, 0, 0});
  pollfd& watched = fds_[place->second];
  watched.events = static_cast<short>(watched.events | events);
}

Status PollSet::wait(Deadline deadline, std::chrono::milliseconds most) {
  if (Clock::now() >= deadline)
    return Status::error(Code::timed_out,
                         "the other ranks have not answered over the bootstrap sockets within the parameter timeout");
  return poll_for(std::min(milliseconds_left(deadline), static_cast<int>(most.count())));
}

Status PollSet::look() { return poll_for(0); }

Status PollSet::poll_for(int milliseconds) {
  if (poll(fds_.data(), fds_.size(), milliseconds) >= 0) return {};
  const int errnum = errno;
  for (pollfd& p : fds_) p.revents = 0;
  return errnum == EINTR ? Status() : Status::system(errnum, "this process cannot poll its bootstrap sockets");
}

short PollSet::ready(int fd) const {
  const auto place = places_.find(fd);
  return place == places_.end() ? short{0} : fds_[place->second].revents;
}

namespace {

// Puts the port into *address. *lacking: the host has no such family, or not this address of it.
Result<UniqueFd> listen_on(Address* address, bool* lacking) {
  const auto is_lacking = [] { return errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL; };
  auto fd = open_socket(address->family);
  *lacking = !fd && is_lacking();
  if (!fd) return fd;
  SocketAddress socket = socket_address_of(*address);
  const bool bound = bind(fd->get(), socket.get(), socket.bytes) == 0;
  *lacking = !bound && is_lacking();
  if (!bound || listen(fd->get(), SOMAXCONN))
    return Status::system(errno, "this process cannot listen on its bootstrap socket");
  if (getsockname(fd->get(), socket.get(), &socket.bytes))
    return Status::system(errno, "this process cannot learn the address of its bootstrap socket");
  address->port = address_of(*socket.get()).port;
  return fd;
}

}  // namespace

Result<std::vector<UniqueFd>> listen_on(const Addresses& addresses, Addresses* at) {
  std::vector<UniqueFd> listeners;
  Status failed;
  *at = addresses;
  for (Address* const address : {&at->ipv4, &at->ipv6}) {
    if (!*address) continue;
    bool lacking;
    auto listener = listen_on(address, &lacking);
    if (listener) {
      listeners.push_back(*std::move(listener));
      continue;
    }
    if (!lacking) return listener.status();
    if (failed) failed = listener.status();
    *address = {};
  }
  if (listeners.empty()) return failed;
  return listeners;
}

UniqueFd accept_now(int listener) noexcept {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) send_at_once(fd.get());
  return fd;
}

Result<Dial> Dial::start(const Address& address) {
  Dial dial;
  dial.address_ = address;
  GC_TRY(dial.begin());
  return dial;
}

Status Dial::begin() {
  GC_TRY_AS(fd_, open_socket(address_.family));
  send_at_once(fd_.get());
  const SocketAddress to = socket_address_of(address_);
  if (!connect(fd_.get(), to.get(), to.bytes) || errno == EINPROGRESS || not_now(errno)) return {};
  return Status::error(Code::remote, "this process cannot connect to %s: %s", to_string(address_).c_str(),
                       strerror(errno));
}

void Backoff::begin(Clock::time_point now) noexcept {
  constexpr std::chrono::milliseconds kLongest{1000};
  until_ = now + next_;
  next_ = std::min(2 * next_, kLongest);
}

void Dial::watch(PollSet* set) const {
  if (fd_) set->add(fd_.get(), POLLOUT);
}

void Dial::again() noexcept {
  fd_.reset();
  if (!gc_mutant(453)) backoff_.begin(Clock::now());
}

Result<UniqueFd> Dial::finish() {
  if (!fd_) {
    if (!backoff_.lasts(Clock::now())) GC_TRY(begin());
    return UniqueFd();
  }
  pollfd now = {fd_.get(), POLLOUT, 0};
  if (poll(&now, 1, 0) <= 0) return UniqueFd();  // not yet, or a signal came
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  SocketAddress peer;
  peer.bytes = sizeof peer.storage;
  if (!error && !getpeername(fd_.get(), peer.get(), &peer.bytes)) return std::move(fd_);
  if (!passes(error))
    return Status::error(Code::remote, "this process cannot connect to %s: %s", to_string(address_).c_str(),
                         strerror(error));
  again();
  return UniqueFd();
}

Result<UniqueFd> connect_to(const Address& address, Deadline deadline) {
  constexpr std::chrono::milliseconds kLookAtDial{20};
  GC_TRY_AS(Dial dial, Dial::start(address));
  for (;;) {
    PollSet set;
    dial.watch(&set);
    Status waited = set.wait(deadline, kLookAtDial);
    if (waited.code() == Code::timed_out)
      return Status::error(Code::timed_out, "this process cannot connect to %s within the parameter timeout",
                           to_string(address).c_str());
    GC_TRY(std::move(waited));
    GC_TRY_AS(UniqueFd fd, dial.finish());
    if (fd) return fd;
  }
}

Status Transfer::step() {
  const ssize_t n = sending ? send(fd, data, left, MSG_NOSIGNAL) : recv(fd, data, left, 0);
  if (n > 0) {
    data += n;
    left -= static_cast<size_t>(n);
    return {};
  }
  if (n < 0 && not_now(errno)) return {};
  if (n == 0 || errno == ECONNRESET || errno == EPIPE)
    return Status::error(Code::remote, "another rank closed its bootstrap connection; it has failed or ended");
  return Status::system(errno, "this process cannot use its bootstrap connection");
}

Status send_all(int fd, const void* data, size_t bytes, Deadline deadline) {
  return run({fd, static_cast<uint8_t*>(const_cast<void*>(data)), bytes, true}, deadline);
}

Status receive_all(int fd, void* data, size_t bytes, Deadline deadline) {
  return run({fd, static_cast<uint8_t*>(data), bytes, false}, deadline);
}

void Line::watch(PollSet* set) const {
  if (fd_) set->add(fd_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT));
}

void Line::put(const void* data, size_t bytes) {
  const auto* const from = static_cast<const uint8_t*>(data);
  out_.insert(out_.end(), from, from + bytes);
  flush();
}

// An error shows when the rest is received.
void Line::flush() {
  size_t sent = 0;
  while (sent < out_.size()) {
    const ssize_t n = send(fd_.get(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(sent));
}

void Line::turn() {
  if (!fd_ || ended_) return;
  flush();
  uint8_t piece[4096];
  for (;;) {
    const ssize_t n = recv(fd_.get(), piece, sizeof piece, 0);
    if (n > 0) {
      in_.insert(in_.end(), piece, piece + n);
    } else if (n == 0 || !not_now(errno)) {
      ended_ = true;
      return;
    } else if (errno != EINTR) {
      return;
    }
  }
}

void Line::hang_up() noexcept {
  if (fd_) shutdown(fd_.get(), SHUT_RDWR);
  *this = Line();
}

bool Line::take(void* to, size_t bytes) {
  if (in_.size() < bytes) return false;
  std::memcpy(to, in_.data(), bytes);
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(bytes));
  return true;
}

}  // namespace gpucoll::net
