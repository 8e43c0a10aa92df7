// Copies of other processes' lists of runs (proto/format/outbox.h), which types of theirs have.
//
// Thread safety: any thread. Ownership: a list is kept while somebody holds it, or while it is among those used lately.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/mutant.h"
#include "mpi/datatype/type_cache.h"

namespace gpucoll::pt2pt {

struct PeerList {
  int peer;         // index
  uint64_t serial;  // the peer's
  coll::TypeCache::ListSize size;
  std::shared_ptr<uint8_t> memory;  // of the device that the copies are on; kernel address
  const proto::PackRuns* runs() const { return reinterpret_cast<const proto::PackRuns*>(memory.get()); }
  const uint32_t* starts() const { return reinterpret_cast<const uint32_t*>(memory.get() + size.runs_bytes()); }
};

class PeerLists {
 public:
  using Pointer = std::shared_ptr<const PeerList>;
  // Returns null where it is not known.
  Pointer find(int peer, uint64_t serial) {
    std::lock_guard lock(mutex_);
    for (auto it = lists_.begin(); it != lists_.end(); ++it) {
      if ((*it)->peer != peer || ((*it)->serial != serial && !gc_mutant(213))) continue;
      lists_.splice(lists_.begin(), lists_, it);
      return lists_.front();
    }
    return nullptr;
  }
  // Keeps a list that has been copied.
  void keep(Pointer list) {
    constexpr size_t kMostLists = 64;
    std::lock_guard lock(mutex_);
    lists_.push_front(std::move(list));
    if (lists_.size() > kMostLists) lists_.pop_back();
  }

 private:
  std::mutex mutex_;
  std::list<Pointer> lists_;  // used lately first
};

}  // namespace gpucoll::pt2pt
