#include "net/bootstrap/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <tuple>

#include "base/log.h"

namespace gpucoll::net {
namespace {

// The flags of an IPv6 address that ifaddrs does not tell, as the kernel's linux/if_addr.h has them.
constexpr unsigned kTemporary = 0x01, kOptimistic = 0x04, kDuplicate = 0x08, kDeprecated = 0x20, kTentative = 0x40;

// Returns the flags of an address of an interface: 0 where the system does not tell.
unsigned flags_of(const Address& address, uint32_t interface) {
  char digits[33];
  for (size_t i = 0; i < 16; ++i) std::snprintf(digits + 2 * i, 3, "%02x", address.bytes[i]);
  std::ifstream file("/proc/net/if_inet6");
  for (std::string line; std::getline(file, line);) {
    char ip[33];
    unsigned index, flags;
    if (std::sscanf(line.c_str(), "%32s %x %*x %*x %x", ip, &index, &flags) == 3 && index == interface &&
        !std::string_view(digits).compare(ip))
      return flags;
  }
  return 0;
}

// One entry of the parameter socket_ifname.
struct Entry {
  std::string text;
  Address subnet;  // empty: the text is a name
  size_t bits = 0;

  bool has_name(const InterfaceAddress& candidate) const { return !subnet && candidate.name == text; }
  bool takes(const InterfaceAddress& candidate, bool whole_names) const {
    if (!subnet) return whole_names ? candidate.name == text : candidate.name.rfind(text, 0) == 0;
    const auto bit = [](const Address& address, size_t i) { return address.bytes[i / 8] >> (7 - i % 8) & 1; };
    if (candidate.address.family != subnet.family) return false;
    for (size_t i = 0; i < bits; ++i)
      if (bit(candidate.address, i) != bit(subnet, i)) return false;
    return true;
  }
};

struct InterfaceList {
  bool excludes = false, whole_names = false;
  std::vector<Entry> entries;

  // Returns the place of the first entry that takes it; none: -1.
  int place_of(const InterfaceAddress& candidate) const {
    const auto takes = [&](const Entry& entry) { return entry.takes(candidate, whole_names); };
    const auto found = std::find_if(entries.begin(), entries.end(), takes);
    return found == entries.end() ? -1 : static_cast<int>(found - entries.begin());
  }
  bool allows(const InterfaceAddress& candidate) const {
    return entries.empty() || (place_of(candidate) >= 0) != excludes;
  }
};

Status bad_entry(const std::string& entry) {
  return Status::error(Code::invalid_argument,
                       "parameter socket_ifname: '%s' is no name of an interface and no subnet: write names or "
                       "beginnings of names (eth0, ib) and subnets (10.1.0.0/16, fd00::/64) with commas between them, "
                       "and before all of them = for whole names, or ^ for all but these",
                       entry.c_str());
}

Result<Entry> parse_entry(const std::string& text) {
  const size_t slash = text.find('/');
  Entry entry = {text, parse_ip(text.substr(0, slash))};
  if (slash == std::string::npos) {
    entry.bits = 8 * entry.subnet.n_bytes();
    return text.find_first_of("^= ") == std::string::npos ? Result<Entry>(entry) : bad_entry(text);
  }
  const std::string digits = text.substr(slash + 1);
  if (!entry.subnet || digits.empty() || digits.size() > 3 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return bad_entry(text);
  entry.bits = static_cast<size_t>(std::stoi(digits));
  return entry.bits <= 8 * entry.subnet.n_bytes() ? Result<Entry>(entry) : bad_entry(text);
}

Result<InterfaceList> parse_list(const std::string& text) {
  InterfaceList list;
  size_t at = text.find_first_not_of(' ');
  if (at == std::string::npos) return list;
  if ((list.excludes = text[at] == '^')) ++at;
  if ((list.whole_names = text[at] == '=')) ++at;
  std::istringstream words(text.substr(at));
  for (std::string word; std::getline(words, word, ',');) {
    const size_t begin = word.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    GC_TRY_AS(Entry entry, parse_entry(word.substr(begin, word.find_last_not_of(' ') + 1 - begin)));
    list.entries.push_back(std::move(entry));
  }
  if (list.entries.empty()) return bad_entry(text);
  return list;
}

// Returns "lo (127.0.0.1, ::1), eth0 (10.1.2.3)".
std::string describe(const std::vector<InterfaceAddress>& host) {
  std::vector<std::pair<std::string, std::string>> interfaces;
  for (const InterfaceAddress& each : host) {
    const auto is_same = [&](const auto& known) { return known.first == each.name; };
    const auto known = std::find_if(interfaces.begin(), interfaces.end(), is_same);
    if (known == interfaces.end())
      interfaces.emplace_back(each.name, ip_text(each.address));
    else
      known->second += ", " + ip_text(each.address);
  }
  std::string text;
  for (const auto& [name, ips] : interfaces) text += (text.empty() ? "" : ", ") + name + " (" + ips + ")";
  return text.empty() ? "none" : text;
}

// Kinds of addresses, the best first.
enum Kind { kEverywhere, kOnTheWire, kBridge, kLoopback };

bool is_bridge_of_containers(const std::string& name) {
  return name.rfind("docker", 0) == 0 || name.rfind("virbr", 0) == 0;
}

class Choice {
 public:
  Choice(const std::vector<InterfaceAddress>& candidates, const InterfaceList& list)
      : candidates_(candidates), list_(list) {}

  Addresses best() const {
    const InterfaceAddress* ipv4 = best_of(Family::ipv4, nullptr);
    const InterfaceAddress* ipv6 = best_of(Family::ipv6, ipv4);
    if (ipv4 && ipv6 && kind_of(*ipv4) != kind_of(*ipv6)) (kind_of(*ipv4) < kind_of(*ipv6) ? ipv6 : ipv4) = nullptr;
    return {ipv4 ? ipv4->address : Address(), ipv6 ? ipv6->address : Address()};
  }

 private:
  bool is_named() const { return !list_.entries.empty() && !list_.excludes; }
  // Returns whether a name of the list, not a subnet, takes it.
  bool has_its_name(const InterfaceAddress& candidate) const {
    return is_named() && !list_.entries[static_cast<size_t>(list_.place_of(candidate))].subnet;
  }
  Kind kind_of(const InterfaceAddress& candidate) const {
    if (candidate.loopback) return kLoopback;
    if (!has_its_name(candidate) && is_bridge_of_containers(candidate.name)) return kBridge;
    return candidate.address.is_link_local() ? kOnTheWire : kEverywhere;
  }
  // beside: the address of the other family, whose interface serves best for this one, too.
  const InterfaceAddress* best_of(Family family, const InterfaceAddress* beside) const {
    const auto key = [&](const InterfaceAddress& c) {
      const int place = is_named() ? list_.place_of(c) : 0;
      const bool in_full = is_named() && list_.entries[static_cast<size_t>(place)].has_name(c);
      return std::tuple(kind_of(c), !c.running, place, !in_full, beside && c.name != beside->name, c.temporary);
    };
    const InterfaceAddress* best = nullptr;
    for (const InterfaceAddress& candidate : candidates_)
      if (candidate.address.family == family && list_.allows(candidate) && (!best || key(candidate) < key(*best)))
        best = &candidate;
    return best;
  }
  const std::vector<InterfaceAddress>& candidates_;
  const InterfaceList& list_;
};

const char* family_words(SocketFamilyChoice family) {
  constexpr const char* kWords[] = {"an IP", "an IPv4", "an IPv6"};
  return kWords[family];
}

std::vector<InterfaceAddress> of_family(const std::vector<InterfaceAddress>& host, SocketFamilyChoice family) {
  std::vector<InterfaceAddress> some;
  for (const InterfaceAddress& each : host)
    if (family == kSocketFamilyAuto || (each.address.family == Family::ipv4) == (family == kSocketFamilyIpv4))
      some.push_back(each);
  return some;
}

// Returns the entries that take nothing; `used` tells whether another one does. Those that exclude may.
std::vector<std::string> unused_entries(const InterfaceList& list, const std::vector<InterfaceAddress>& candidates,
                                        SocketFamilyChoice family, bool* used) {
  std::vector<std::string> unused;
  *used = list.excludes || list.entries.empty();
  if (*used) return unused;
  for (const Entry& entry : list.entries) {
    const Family wanted = family == kSocketFamilyIpv4 ? Family::ipv4 : Family::ipv6;
    if (entry.subnet && family != kSocketFamilyAuto && entry.subnet.family != wanted) continue;
    const auto takes = [&](const InterfaceAddress& c) { return entry.takes(c, list.whole_names); };
    if (std::any_of(candidates.begin(), candidates.end(), takes))
      *used = true;
    else
      unused.push_back(entry.text);
  }
  return unused;
}

// Hosts differ: of a list that serves them all, one entry has to fit here.
Status check_entries(const InterfaceList& list, const std::vector<InterfaceAddress>& candidates,
                     SocketFamilyChoice family) {
  bool used = false;
  const std::vector<std::string> unused = unused_entries(list, candidates, family, &used);
  if (used || unused.empty()) return {};
  return Status::error(Code::invalid_argument,
                       "parameter socket_ifname: '%s' fits no network interface of this host that is up and has %s "
                       "address: correct it, or leave it out; there are %s",
                       unused[0].c_str(), family_words(family), describe(candidates).c_str());
}

void tell_unused(const std::vector<InterfaceAddress>& host) {
  const auto unused =
      unused_entries(host, params().socket_ifname, static_cast<SocketFamilyChoice>(params().socket_family));
  for (const std::string& entry : unused)
    log::write(log::Level::info, "parameter socket_ifname: '%s' fits no network interface of this host", entry.c_str());
}

}  // namespace

Result<std::vector<InterfaceAddress>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list)) return Status::system(errno, "this process cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  std::vector<InterfaceAddress> host;
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    InterfaceAddress found = {i->ifa_name, address_of(*i->ifa_addr), (i->ifa_flags & IFF_LOOPBACK) != 0};
    if (!found.address) continue;
    found.address.interface = if_nametoindex(i->ifa_name);
    found.running = (i->ifa_flags & IFF_RUNNING) != 0;
    if (found.address.family == Family::ipv6) {
      const unsigned flags = flags_of(found.address, found.address.interface);
      const bool unusable = (flags & kDuplicate) || ((flags & kTentative) && !(flags & kOptimistic));
      if (unusable) continue;  // the kernel lets nobody listen there, yet or ever
      found.temporary = (flags & (kTemporary | kDeprecated)) != 0;
    }
    host.push_back(std::move(found));
  }
  return host;
}

Result<Addresses> choose_addresses(const std::vector<InterfaceAddress>& host, const std::string& names,
                                   SocketFamilyChoice family) {
  GC_TRY_AS(const InterfaceList list, parse_list(names));
  const std::vector<InterfaceAddress> candidates = of_family(host, family);
  GC_TRY(check_entries(list, candidates, family));
  const Addresses best = Choice(candidates, list).best();
  if (best) return best;
  if (list.entries.empty() && family != kSocketFamilyIpv6) return Addresses{loopback_addresses().ipv4, {}};
  return Status::error(Code::invalid_argument,
                       "parameters socket_ifname '%s' and socket_family: they leave no network interface of this host "
                       "that is up and has %s address: allow one, or give one such an address; there are %s",
                       names.c_str(), family_words(family), describe(host).c_str());
}

std::vector<std::string> unused_entries(const std::vector<InterfaceAddress>& host, const std::string& names,
                                        SocketFamilyChoice family) {
  bool used = false;
  const auto list = parse_list(names);
  return list ? unused_entries(*list, of_family(host, family), family, &used) : std::vector<std::string>();
}

Result<Addresses> local_addresses() {
  GC_TRY_AS(const auto host, list_interfaces());
  static std::once_flag once;
  std::call_once(once, tell_unused, host);
  return choose_addresses(host, params().socket_ifname, static_cast<SocketFamilyChoice>(params().socket_family));
}

Result<Address> way_to(const proto::ListenAddress& peer) {
  GC_TRY_AS(const Addresses own, local_addresses());
  return way_between(own, from_format(peer));
}

}  // namespace gpucoll::net
