#include "net/bootstrap/address.h"

#include <arpa/inet.h>

#include <cstring>

namespace gpucoll::net {

bool Address::is_loopback() const noexcept {
  if (family == Family::ipv4) return bytes[0] == 127;
  return family == Family::ipv6 && bytes == loopback_addresses().ipv6.bytes;
}

bool Address::is_link_local() const noexcept {
  if (family == Family::ipv4) return bytes[0] == 169 && bytes[1] == 254;  // as of a server's own service processor
  return family == Family::ipv6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

Address address_of(const sockaddr& from) noexcept {
  Address address;
  if (from.sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &from, sizeof in);
    address.family = Family::ipv4;
    address.port = ntohs(in.sin_port);
    std::memcpy(address.bytes.data(), &in.sin_addr, 4);
  } else if (from.sa_family == AF_INET6) {
    sockaddr_in6 in;
    std::memcpy(&in, &from, sizeof in);
    address.family = Family::ipv6;
    address.port = ntohs(in.sin6_port);
    address.interface = in.sin6_scope_id;
    std::memcpy(address.bytes.data(), &in.sin6_addr, 16);
  }
  return address;
}

SocketAddress socket_address_of(const Address& address) noexcept {
  SocketAddress to;
  if (address.family == Family::ipv6) {
    sockaddr_in6 in = {};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    if (address.is_link_local()) in.sin6_scope_id = address.interface;
    std::memcpy(&in.sin6_addr, address.bytes.data(), 16);
    std::memcpy(&to.storage, &in, to.bytes = sizeof in);
  } else {
    sockaddr_in in = {};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.bytes.data(), 4);
    std::memcpy(&to.storage, &in, to.bytes = sizeof in);
  }
  return to;
}

Address parse_ip(const std::string& text) noexcept {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1)
    address.family = Family::ipv4;
  else if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1)
    address.family = Family::ipv6;
  return address;
}

Addresses loopback_addresses() noexcept {
  Addresses both;
  both.ipv4.family = Family::ipv4;
  both.ipv4.bytes = {127, 0, 0, 1};
  both.ipv6.family = Family::ipv6;
  both.ipv6.bytes[15] = 1;
  return both;
}

proto::ListenAddress to_format(const Addresses& addresses) noexcept {
  proto::ListenAddress format = {};
  std::memcpy(format.ipv4, addresses.ipv4.bytes.data(), sizeof format.ipv4);
  std::memcpy(format.ipv6, addresses.ipv6.bytes.data(), sizeof format.ipv6);
  format.ipv4_port = htons(addresses.ipv4.port);
  format.ipv6_port = htons(addresses.ipv6.port);
  return format;
}

Addresses from_format(const proto::ListenAddress& format) noexcept {
  Addresses addresses;
  if (format.ipv4_port) {
    addresses.ipv4.family = Family::ipv4;
    addresses.ipv4.port = ntohs(format.ipv4_port);
    std::memcpy(addresses.ipv4.bytes.data(), format.ipv4, sizeof format.ipv4);
  }
  if (format.ipv6_port) {
    addresses.ipv6.family = Family::ipv6;
    addresses.ipv6.port = ntohs(format.ipv6_port);
    std::memcpy(addresses.ipv6.bytes.data(), format.ipv6, sizeof format.ipv6);
  }
  return addresses;
}

std::string ip_text(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(address.family == Family::ipv6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
  return text;
}

std::string to_string(const Address& address) {
  const std::string ip = address.family == Family::ipv6 ? "[" + ip_text(address) + "]" : ip_text(address);
  return ip + ":" + std::to_string(address.port);
}

std::string to_string(const Addresses& addresses) {
  if (!addresses.ipv6) return to_string(addresses.ipv4);
  return (addresses.ipv4 ? to_string(addresses.ipv4) + " and " : "") + to_string(addresses.ipv6);
}

Result<Address> way_between(const Addresses& own, const Addresses& peer) {
  if (own.ipv4 && peer.ipv4) return peer.ipv4;
  if (own.ipv6 && peer.ipv6) {
    Address way = peer.ipv6;
    way.interface = own.ipv6.interface;
    return way;
  }
  return Status::error(
      Code::unsupported,
      "it listens at %s, and this process has no %s address: give both hosts an address of one family, "
      "and see the parameters socket_family and socket_ifname",
      to_string(peer).c_str(), own.ipv4 ? "IPv6" : "IPv4");
}

}  // namespace gpucoll::net
