// The layouts of types with gaps that this process has used lately, and their lists in device memory.
//
// Thread safety: any thread. Ownership: a list's memory is kept while somebody holds its Known, and then for another
// list: giving it back to the device would wait for kernels, which may wait for this rank.
#pragma once
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "gpu/device.h"
#include "mpi/datatype/type_layout.h"

namespace gpucoll::coll {

class TypeCache {
 public:
  // Entries of a list in device memory: runs, and starts behind them.
  struct ListSize {
    size_t runs, starts;
    size_t runs_bytes() const { return runs * sizeof(proto::PackRuns); }
    size_t bytes() const { return runs_bytes() + starts * sizeof(uint32_t); }
  };
  struct Known {
    TypeLayout layout;                      // but for the list,
    const proto::PackRuns* runs = nullptr;  // which is here; null: by levels
    const uint32_t* starts = nullptr;
    ListSize list = {};
    uint64_t serial = 0;              // of the list among all of this process; 0: none
    uint64_t mean_run = 0;            // bytes
    std::shared_ptr<uint8_t> memory;  // shared with nobody; its deleter keeps it for another list
  };
  // Shared, as a kernel may read the list while the type is freed, or room is made for others.
  using Pointer = std::shared_ptr<const Known>;

  static TypeCache& instance();
  // Errors: out_of_memory; as layout_of().
  Result<Pointer> get(const gc_type_map& map, gpu::Device& device);
  // Makes the layout of a map that is used once, and has no id.
  Result<Pointer> make(const gc_type_map& map, gpu::Device& device);
  void forget(uint64_t id) noexcept;
  // Returns device memory for a list, which is kept for another one in the end. Errors: out_of_memory.
  Result<std::shared_ptr<uint8_t>> block(gpu::Device& device, size_t bytes);

 private:
  struct Entry {
    uint64_t id;
    int device;
    Pointer known;
  };
  // Blocks of device memory for lists, by device and size.
  struct Blocks {
    std::mutex mutex;
    std::multimap<std::pair<int, size_t>, uint8_t*> spare;
  };

  void drop(std::list<Entry>::iterator entry);

  std::mutex mutex_;
  std::list<Entry> entries_;  // used lately first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_id_;
  Blocks blocks_;
  std::atomic<uint64_t> serials_ = 0;
};

}  // namespace gpucoll::coll
