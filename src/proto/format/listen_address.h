// Format: where a process listens: at an IPv4 address, at an IPv6 address, or at both. All is in network byte order.
// It is part of the unique id, of what processes tell each other at their start, and of blobs of connections.
#pragma once
#include <cstdint>

namespace gpucoll::proto {

struct ListenAddress {
  uint8_t ipv6[16];
  uint8_t ipv4[4];
  uint16_t ipv6_port, ipv4_port;  // 0: not by this family

  bool anywhere() const noexcept { return ipv6_port != 0 || ipv4_port != 0; }
};
static_assert(sizeof(ListenAddress) == 24);

}  // namespace gpucoll::proto
