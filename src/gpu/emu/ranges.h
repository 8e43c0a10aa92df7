// Free address ranges of the emulated device: first fit, neighbours joined on release.
//
// Offsets and sizes are the caller's units (pages). Thread safety: none, the owner locks. Invariant: free ranges
// neither touch nor overlap.
#pragma once
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace gpucoll::gpu::emu {

class Ranges {
 public:
  explicit Ranges(uint64_t size = 0) {
    if (size > 0) free_.emplace(0, size);
  }

  std::optional<uint64_t> take(uint64_t size) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [start, room] = *it;
      if (room < size) continue;
      auto node = free_.extract(it);
      if (room > size) {
        node.key() = start + size;  // reuses the node: taking never allocates
        node.mapped() = room - size;
        free_.insert(std::move(node));
      }
      return start;
    }
    return std::nullopt;
  }

  // REQUIRES: [start, start + size) came from take().
  void give(uint64_t start, uint64_t size) {
    auto next = free_.upper_bound(start);
    if (next != free_.end() && start + size == next->first) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == start) {
        before->second += size;
        return;
      }
    }
    free_.emplace(start, size);
  }

  // The largest range that take() could give now.
  uint64_t largest() const {
    uint64_t most = 0;
    for (const auto& [start, size] : free_) most = size > most ? size : most;
    return most;
  }

 private:
  std::map<uint64_t, uint64_t> free_;  // start -> size
};

}  // namespace gpucoll::gpu::emu
