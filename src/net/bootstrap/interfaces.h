// This host's network interfaces, and at which of their addresses this process is reached. Thread safety: no state.
#pragma once
#include <string>
#include <vector>

#include "base/params.h"
#include "net/bootstrap/address.h"

namespace gpucoll::net {

// An interface that is up, with one of its addresses.
struct InterfaceAddress {
  std::string name;
  Address address;
  bool loopback = false;   // of the interface
  bool temporary = false;  // the host takes another address in a while
  bool running = true;     // it has a carrier: a cable, and somebody at the other end
};

// Lists the addresses of this host, in the system's order. Errors: system.
Result<std::vector<InterfaceAddress>> list_interfaces();

// Chooses an address of each family, with its interface, among those that the parameters socket_ifname (`names`) and
// socket_family allow. Both are of one kind, the first that there is: addresses that all hosts understand, such as are
// known on their wire only, those of bridges between containers, and those of the loopback.
// Errors: invalid_argument, where a parameter makes no sense on this host.
Result<Addresses> choose_addresses(const std::vector<InterfaceAddress>& host, const std::string& names,
                                   SocketFamilyChoice family);

// Returns the entries of `names` that fit no interface of this host: there are others, or choose_addresses() fails.
std::vector<std::string> unused_entries(const std::vector<InterfaceAddress>& host, const std::string& names,
                                        SocketFamilyChoice family);

// Returns the addresses under which other nodes reach this process, as the parameters say. Errors: system; as
// choose_addresses().
Result<Addresses> local_addresses();
// Returns the address by which this process reaches one that listens at `peer`. Errors: as way_between() and
// local_addresses().
Result<Address> way_to(const proto::ListenAddress& peer);

}  // namespace gpucoll::net
