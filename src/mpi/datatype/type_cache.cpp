#include "mpi/datatype/type_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gpucoll::coll {
namespace {

// Types that a program never frees make room for each other.
constexpr size_t kMostTypes = 1024;

uint64_t mean_run(const gc_type_map& map) {
  uint64_t runs = 0;
  for (size_t i = 0; i < map.n_runs; ++i) runs += map.runs[i].count;
  return map.size / runs;
}

}  // namespace

TypeCache& TypeCache::instance() {
  static TypeCache* layouts = new TypeCache;  // other threads may still use it while statics are torn down
  return *layouts;
}

// Sizes are powers of two, so that a block serves many lists.
Result<std::shared_ptr<uint8_t>> TypeCache::block(gpu::Device& device, size_t bytes) {
  const std::pair<int, size_t> kind = {device.index(), std::bit_ceil(std::max<size_t>(bytes, 4096))};
  const auto put_back = [this, kind](uint8_t* memory) {
    std::lock_guard lock(blocks_.mutex);
    blocks_.spare.emplace(kind, memory);
  };
  std::lock_guard lock(blocks_.mutex);
  if (auto found = blocks_.spare.find(kind); found != blocks_.spare.end()) {
    uint8_t* const memory = found->second;
    blocks_.spare.erase(found);
    return std::shared_ptr<uint8_t>(memory, put_back);
  }
  GC_TRY_AS(void* const memory, device.allocate(kind.second));
  return std::shared_ptr<uint8_t>(static_cast<uint8_t*>(memory), put_back);
}

Result<TypeCache::Pointer> TypeCache::make(const gc_type_map& map, gpu::Device& device) {
  auto known = std::make_shared<Known>();
  GC_TRY_AS(known->layout, layout_of(map));
  const auto list = std::exchange(known->layout.runs, {});
  const auto starts = std::exchange(known->layout.starts, {});
  known->mean_run = known->layout.run_bytes;
  if (list.empty()) return Pointer(std::move(known));
  known->list = {list.size(), starts.size()};
  known->serial = ++serials_;
  known->mean_run = mean_run(map);
  const size_t runs_bytes = known->list.runs_bytes();
  GC_TRY_AS(known->memory, block(device, known->list.bytes()));
  uint8_t* const memory = known->memory.get();
  GC_TRY(device.upload(memory, list.data(), runs_bytes));
  GC_TRY(device.upload(memory + runs_bytes, starts.data(), known->list.bytes() - runs_bytes));
  known->runs = reinterpret_cast<const proto::PackRuns*>(memory);
  known->starts = reinterpret_cast<const uint32_t*>(memory + runs_bytes);
  return Pointer(std::move(known));
}

void TypeCache::drop(std::list<Entry>::iterator entry) {
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

Result<TypeCache::Pointer> TypeCache::get(const gc_type_map& map, gpu::Device& device) {
  std::lock_guard lock(mutex_);
  if (auto found = by_id_.find(map.id); found != by_id_.end()) {
    const auto entry = found->second;
    entries_.splice(entries_.begin(), entries_, entry);
    if (entry->device == device.index()) return entry->known;
    drop(entry);  // threads with devices of their own share types rarely
  }
  GC_TRY_AS(Pointer known, make(map, device));
  entries_.push_front({map.id, device.index(), known});
  by_id_[map.id] = entries_.begin();
  if (entries_.size() > kMostTypes) drop(std::prev(entries_.end()));
  return known;
}

void TypeCache::forget(uint64_t id) noexcept {
  std::lock_guard lock(mutex_);
  if (auto found = by_id_.find(id); found != by_id_.end()) drop(found->second);
}

}  // namespace gpucoll::coll
