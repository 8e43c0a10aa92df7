// TCP sockets with deadlines. Every function that waits gives up at the deadline with Code::timed_out, or as soon
// as the peer closes with Code::remote. Thread safety: value types.
#pragma once
#include <netinet/in.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace gpucoll::net {

using Deadline = std::chrono::steady_clock::time_point;

// `seconds` from now; 0 means (practically) never.
Deadline deadline_after(int64_t seconds);

// An IPv4 address and port, fixed width: part of the unique id and of the socket bootstrap's messages.
struct Address {
  uint32_t ip = 0;    // network byte order
  uint16_t port = 0;  // network byte order
  uint16_t reserved = 0;
};
static_assert(sizeof(Address) == 8);
std::string to_string(const Address& address);

// The address under which other nodes reach this one: that of the first interface that is up and not the loopback,
// else 127.0.0.1. The parameter socket_ifname names another interface. Errors: invalid_argument, where there is none of
// that name that is up and has an address.
Result<uint32_t> local_ip();

// A listening socket on any interface and a free port; *address says where.
Result<UniqueFd> listen_anywhere(Address* address);
// Sockets of ranks that have come already and send nothing while another one is awaited.
struct Companion {
  int fd;
  int rank;
};
using Company = std::vector<Companion>;
// Errors: remote as well, when one of the company hangs up: the others need not wait for who will not come.
Result<UniqueFd> accept_one(int listener, Deadline deadline, const Company& company = {});
Result<UniqueFd> connect_to(const Address& address, Deadline deadline);
Status send_all(int fd, const void* data, size_t bytes, Deadline deadline);
Status receive_all(int fd, void* data, size_t bytes, Deadline deadline);
struct Exchange {
  int send_fd;
  const void* out;
  int receive_fd;
  void* in;
  size_t bytes;  // in either direction
};
// Sends on one socket while receiving from another (or the same): neither side can block the other. Errors: remote as
// well, when one of the company hangs up that has not said that it was through with `rounds`.
Status exchange(const Exchange& exchange, Deadline deadline, Company company, uint32_t rounds);
// Before hanging up: this rank is through with so many rounds.
void say_farewell(int fd, uint32_t rounds) noexcept;

}  // namespace gpucoll::net
