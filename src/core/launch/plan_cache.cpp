#include "core/launch/plan_cache.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/mutant.h"
#include "core/progress/quiescence.h"

namespace gpucoll::core {
namespace {

bool may_be_kept(const TaskQueue& queue) {
  const size_t local = queue.before.size() + queue.after.size() + queue.spread.size() + queue.reductions.size() +
                       queue.late_reductions.size();
  return queue.collectives.size() + queue.sends.size() + queue.recvs.size() + local <= PlanCache::kMostTasks;
}

bool may_be_kept(const std::vector<PlannedLaunch>& plans) {
  return !plans.empty() && plans.size() <= PlanCache::kMostPlans &&
         std::ranges::all_of(plans, [](const PlannedLaunch& planned) {
           return planned.stage != Stage::step && planned.overflow.empty();
         });
}

// REQUIRES: may_be_kept of both.
bool is_same(const PlannedLaunch& a, const PlannedLaunch& b) {
  const size_t bytes = proto::used_bytes(a.plan);
  return a.kernel == b.kernel && a.threads == b.threads && bytes == proto::used_bytes(b.plan) &&
         a.plain_blocks == b.plain_blocks && std::memcmp(&a.plan, &b.plan, bytes) == 0;
}

// Hashes what is likely to differ.
class Hash {
 public:
  void add(const void* a, const void* b, uint64_t c, uint64_t d) {
    mix(reinterpret_cast<uintptr_t>(a));
    mix(reinterpret_cast<uintptr_t>(b));
    mix(c);
    mix(d);
  }
  uint64_t value() const { return value_; }

 private:
  void mix(uint64_t x) { value_ = hash_combine(value_, x); }
  uint64_t value_ = 0;
};

uint64_t hash_of(const TaskQueue& queue) {
  Hash hash;
  for (const CollectiveTask& task : queue.collectives) {
    hash.add(task.send, task.recv, task.count, uint64_t{task.root} << 32 | task.element_bytes);
    hash.add(task.kernels.plan, task.stream, task.argument,
             static_cast<uint64_t>(task.function) << 8 | task.kernels.op);
  }
  for (const TaskQueue::Pair& send : queue.sends)
    hash.add(send.buffer, nullptr, send.bytes, static_cast<uint64_t>(send.peer));
  for (const TaskQueue::Pair& recv : queue.recvs)
    hash.add(nullptr, recv.buffer, recv.bytes, static_cast<uint64_t>(recv.peer));
  for (const auto* items : {&queue.before, &queue.after, &queue.spread})
    for (const proto::PackItem& item : *items) hash.add(item.memory, item.packed, item.bytes, item.unpacks);
  for (const auto* tasks : {&queue.reductions, &queue.late_reductions})
    for (const LocalTask& task : *tasks)
      hash.add(task.reduction.own, task.reduction.result, task.reduction.count, task.reduction.op);
  return hash.value();
}

bool same_bytes(const void* a, const void* b, size_t bytes) { return bytes == 0 || std::memcmp(a, b, bytes) == 0; }

bool are_same(const std::vector<proto::PackItem>& a, const std::vector<proto::PackItem>& b) {
  static_assert(std::has_unique_object_representations_v<proto::PackItem>);
  return a.size() == b.size() && same_bytes(a.data(), b.data(), a.size() * sizeof(proto::PackItem));
}
bool are_same(const std::vector<LocalTask>& a, const std::vector<LocalTask>& b) {
  static_assert(std::has_unique_object_representations_v<proto::LocalReduction>);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const LocalTask& x, const LocalTask& y) {
    return x.kernel == y.kernel && x.element_bytes == y.element_bytes &&
           same_bytes(&x.reduction, &y.reduction, sizeof x.reduction);
  });
}
bool are_same_on_this_device(const TaskQueue& a, const TaskQueue& b) {
  return are_same(a.before, b.before) && are_same(a.after, b.after) && are_same(a.spread, b.spread) &&
         are_same(a.reductions, b.reductions) && are_same(a.late_reductions, b.late_reductions) &&
         a.packing == b.packing;
}

// Returns whether the entry keeps this group.
bool is_of(const PlanCache::Entry& entry, const TaskQueue& queue, const CommProperties& shape) {
  const TaskQueue& kept = entry.queue;
  return (entry.shape == shape || gc_mutant(307)) && kept.collectives == queue.collectives &&
         kept.sends == queue.sends && kept.recvs == queue.recvs && kept.streams == queue.streams &&
         kept.results_on_host == queue.results_on_host && are_same_on_this_device(kept, queue);
}

}  // namespace

PlanCache::~PlanCache() {
  if (launched_)
    log::write(log::Level::info, "%llu launches were kept on the device", static_cast<unsigned long long>(launched_));
  for (Entry& entry : entries_)
    if (entry.launch) device_.drop_launch(entry.launch);
}

// Drops the entry's launch on the device when nothing is under way.
void PlanCache::forget(Entry& entry) {
  const gpu::CachedLaunch launch = std::exchange(entry.launch, nullptr);
  entry.plans.clear();
  if (!launch) return;
  Quiescence::instance().release_when_idle(
      std::shared_ptr<void>(launch, [&device = device_](void* dropped) { device.drop_launch(dropped); }));
}

// Returns the entry of a group. Of two groups with one hash, each gets its own entry once the other one's is kept.
PlanCache::Entry& PlanCache::entry_for(const TaskQueue& queue, const CommProperties& shape) {
  const uint64_t hash = hash_of(queue);
  Entry* oldest = nullptr;
  for (Entry& entry : entries_) {
    if (entry.hash == hash && (entry.plans.empty() || is_of(entry, queue, shape))) return entry;
    if (!oldest || (entry.last_use < oldest->last_use) != gc_mutant(309)) oldest = &entry;
  }
  Entry& room = entries_.size() < most_ ? entries_.emplace_back() : *oldest;
  forget(room);
  room.hash = hash;
  room.uses = 0;
  return room;
}

PlanCache::Entry* PlanCache::look_up(const TaskQueue& queue, const CommProperties& shape) {
  if (most_ == 0 || !may_be_kept(queue)) return nullptr;
  return count(entry_for(queue, shape));
}

PlanCache::Hit PlanCache::find(const TaskQueue& queue, const CommProperties& shape) const {
  Hit hit;
  if (entries_.empty() || !may_be_kept(queue)) return hit;
  const uint64_t hash = hash_of(queue);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.hash != hash || !entry.is_certain() || !is_of(entry, queue, shape)) continue;
    hit.index_ = i;
    hit.serial_ = entry.serial;
    hit.shapes_ = shapes_;
    break;
  }
  return hit;
}

bool PlanCache::keep(Entry& entry, const TaskQueue& queue, const CommProperties& shape,
                     std::vector<PlannedLaunch>* plans) {
  if (entry.uses + 1 < kTimes || !may_be_kept(*plans)) return false;
  if (std::ranges::equal(entry.plans, *plans, is_same)) {
    bring_to_device(entry);
    return true;
  }
  forget(entry);
  entry.queue = queue;
  entry.shape = shape;
  entry.serial = ++last_serial_;
  entry.plans = std::move(*plans);
  return true;
}

void PlanCache::bring_to_device(Entry& entry) {
  if (!entry.launch && on_device_) Quiescence::instance().run_at_rest([&] { keep_on_device(entry); });
}

void PlanCache::keep_on_device(Entry& entry) {
  gpu::Launch launches[kMostPlans];
  const auto end = std::ranges::transform(entry.plans, launches, [](const PlannedLaunch& planned) {
                     return gpu::Launch{planned.kernel, &planned.plan, planned.blocks(), planned.threads};
                   }).out;
  auto launch = device_.keep_launches({launches, end}, entry.queue.streams.front());
  if (!launch) return give_up(launch.status());
  entry.launch = *launch;
}

bool PlanCache::launch(const Entry& entry, gpu::Stream stream) {
  if (entry.launch && on_device_) {
    const Status launched = device_.launch_kept(entry.launch, stream);
    if (launched) {
      ++launched_;
      return true;
    }
    give_up(launched);
  }
  if (!unable_.empty() && causes_) causes_->tell(Cause::no_graph_launch, "a call", unable_.c_str());
  return false;
}

void PlanCache::give_up(const Status& why) {
  unable_ = why.what();
  on_device_ = false;
}

}  // namespace gpucoll::core
