// Addresses of both families, and which of a host's addresses the parameters socket_ifname and socket_family choose.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/socket.h"

using namespace gpucoll;
using namespace gpucoll::net;

namespace {

InterfaceAddress on(const char* name, const char* ip, bool temporary = false) {
  InterfaceAddress made = {name, parse_ip(ip), std::string(name) == "lo", temporary};
  made.address.interface = static_cast<uint32_t>(name[0]);  // which is as good as any number
  return made;
}

// "10.1.2.3 fd00::3", "- fd00::3", or an error's sentence.
std::string choice(const std::vector<InterfaceAddress>& host, const char* names,
                   SocketFamilyChoice family = kSocketFamilyAuto) {
  const auto chosen = choose_addresses(host, names, family);
  if (!chosen) return chosen.status().what();
  const auto text = [](const Address& address) { return address ? ip_text(address) : "-"; };
  return text(chosen->ipv4) + " " + text(chosen->ipv6);
}

const std::vector<InterfaceAddress> kHost = {
    on("lo", "127.0.0.1"),     on("docker0", "172.17.0.1"),   on("eth1", "10.1.0.7"),
    on("eth10", "10.10.0.7"),  on("ib0", "192.168.5.7"),      on("lo", "::1"),
    on("eth1", "fe80::7"),     on("eth1", "fd00:1::7", true), on("eth1", "fd00:1::8"),
    on("eth10", "fd00:10::7"), on("ib0", "fe80::77"),
};

}  // namespace

TEST(Address, IsPrintedWithItsPort) {
  Addresses both = {parse_ip("10.1.2.3"), parse_ip("fd00::1")};
  both.ipv4.port = both.ipv6.port = 4711;
  EXPECT_EQ(to_string(both.ipv4), "10.1.2.3:4711");
  EXPECT_EQ(to_string(both.ipv6), "[fd00::1]:4711");
  EXPECT_EQ(to_string(both), "10.1.2.3:4711 and [fd00::1]:4711");
  both.ipv4 = {};
  EXPECT_EQ(to_string(both), "[fd00::1]:4711");
  EXPECT_FALSE(parse_ip("fd00:::1"));
  EXPECT_FALSE(parse_ip("eth0"));
}

TEST(Address, ComesThroughItsFormatAndTheSystems) {
  Addresses both = {parse_ip("10.1.2.3"), parse_ip("fd00:1:2:3:4:5:6:7")};
  both.ipv4.port = 4711;
  both.ipv6.port = 65535;
  for (const bool alone : {false, true}) {
    if (alone) both.ipv4 = {};
    const Addresses again = from_format(to_format(both));
    EXPECT_EQ(to_string(again), to_string(both));
    for (const Address& address : {again.ipv4, again.ipv6})
      EXPECT_TRUE(!address || to_string(address_of(*socket_address_of(address).get())) == to_string(address));
  }
  EXPECT_FALSE(from_format({}));
  EXPECT_FALSE(proto::ListenAddress{}.anywhere());
}

TEST(Address, OnTheWireGoesByItsInterface) {
  Address address = parse_ip("fe80::1");
  address.interface = 3;
  EXPECT_EQ(address_of(*socket_address_of(address).get()).interface, 3u);
  const Addresses own = {{}, address};
  Addresses peer = from_format(to_format({{}, parse_ip("fe80::2")}));
  EXPECT_FALSE(peer) << "it has no port";
  peer.ipv6 = parse_ip("fe80::2");
  const auto way = way_between(own, peer);
  ASSERT_TRUE(way.ok());
  EXPECT_EQ(way->interface, 3u) << "of this host, not of the peer";
}

TEST(Address, WaysBetweenHosts) {
  const Addresses ipv4 = {parse_ip("10.0.0.1"), {}}, ipv6 = {{}, parse_ip("fd00::1")}, both = {ipv4.ipv4, ipv6.ipv6};
  EXPECT_EQ(way_between(both, both)->family, Family::ipv4);
  EXPECT_EQ(way_between(both, ipv6)->family, Family::ipv6);
  EXPECT_EQ(way_between(ipv6, both)->family, Family::ipv6);
  EXPECT_EQ(way_between(ipv4, both)->family, Family::ipv4);
  const auto none = way_between(ipv4, ipv6);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(std::string(none.status().what()).find("[fd00::1]:0, and this process has no IPv6 address"),
            std::string::npos)
      << none.status().what();
}

TEST(Interfaces, AreChosen) {
  struct Case {
    const char* names;
    SocketFamilyChoice family;
    const char* expected;
  };
  const Case cases[] = {
      {"", kSocketFamilyAuto, "10.1.0.7 fd00:1::8"},
      {"", kSocketFamilyIpv4, "10.1.0.7 -"},
      {"", kSocketFamilyIpv6, "- fd00:1::8"},
      {"eth10", kSocketFamilyAuto, "10.10.0.7 fd00:10::7"},
      {"eth1", kSocketFamilyAuto, "10.1.0.7 fd00:1::8"},
      {"eth", kSocketFamilyAuto, "10.1.0.7 fd00:1::8"},
      {"=eth10", kSocketFamilyAuto, "10.10.0.7 fd00:10::7"},
      {"ib,eth", kSocketFamilyAuto, "192.168.5.7 fd00:1::8"},  // rather than an address that ib0's wire alone knows
      {"ib0", kSocketFamilyAuto, "192.168.5.7 -"},
      {"ib0", kSocketFamilyIpv6, "- fe80::77"},
      {" eth10 , ib0,", kSocketFamilyAuto, "10.10.0.7 fd00:10::7"},
      {"^eth1", kSocketFamilyAuto, "192.168.5.7 -"},
      {"^=eth1", kSocketFamilyAuto, "10.10.0.7 fd00:10::7"},
      {"^eth,ib,no_such_one", kSocketFamilyAuto, "172.17.0.1 -"},
      {"^eth,ib,docker", kSocketFamilyAuto, "127.0.0.1 ::1"},
      {"^10.0.0.0/8", kSocketFamilyIpv4, "192.168.5.7 -"},
      {"docker", kSocketFamilyAuto, "172.17.0.1 -"},
      {"lo", kSocketFamilyAuto, "127.0.0.1 ::1"},
      {"10.10.0.0/16", kSocketFamilyAuto, "10.10.0.7 -"},
      {"10.8.0.0/13", kSocketFamilyAuto, "10.10.0.7 -"},
      {"10.10.0.7", kSocketFamilyAuto, "10.10.0.7 -"},
      {"fd00:10::/32", kSocketFamilyAuto, "- fd00:10::7"},
      {"10.10.0.0/16,fd00:10::/32", kSocketFamilyAuto, "10.10.0.7 fd00:10::7"},
      {"10.10.0.0/16,fd00:10::/32", kSocketFamilyIpv6, "- fd00:10::7"},
      {"0.0.0.0/0", kSocketFamilyAuto, "10.1.0.7 -"},
      {"fd00:1::7", kSocketFamilyAuto, "- fd00:1::7"},
  };
  for (const Case& each : cases) EXPECT_EQ(choice(kHost, each.names, each.family), each.expected) << each.names;
}

TEST(Interfaces, OfAHostThatHasFew) {
  const std::vector<InterfaceAddress> only_loopback = {on("lo", "127.0.0.1"), on("lo", "::1")};
  EXPECT_EQ(choice(only_loopback, ""), "127.0.0.1 ::1");
  EXPECT_EQ(choice({}, ""), "127.0.0.1 -");
  const std::vector<InterfaceAddress> only_ipv4 = {on("lo", "127.0.0.1"), on("lo", "::1"), on("eth0", "10.0.0.1")};
  EXPECT_EQ(choice(only_ipv4, ""), "10.0.0.1 -") << "nobody else reaches ::1";
  const std::vector<InterfaceAddress> only_ipv6 = {on("lo", "127.0.0.1"), on("lo", "::1"), on("eth0", "fd00::1")};
  EXPECT_EQ(choice(only_ipv6, ""), "- fd00::1") << "nobody else reaches 127.0.0.1";
  const std::vector<InterfaceAddress> service_processor = {on("usb0", "169.254.3.1"), on("eth0", "fd00::1")};
  EXPECT_EQ(choice(service_processor, ""), "- fd00::1") << "every server has 169.254.3.1";
  const std::vector<InterfaceAddress> on_the_wire = {on("lo", "127.0.0.1"), on("eth0", "fe80::1")};
  EXPECT_EQ(choice(on_the_wire, ""), "- fe80::1");
}

TEST(Interfaces, WithoutACarrierComeLast) {
  std::vector<InterfaceAddress> host = {on("lo", "127.0.0.1"), on("eth0", "10.0.0.1"), on("eth1", "10.1.0.1")};
  host[1].running = false;
  EXPECT_EQ(choice(host, ""), "10.1.0.1 -");
  EXPECT_EQ(choice(host, "eth0,eth1"), "10.1.0.1 -");
  EXPECT_EQ(choice(host, "eth0"), "10.0.0.1 -") << "there is no other";
  EXPECT_EQ(choice({host[0], host[1]}, ""), "10.0.0.1 -") << "others may still reach that";
}

TEST(Interfaces, ThatAreNotThereAreErrors) {
  const std::vector<InterfaceAddress> host = {on("lo", "127.0.0.1"), on("eth0", "10.0.0.1"), on("eth0", "fd00::1")};
  for (const char* names : {"ib7", "=ib7", "ib7,10.0.0.2", "ib7,eth1"}) {
    const std::string said = choice(host, names);
    EXPECT_NE(said.find("'ib7' fits no network interface"), std::string::npos) << said;
    EXPECT_NE(said.find("there are lo (127.0.0.1), eth0 (10.0.0.1, fd00::1)"), std::string::npos) << said;
  }
  EXPECT_NE(choice(host, "=eth").find("'eth' fits no"), std::string::npos);
  EXPECT_NE(choice(host, "10.0.0.2").find("'10.0.0.2' fits no"), std::string::npos);
  EXPECT_NE(choice(host, "lo", kSocketFamilyIpv6)
                .find("has an IPv6 address: correct it, or leave it out; there are eth0 (fd00::1)"),
            std::string::npos);
  EXPECT_NE(choice(host, "^eth0,lo").find("leave no network interface"), std::string::npos);
  EXPECT_NE(choice({on("lo", "127.0.0.1")}, "", kSocketFamilyIpv6)
                .find("has an IPv6 address: allow one, or give one such an address; there are lo"),
            std::string::npos);
}

// One list serves hosts that differ.
TEST(Interfaces, OfListsOneEntryHasToFit) {
  const std::vector<InterfaceAddress> host = {on("lo", "127.0.0.1"), on("eth0", "10.0.0.1"), on("eth0", "fd00::1")};
  EXPECT_EQ(choice(host, "ens3,eth0"), "10.0.0.1 fd00::1");
  EXPECT_EQ(choice(host, "=ib7,eth0"), "10.0.0.1 fd00::1");
  EXPECT_EQ(choice(host, "10.9.0.0/16,10.0.0.0/16"), "10.0.0.1 -");
  EXPECT_EQ(choice(host, "ens3,eth0", kSocketFamilyIpv6), "- fd00::1");
  using Names = std::vector<std::string>;
  EXPECT_EQ(unused_entries(host, "ens3,eth0,10.9.0.0/16", kSocketFamilyAuto), (Names{"ens3", "10.9.0.0/16"}));
  EXPECT_EQ(unused_entries(host, "10.9.0.0/16,eth0", kSocketFamilyIpv6), Names()) << "it is of the other family";
  EXPECT_EQ(unused_entries(host, "^ens3", kSocketFamilyAuto), Names());
  EXPECT_EQ(unused_entries(host, "", kSocketFamilyAuto), Names());
}

TEST(Interfaces, ListsThatMakeNoSenseAreErrors) {
  for (const char* names : {"^", ",", "=", "eth0,^lo", "eth0,=lo", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "eth0/8",
                            "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "10.0.0.0/9999", "eth 0"}) {
    const std::string said = choice(kHost, names);
    EXPECT_NE(said.find("is no name of an interface and no subnet"), std::string::npos) << names << ": " << said;
  }
}

TEST(Interfaces, OfThisHostAreListed) {
  const auto host = list_interfaces();
  ASSERT_TRUE(host.ok()) << host.status().what();
  bool has_loopback = false;
  for (const InterfaceAddress& each : *host) {
    EXPECT_TRUE(each.address && each.address.interface) << each.name;
    has_loopback |= each.loopback && each.address.is_loopback();
    Addresses at;
    Addresses wanted;
    (each.address.family == Family::ipv4 ? wanted.ipv4 : wanted.ipv6) = each.address;
    EXPECT_TRUE(listen_on(wanted, &at).ok()) << each.name << " " << ip_text(each.address);
  }
  EXPECT_TRUE(has_loopback);
}
