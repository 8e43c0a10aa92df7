// Keeps ready the launches that a communicator makes again and again: a group that equals an earlier one is neither
// planned nor brought to the device anew (docs/adr/0017).
//
// Groups are equal where they have equal tasks on equal streams, with an equal shape. Groups of a few tasks are
// remembered, as many as the parameter plan_cache says; the group not seen for the longest time makes room. The
// first time a group comes, only its hash is noted; the second time its plan is kept; the third time its launch as
// well. A launch is kept when nothing of this process is under way (core/progress/quiescence.h), since a device may
// wait for that when it keeps or drops a launch. A device that cannot keep launches is not asked again: then launches
// are made anew from the kept plans. A group that may be planned otherwise another time is planned each time, and its
// launch is kept while the plan is the same.
//
// Thread safety: one caller at a time.
// Ownership: owns the launches; the device outlives all of them, also those that are dropped later. Addresses in a kept
// plan are the communicator's own, or are in the tasks as well.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutant.h"
#include "base/observe/causes.h"
#include "base/params.h"
#include "core/plan/planner.h"

namespace gpucoll::core {

class PlanCache {
 public:
  static constexpr int kTimes = 3;  // how often a group has come when its launch is kept
  static constexpr size_t kMostTasks = 64;
  static constexpr size_t kMostPlans = 8;

  struct Entry {
    uint64_t hash, last_use, serial;  // serial: number of what is kept
    int uses;                         // at most kTimes
    // Empty where only the hash is known; then what follows means nothing.
    std::vector<PlannedLaunch> plans;
    gpu::CachedLaunch launch;  // of all plans; null: not kept on the device
    TaskQueue queue;
    CommProperties shape;
    // Returns whether its group need not be planned.
    bool is_certain() const { return !plans.empty() && std::ranges::none_of(plans, &PlannedLaunch::varies); }
  };

  // Names the entry that find() found. An empty one, as it is at first, names none.
  class Hit {
   public:
    Hit() = default;
    explicit operator bool() const { return serial_ != 0; }

   private:
    friend PlanCache;
    size_t index_ = 0;
    uint64_t serial_ = 0, shapes_ = 0;
  };

  // graphs: launches are kept on the device, and not the plans alone.
  PlanCache(gpu::Device& device, size_t most, bool graphs, CauseLog* causes = nullptr)
      : device_(device), most_(most), on_device_(graphs), causes_(causes) {}
  // Drops all launches at once: destroy it where its communicator's memory may be given back (core/comm/reclaim.h).
  ~PlanCache();
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  // Returns a hit for what is kept of an equal group that need not be planned.
  Hit find(const TaskQueue& queue, const CommProperties& shape) const;
  // Returns whether find() would return the hit again, for the same queue and an equal shape. REQUIRES: shape_changes()
  // is called where shapes are others from then on, but for what parameters force.
  bool has(const Hit& hit) const noexcept {
    if (!is_there(hit) || hit.shapes_ != shapes_) return false;
    const CommProperties& shape = entries_[hit.index_].shape;
    const Params& forced = params();
    return shape.algorithm == forced.algorithm && shape.protocol == forced.protocol;
  }
  void shape_changes() noexcept { shapes_ += !gc_mutant(361); }
  // Returns the entry of a hit, for a group that comes now; null where it has made room since. Good until the next
  // call.
  Entry* look_up(const Hit& hit) { return is_there(hit) ? count(entries_[hit.index_]) : nullptr; }
  // Notes that such a group has come, and returns its entry; null for a group that is never kept. Good until the next
  // call.
  Entry* look_up(const TaskQueue& queue, const CommProperties& shape);
  // Compares what has been planned for the entry's group, complete and with resident_ns of 0, with what the entry has.
  // Returns whether the entry has it now; may take it from *plans then. A caller that sets a resident_ns for a launch
  // sets it back.
  bool keep(Entry& entry, const TaskQueue& queue, const CommProperties& shape, std::vector<PlannedLaunch>* plans);
  // Returns whether the device had the entry's launches, and has put them in the stream.
  bool launch(const Entry& entry, gpu::Stream stream);

  // Returns how often the device had what was launched.
  uint64_t launched() const noexcept { return launched_; }

 private:
  Entry& entry_for(const TaskQueue& queue, const CommProperties& shape);
  bool is_there(const Hit& hit) const noexcept {
    if (!hit) return false;
    const Entry& entry = entries_[hit.index_];
    return !entry.plans.empty() && (entry.serial == hit.serial_ || gc_mutant(308));
  }
  Entry* count(Entry& entry) {
    entry.last_use = ++now_;
    entry.uses = std::min(entry.uses + 1, kTimes);
    if (!entry.launch && on_device_ && entry.is_certain()) bring_to_device(entry);
    return &entry;
  }
  void forget(Entry& entry);
  void bring_to_device(Entry& entry);
  void keep_on_device(Entry& entry);
  void give_up(const Status& why);

  gpu::Device& device_;
  const size_t most_;
  std::vector<Entry> entries_;
  uint64_t now_ = 0;  // counts look_up()
  uint64_t last_serial_ = 0;
  uint64_t shapes_ = 0;  // counts shape_changes()
  bool on_device_;       // until the device turns out to be unable
  std::string unable_;   // why it is
  CauseLog* const causes_;
  uint64_t launched_ = 0;
};

}  // namespace gpucoll::core
