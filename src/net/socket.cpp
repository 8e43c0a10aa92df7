#include "net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include "base/params.h"

namespace gpucoll::net {
namespace {

int milliseconds_left(Deadline deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000));
}

// Waits until one of the two is ready, in slices of at most a second.
Status wait_ready(pollfd* fds, nfds_t n, Deadline deadline) {
  for (;;) {
    int ready = poll(fds, n, milliseconds_left(deadline));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return Status::system(errno, "poll on a bootstrap socket");
    if (std::chrono::steady_clock::now() >= deadline)
      return Status::error(Code::timed_out, "no answer over the bootstrap sockets within the parameter timeout");
  }
}

sockaddr_in to_sockaddr(const Address& address) {
  sockaddr_in sa = {};
  sa.sin_family = AF_INET;
  sa.sin_addr.s_addr = address.ip;
  sa.sin_port = address.port;
  return sa;
}

void tune(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

struct Transfer {
  int fd;
  uint8_t* data;
  size_t left;
  bool sending;

  Status step() {
    ssize_t n = sending ? send(fd, data, left, MSG_NOSIGNAL) : recv(fd, data, left, 0);
    if (n > 0) {
      data += n;
      left -= static_cast<size_t>(n);
      return {};
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {};
    if (n == 0 || errno == ECONNRESET || errno == EPIPE)
      return Status::error(Code::remote, "another rank closed its bootstrap connection; it has failed or ended");
    return Status::system(errno, "bootstrap socket");
  }
};

bool has_taken_leave(int fd, uint32_t rounds) {
  uint32_t through = 0;
  return recv(fd, &through, sizeof through, MSG_PEEK) == sizeof through && through >= rounds;
}

// Leaves out those that were through before they hung up.
Status check(const pollfd* fds, uint32_t rounds, Company* company) {
  Company still_there;
  for (const Companion& c : *company) {
    const bool left = (fds++)->revents;
    if (left && !has_taken_leave(c.fd, rounds))
      return Status::error(Code::remote, "rank %d has left; it has failed", c.rank);
    if (!left) still_there.push_back(c);
  }
  *company = std::move(still_there);
  return {};
}

Status run(std::span<Transfer> transfers, Deadline deadline, Company company = {}, uint32_t rounds = 0) {
  for (;;) {
    std::vector<pollfd> fds;
    for (const Transfer& t : transfers)
      if (t.left) fds.push_back({t.fd, static_cast<short>(t.sending ? POLLOUT : POLLIN), 0});
    if (fds.empty()) return {};
    const size_t waiting = fds.size();
    for (const Companion& c : company) fds.push_back({c.fd, POLLRDHUP, 0});
    GC_TRY(wait_ready(fds.data(), fds.size(), deadline));
    for (Transfer& t : transfers)
      if (t.left) GC_TRY(t.step());
    GC_TRY(check(fds.data() + waiting, rounds, &company));
  }
}

}  // namespace

Deadline deadline_after(int64_t seconds) {
  constexpr int64_t kPracticallyNever = 10ll * 365 * 24 * 3600;
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? seconds : kPracticallyNever);
}

std::string to_string(const Address& address) {
  char text[INET_ADDRSTRLEN] = "?";
  in_addr in = {address.ip};
  inet_ntop(AF_INET, &in, text, sizeof text);
  return std::string(text) + ":" + std::to_string(ntohs(address.port));
}

Result<uint32_t> local_ip() {
  const std::string& wanted = params().socket_ifname;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list)) return Status::system(errno, "cannot list the network interfaces");
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  for (ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP)) continue;
    bool take = wanted.empty() ? !(i->ifa_flags & IFF_LOOPBACK) : wanted == i->ifa_name;
    if (take) return uint32_t{reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr};
  }
  if (!wanted.empty())
    return Status::error(Code::invalid_argument,
                         "parameter socket_ifname: no network interface '%s' is up and has an IPv4 address",
                         wanted.c_str());
  return uint32_t{htonl(INADDR_LOOPBACK)};
}

Result<UniqueFd> listen_anywhere(Address* address) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return Status::system(errno, "cannot create a bootstrap socket");
  sockaddr_in sa = to_sockaddr({});
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&sa), sizeof sa) || listen(fd.get(), SOMAXCONN))
    return Status::system(errno, "cannot listen on a bootstrap socket");
  socklen_t length = sizeof sa;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&sa), &length))
    return Status::system(errno, "cannot name a bootstrap socket");
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  GC_TRY_AS(const uint32_t ip, local_ip());
  *address = {ip, sa.sin_port, 0};
  return fd;
}

Result<UniqueFd> accept_one(int listener, Deadline deadline, const Company& company) {
  for (;;) {
    std::vector<pollfd> fds = {{listener, POLLIN, 0}};
    for (const Companion& c : company) fds.push_back({c.fd, POLLRDHUP, 0});
    GC_TRY(wait_ready(fds.data(), fds.size(), deadline));
    for (size_t i = 0; i < company.size(); ++i)
      if (fds[i + 1].revents)
        return Status::error(Code::remote, "rank %d left before all ranks of the communicator had met; it has failed",
                             company[i].rank);
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd) {
      tune(fd.get());
      return fd;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
      return Status::system(errno, "cannot accept a bootstrap connection");
  }
}

Result<UniqueFd> connect_to(const Address& address, Deadline deadline) {
  sockaddr_in sa = to_sockaddr(address);
  for (;;) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return Status::system(errno, "cannot create a bootstrap socket");
    tune(fd.get());
    int rc = connect(fd.get(), reinterpret_cast<sockaddr*>(&sa), sizeof sa);
    int error = rc ? errno : 0;
    if (error == EINPROGRESS) {
      pollfd fds = {fd.get(), POLLOUT, 0};
      GC_TRY(wait_ready(&fds, 1, deadline));
      socklen_t length = sizeof error;
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (!error) return fd;
    if (error != ETIMEDOUT && error != EAGAIN && error != EINTR)
      return Status::error(Code::remote, "cannot connect to %s: %s", to_string(address).c_str(), strerror(error));
    if (std::chrono::steady_clock::now() >= deadline)
      return Status::error(Code::timed_out, "cannot connect to %s within the parameter timeout",
                           to_string(address).c_str());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Status send_all(int fd, const void* data, size_t bytes, Deadline deadline) {
  Transfer t = {fd, static_cast<uint8_t*>(const_cast<void*>(data)), bytes, true};
  return run({&t, 1}, deadline);
}

Status receive_all(int fd, void* data, size_t bytes, Deadline deadline) {
  Transfer t = {fd, static_cast<uint8_t*>(data), bytes, false};
  return run({&t, 1}, deadline);
}

Status exchange(const Exchange& e, Deadline deadline, Company company, uint32_t rounds) {
  Transfer t[2] = {{e.send_fd, static_cast<uint8_t*>(const_cast<void*>(e.out)), e.bytes, true},
                   {e.receive_fd, static_cast<uint8_t*>(e.in), e.bytes, false}};
  return run(t, deadline, std::move(company), rounds);
}

void say_farewell(int fd, uint32_t rounds) noexcept {
  send(fd, &rounds, sizeof rounds, MSG_NOSIGNAL);  // perhaps nobody is there to hear it
}

}  // namespace gpucoll::net
