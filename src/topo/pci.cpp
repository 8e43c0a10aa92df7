#include "topo/pci.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace gpucoll::topo {
namespace {

namespace fs = std::filesystem;

constexpr int kOtherHostBridge = 1000, kOtherNode = 2000, kUnknown = 3000;

bool is_host_bridge(const std::string& name) { return name.starts_with("pci"); }

// Returns the host bridge, and all that is below it on the way to a device.
std::vector<std::string> way_to(const std::string& directory) {
  const fs::path path(directory);
  const auto begin = std::find_if(path.begin(), path.end(), [](const fs::path& p) { return is_host_bridge(p); });
  return {begin, path.end()};
}

// Returns the first word of a file; empty: it has none.
std::string word_of(const std::string& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

bool are_on_one_node(const std::string& one, const std::string& other) {
  const std::string node = word_of(one + "/numa_node");
  return !node.empty() && node != "-1" && node == word_of(other + "/numa_node");
}

}  // namespace

std::string pci_directory(const std::string& path) {
  std::error_code error;
  const std::string directory = fs::canonical(path, error);
  return error || way_to(directory).empty() ? std::string() : directory;
}

int pci_distance(const std::string& from, const std::string& to) {
  if (from.empty() || to.empty()) return kUnknown;
  const std::vector<std::string> a = way_to(from), b = way_to(to);
  const auto apart = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  if (apart == a.begin()) return are_on_one_node(from, to) ? kOtherHostBridge : kOtherNode;
  return static_cast<int>(a.end() - apart);
}

std::string physical_function(const std::string& directory) {
  return directory.empty() ? std::string() : pci_directory(directory + "/physfn");
}

int pci_ordinal(const std::string& directory) {
  if (directory.empty()) return 0;
  const std::string name = fs::path(directory).filename(), vendor = word_of(directory + "/vendor"),
                    kind = word_of(directory + "/class");
  int before = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory + "/subsystem/devices", error)) {
    const std::string path = entry.path();
    before += entry.path().filename().string() < name && word_of(path + "/vendor") == vendor &&
              word_of(path + "/class") == kind;
  }
  return before;
}

}  // namespace gpucoll::topo
