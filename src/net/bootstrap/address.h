// Addresses of sockets, IPv4 or IPv6. Thread safety: values.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "proto/format/listen_address.h"

namespace gpucoll::net {

enum class Family : uint8_t { none, ipv4, ipv6 };

// An address and a port.
struct Address {
  Family family = Family::none;
  uint16_t port = 0;                   // host byte order
  uint32_t interface = 0;              // its index on this host; how a link-local address is reached from here
  std::array<uint8_t, 16> bytes = {};  // network byte order; IPv4 has 4

  explicit operator bool() const noexcept { return family != Family::none; }
  size_t n_bytes() const noexcept { return family == Family::ipv4 ? 4 : 16; }
  bool is_loopback() const noexcept;
  // Returns whether only hosts on the same wire understand the address (fe80::/10).
  bool is_link_local() const noexcept;
  // Returns whether both are one address, whatever their ports.
  bool is_same_ip(const Address& other) const noexcept { return family == other.family && bytes == other.bytes; }
};

// An address of each family; empty where there is none.
struct Addresses {
  Address ipv4, ipv6;
  explicit operator bool() const noexcept { return ipv4 || ipv6; }
};

// Reads what the system gives; empty where it is of another family.
Address address_of(const sockaddr& from) noexcept;
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};
SocketAddress socket_address_of(const Address& address) noexcept;
// Reads "10.1.2.3" or "fd00::1"; empty where it is neither.
Address parse_ip(const std::string& text) noexcept;
// Returns the addresses of the loopback.
Addresses loopback_addresses() noexcept;

proto::ListenAddress to_format(const Addresses& addresses) noexcept;
Addresses from_format(const proto::ListenAddress& format) noexcept;

std::string ip_text(const Address& address);    // "10.1.2.3", "fd00::1"
std::string to_string(const Address& address);  // "10.1.2.3:4711", "[fd00::1]:4711"
// Returns "10.1.2.3:4711 and [fd00::1]:4711" where there are both.
std::string to_string(const Addresses& addresses);

// Returns the address by which a process that has the addresses `own` reaches one that listens at `peer`: that of IPv4
// where both have one. Errors: unsupported, where they have no family in
// common.
Result<Address> way_between(const Addresses& own, const Addresses& peer);

}  // namespace gpucoll::net
