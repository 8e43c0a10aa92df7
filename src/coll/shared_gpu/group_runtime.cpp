#include "coll/shared_gpu/group_runtime.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/params.h"
#include "coll/shared_gpu/merged_call.h"

namespace gpucoll::coll {
namespace {

constexpr char kAllCalls[] = "a collective on device memory, as all others,";

bool same_device(const gc_board_line& a, const gc_board_line& b) {
  return !std::memcmp(a.device, b.device, sizeof a.device);
}

}  // namespace

// ---- whether it can be done ----

uint32_t GroupRuntime::offer(const DeviceCall& call, bool next) {
  if (!params().shared_gpu || unneeded_ || staging_) return 0;
  gpu::Device& device = *call.part.device;
  const core::TaskQueue& queue = call.part.queue;
  if (device.shares_between_processes() || (own_.device() && own_.device() != &device) || !suits_groups(queue))
    return 0;
  if (groups_ && leads()) return GC_LINE_GROUP;  // nobody opens its memory
  if (!own_.make_pages(device, description_.size)) return 0;
  const bool suits = next ? own_.describe(call) : own_.can_describe(call);
  return suits ? GC_LINE_GROUP : 0;
}

bool GroupRuntime::fits(const DeviceCall& call) {
  const std::vector<gc_board_line>& lines = call.lines;
  const auto offered = [](const gc_board_line& line) { return line.flags & GC_LINE_GROUP; };
  if (staging_ || unneeded_ || !std::all_of(lines.begin(), lines.end(), offered)) return false;
  if (groups_) return std::equal(lines.begin(), lines.end(), bound_.begin(), same_device);
  DeviceGroups groups = groups_of(lines);
  unneeded_ = groups.size() == description_.size;
  if (unneeded_) own_.release_pages();
  if (unneeded_) return false;
  groups_ = std::move(groups);
  bound_ = lines;
  if (leads()) leader_.lead(*groups_);
  tell_groups();
  return true;
}

void GroupRuntime::tell_groups() const {
  if (!leads() || group().size() == 1) return;
  log::write(log::Level::info, "%s of %s use one device: rank %d runs their collectives", list_of(group()).c_str(),
             description_.name, description_.rank);
}

// ---- the first call ----

Status GroupRuntime::open_pages(BoardBootstrap& all) {
  const SharedMemoryName mine = pages().name();
  std::vector<SharedMemoryName> names(static_cast<size_t>(description_.size));
  GC_TRY(all.allgather(&mine, names.data(), sizeof mine));
  for (int rank : group())
    if (rank != description_.rank && (leads() || rank == leader()))
      GC_TRY(pages().open(rank, names[static_cast<size_t>(rank)]));
  return {};
}

// Returns whether every rank can do its part, so that all go on or none.
Result<bool> GroupRuntime::meet(const DeviceCall& call, const Status& handed_over, void (*idle)()) {
  BoardBootstrap all(description_, matcher_, meeting_, call.place, idle);
  Status mine = open_pages(all);
  if (mine) mine = handed_over;
  if (mine && leads()) mine = collect(call, idle);
  if (!mine) causes_->tell(Cause::shared_gpu, kAllCalls, mine.what(), log::Level::warn);
  const uint8_t able = mine.ok();
  std::vector<uint8_t> answers(static_cast<size_t>(description_.size));
  GC_TRY(all.allgather(&able, answers.data(), sizeof able));
  const bool can_all = std::all_of(answers.begin(), answers.end(), [](uint8_t other) { return other != 0; });
  if (mine && !can_all) causes_->tell(Cause::shared_gpu, kAllCalls, "another rank's own line says more");
  return can_all;
}

// ---- every member ----

Status GroupRuntime::submit(const DeviceCall& call) {
  if (!leads()) {
    GC_TRY_AS(const bool prepared, own_.prepare(call, !dry_runs_));
    if (!prepared)
      return Status::error(Code::out_of_memory, "rank %d has no memory to hand %s over to rank %d", description_.rank,
                           name_of(call.place), leader());
  }
  pages().submit(calls_);
  return {};
}

// REQUIRES: the leader has answered.
Result<GroupRuntime::Outcome> GroupRuntime::outcome(const DeviceCall& call) {
  const proto::LeaderAnswer answer = pages().answer_of(leader());
  const bool truncated = answer == proto::LeaderAnswer::truncated;
  if (truncated || answer == proto::LeaderAnswer::failed)
    return Status::error(truncated ? Code::truncated : Code::remote, "%s", pages().reason_of(leader())).blaming();
  if (answer == proto::LeaderAnswer::stage) return Outcome::stage;
  if (dry_runs_) return Outcome::done;
  GC_TRY(own_.take_back(call));
  RunCounts::count_run();
  return Outcome::done;
}

// ---- the leader ----

Status GroupRuntime::collect(const DeviceCall& call, void (*idle)()) {
  for (;;) {
    GC_TRY_AS(const int missing, leader_.collect(call));
    if (missing < 0) return {};
    GC_TRY(wait_.await(missing, kHandedOver, call.place, idle, [&] { return pages().handed(missing, calls_); }));
  }
}

Result<bool> GroupRuntime::run_as_leader(const DeviceCall& call, BlockingOrder& blocking_order) {
  constexpr bool kLoads = true;
  GC_TRY(leader_.put_together(call, kLoads));
  GC_TRY_AS(const bool ready, leader_.prepare(description_.calls->progress));
  if (ready) GC_TRY(leader_.run(blocking_order));
  return ready;
}

void GroupRuntime::raise_fault(const Status& why) noexcept { leader_.raise_fault(why); }

bool GroupRuntime::fail(const Status& why) noexcept { return groups_ && leads() && leader_.fail(why); }

// ---- waiting for the end ----

void GroupRuntime::begin_call() {
  wait_.begin(leads(), own_.emulated());
  leader_.begin(++calls_);
}

Result<GroupRuntime::Outcome> GroupRuntime::run(DeviceCall& call, BlockingOrder& blocking_order) {
  void (*const idle)() = description_.calls->progress;
  begin_call();
  if (!leads()) blocking_order.leave();  // it launches nothing
  if (calls_ == 1) {
    GC_TRY_AS(const bool able, meet(call, submit(call), idle));
    staging_ = !able;
    if (staging_) return Outcome::stage;
  } else {
    GC_TRY(submit(call));
    if (leads()) GC_TRY(collect(call, idle));
  }
  if (leads()) {
    const Result<bool> done = run_as_leader(call, blocking_order);
    if (!done) return leader_.explained(done.status());
    leader_.answer(*done);
    staging_ = !*done;
  } else {
    GC_TRY(wait_.await(leader(), kHadRun, call.place, idle, [&] { return pages().answered(leader(), calls_); }));
    GC_TRY_AS(const Outcome ended, outcome(call));
    staging_ = ended == Outcome::stage;
  }
  return staging_ ? Outcome::stage : Outcome::done;
}

void GroupRuntime::let_go() { background_.finish(); }

GroupRuntime::~GroupRuntime() {
  stop();
  core::Closing alone;
  finish(alone);
}

void GroupRuntime::stop() {
  let_go();
  if (step_ != Step::idle) fail(Status::error(Code::aborted, "MPI is being finalized while it is under way"));
}

void GroupRuntime::finish(core::Closing& closing) {
  leader_.finish(closing);
  own_.release_when_idle();
  own_.release_memory();
  staging_ = true;
}

}  // namespace gpucoll::coll
