#include "coll/team_runtime.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "base/params.h"
#include "coll/packing.h"
#include "coll/team_call.h"

namespace gpucoll::coll {
namespace {

using Clock = std::chrono::steady_clock;
// A leader that waits too long says so by itself, and better: its members are more patient.
constexpr auto kPatience = std::chrono::seconds(20);

bool same_device(const gc_board_line& a, const gc_board_line& b) {
  return !std::memcmp(a.device, b.device, sizeof a.device);
}

}  // namespace

uint32_t TeamRuntime::offer(const gc_call& call, const DeviceCall& part) {
  if (!params().teams || unneeded_ || staging_) return 0;
  gpu::Device& device = *part.part.device;
  if (device.shares_between_processes() || (device_ && device_ != &device)) return 0;
  const core::TaskQueue& queue = part.part.queue;
  if (!suits_teams(queue)) return 0;
  gaps_ = reduces_pairs_with_gaps(call);
  if (teams_ && leads()) return GC_LINE_TEAM;  // nobody opens its memory
  if (!pages_) {
    auto made = TeamPages::create(device, description_.size);
    if (!made) return 0;
    pages_ = *std::move(made);
    device_ = &device;
  }
  if (!make_mirror(device, part.part.packing.on_host().block())) return 0;
  return pages_->describe(queue, mirror_) ? GC_LINE_TEAM : 0;
}

// Host memory of a call is in page-locked memory by now, which only this rank's kernels see.
bool TeamRuntime::make_mirror(gpu::Device& device, const gpu::HostBlock& pinned) {
  mirror_ = {};
  if (!pinned.host) return true;
  auto memory = mirror_memory_.get(device, pinned.bytes);
  if (!memory) return false;
  mirror_ = {static_cast<const uint8_t*>(pinned.kernel), pinned.bytes, *memory};
  return true;
}

bool TeamRuntime::fits(const DeviceCall& call) {
  const std::vector<gc_board_line>& lines = call.lines;
  const auto offered = [](const gc_board_line& line) { return line.flags & GC_LINE_TEAM; };
  if (staging_ || unneeded_ || !std::all_of(lines.begin(), lines.end(), offered)) return false;
  if (teams_) return std::equal(lines.begin(), lines.end(), bound_.begin(), same_device);
  Teams teams = teams_of(lines);
  unneeded_ = teams.size() == description_.size;
  if (unneeded_) pages_.reset();
  if (unneeded_) return false;
  teams_ = std::move(teams);
  bound_ = lines;
  leaders_.set_ranks(teams_->leaders());
  if (leads()) parts_.resize(team().size() - 1);
  tell_teams();
  return true;
}

void TeamRuntime::tell_teams() const {
  if (!leads() || team().size() == 1) return;
  log::write(log::Level::info, "%s of %s use one device: rank %d runs their blocking collectives",
             list_of(team()).c_str(), description_.name, description_.rank);
}

template <class Come>
Status TeamRuntime::await(int rank, const char* what, const Place& place, const Come& come) {
  constexpr int kLooksPerCheck = 4096;
  const auto start = Clock::now();
  const auto limit = std::chrono::seconds(params().timeout) + (leads() ? kPatience / 2 : kPatience);
  const bool polite = !std::strcmp(device_->identity().kind, "emu");
  for (int look = 1; !come(); ++look) {
    description_.calls->progress();
    if (polite) sched_yield();
    if (look % kLooksPerCheck) continue;
    if (Status usable = arrivals_.usable(rank); !usable && !come()) return usable;
    if (!arrivals_.alive(rank) && !come())
      return Status::error(Code::remote, "%s died before it %s %s on %s", arrivals_.rank_name(rank).c_str(), what,
                           name_of(place), description_.name);
    if (params().timeout && Clock::now() - start > limit)
      return Status::error(Code::timed_out, "rank %d has waited longer than %lld s (parameter timeout) until %s %s %s",
                           description_.rank, static_cast<long long>(params().timeout),
                           arrivals_.rank_name(rank).c_str(), what, name_of(place));
  }
  return {};
}

// ---- the first call ----

Status TeamRuntime::open_pages(BoardBootstrap& all) {
  const SharedMemoryName mine = pages_->name();
  std::vector<SharedMemoryName> names(static_cast<size_t>(description_.size));
  GC_TRY(all.allgather(&mine, names.data(), sizeof mine));
  const int leader = teams_->leader_of(description_.rank);
  for (int rank : team())
    if (rank != description_.rank && (leads() || rank == leader))
      GC_TRY(pages_->open(rank, names[static_cast<size_t>(rank)]));
  return {};
}

// Whether every rank can do its part, so that all go on or none.
Result<bool> TeamRuntime::meet(const DeviceCall& call) {
  BoardBootstrap all(description_, arrivals_, GC_MEETING_TEAMS, call.place, description_.calls->progress);
  Status mine = open_pages(all);
  if (Status handed = hand_over(call); mine) mine = std::move(handed);
  if (mine && leads()) mine = collect(call);
  if (!mine) log::write(log::Level::warn, "ranks that use one device go through the host: %s", mine.what());
  const uint8_t able = mine.ok();
  std::vector<uint8_t> answers(static_cast<size_t>(description_.size));
  GC_TRY(all.allgather(&able, answers.data(), sizeof able));
  return std::all_of(answers.begin(), answers.end(), [](uint8_t other) { return other != 0; });
}

Result<bool> TeamRuntime::run(DeviceCall& call) {
  ++calls_;
  if (calls_ == 1) {
    GC_TRY_AS(const bool able, meet(call));
    staging_ = !able;
    if (staging_) return false;
  } else {
    GC_TRY(hand_over(call));
    if (leads()) GC_TRY(collect(call));
  }
  GC_TRY_AS(const bool done, leads() ? lead(call) : follow(call));
  staging_ = !done;
  return done;
}

// ---- the leader ----

Status TeamRuntime::collect(const DeviceCall& call) {
  answered_ = false;
  for (size_t i = 1; i < team().size(); ++i) {
    const int member = team()[i];
    GC_TRY(await(member, "handed over its part of", call.place, [&] { return pages_->handed(member, calls_); }));
    GC_TRY(pages_->read(member, call.part.queue, &parts_[i - 1]));
  }
  return {};
}

Result<bool> TeamRuntime::launch(const DeviceCall& call) {
  std::vector<const core::TaskQueue*> parts = {&call.part.queue};
  for (const core::TaskQueue& part : parts_) parts.push_back(&part);
  whole_.place = call.place;
  whole_.lines = call.lines;
  whole_.part.device = device_;
  const int mine = teams_->of[static_cast<size_t>(description_.rank)];
  GC_TRY(compose(*teams_, mine, parts, gaps_, *device_, whole_.scratch, &whole_.part.queue));
  whole_.part.queue.results_on_host = call.part.queue.results_on_host;
  call.part.packing.on_host().load();
  GC_TRY_AS(const bool ready, leaders_.prepare(whole_, description_.calls->progress));
  if (!ready) return false;
  GC_TRY(leaders_.begin(whole_, true));
  for (;;) {
    GC_TRY_AS(const bool all, leaders_.advance());
    if (all) break;
    description_.calls->progress();
  }
  core::Communicator& runtime = *leaders_.get();
  GC_TRY(runtime.wait(runtime.launched(), description_.calls->progress));
  leaders_.end(whole_);
  call.part.packing.on_host().store();
  return true;
}

Result<bool> TeamRuntime::lead(const DeviceCall& call) {
  GC_TRY_AS(const bool done, launch(call));
  pages_->answer(calls_, done ? proto::TeamAnswer::done : proto::TeamAnswer::stage, "");
  answered_ = true;
  return done;
}

void TeamRuntime::fail(const Status& why) noexcept {
  if (!teams_ || !leads()) return;
  if (leaders_.get()) leaders_.get()->raise_fault(why);  // the other leaders count on this one
  if (!answered_) pages_->answer(calls_, proto::TeamAnswer::failed, why.what());
  answered_ = true;
}

// ---- the other members ----

Status TeamRuntime::hand_over(const DeviceCall& call) {
  if (!leads() && mirror_.bytes) {
    const HostPieces& pieces = call.part.packing.on_host();
    pieces.load();
    GC_TRY(device_->upload(mirror_.memory, pieces.block().host, mirror_.bytes));
  }
  pages_->hand_over(calls_);
  return {};
}

Status TeamRuntime::take_back(const DeviceCall& call) {
  if (!mirror_.bytes) return {};
  const HostPieces& pieces = call.part.packing.on_host();
  GC_TRY(device_->copy(pieces.block().host, mirror_.memory, mirror_.bytes));
  pieces.store();
  return {};
}

Result<bool> TeamRuntime::follow(const DeviceCall& call) {
  const Place& place = call.place;
  const int leader = teams_->leader_of(description_.rank);
  GC_TRY(await(leader, "had run for all ranks of its device", place, [&] { return pages_->answered(leader, calls_); }));
  const proto::TeamAnswer answer = pages_->answer_of(leader);
  if (answer == proto::TeamAnswer::failed)
    return Status::error(Code::remote, "%s, which runs %s for rank %d as both use one device, has failed: %s",
                         arrivals_.rank_name(leader).c_str(), name_of(place), description_.rank,
                         pages_->reason_of(leader));
  if (answer == proto::TeamAnswer::stage) return false;
  GC_TRY(take_back(call));
  MpiRuntime::count_run();
  return true;
}

void TeamRuntime::finish() {
  leaders_.finish();
  pages_.reset();
  whole_.scratch.release();
  mirror_memory_.release();
  staging_ = true;
}

}  // namespace gpucoll::coll
