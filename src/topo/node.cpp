#include "topo/node.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/boot_id.h"
#include "base/params.h"
#include "base/system_limits.h"

namespace gpucoll::topo {
namespace {

uint64_t fnv1a(const void* data, size_t bytes, uint64_t hash) {
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 1099511628211ull;
  return hash;
}

Result<NodeId> read_node() {
  errno = 0;
  std::string boot = boot_id();
  if (boot.empty() && no_descriptor_left(errno)) return Status::system(errno, "cannot read which node this is");
  // Without a boot id (unusual containers) the host's name has to do.
  if (boot.empty()) boot = host_name();
  struct stat info = {};
  uint64_t space = stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
  uint64_t a = fnv1a(boot.data(), boot.size(), 1469598103934665603ull);
  uint64_t b = fnv1a(&space, sizeof space, a ^ 0x9e3779b97f4a7c15ull);
  const std::string& host_id = params().host_id;
  b = fnv1a(host_id.data(), host_id.size(), b);
  NodeId id;
  std::memcpy(id.data(), &a, 8);
  std::memcpy(id.data() + 8, &b, 8);
  return id;
}

}  // namespace

Result<NodeId> this_node() {
  static std::mutex mutex;
  static std::optional<NodeId> known;
  std::lock_guard lock(mutex);
  if (!known) {
    GC_TRY_AS(known, read_node());
  }
  return *known;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace gpucoll::topo
