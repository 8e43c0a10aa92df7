#include "coll/shared_gpu/group_leader.h"

#include <string>

#include "coll/shared_gpu/merged_call.h"

namespace gpucoll::coll {

const std::vector<int>& GroupLeader::group() const {
  return groups_->members[static_cast<size_t>(groups_->of[static_cast<size_t>(description_.rank)])];
}

void GroupLeader::lead(const DeviceGroups& groups) {
  groups_ = &groups;
  runtime_.set_ranks(groups.leaders());
  parts_.resize(group().size() - 1);
}

Result<int> GroupLeader::collect(const DeviceCall& call) {
  answered_ = false;
  for (; n_parts_ < parts_.size(); ++n_parts_) {
    const int member = group()[n_parts_ + 1];
    if (!own_.pages().handed(member, number_)) return member;
    GC_TRY(own_.pages().read(member, call.part.queue, &parts_[n_parts_]));
  }
  return -1;
}

Status GroupLeader::put_together(const DeviceCall& call, bool loads) {
  std::vector<const core::TaskQueue*> parts = {&call.part.queue};
  for (const core::TaskQueue& part : parts_) parts.push_back(&part);
  whole_.place = call.place;
  whole_.lines = call.lines;
  whole_.part.device = own_.device();
  const int mine = groups_->of[static_cast<size_t>(description_.rank)];
  whole_.kept = {};  // it was of the call before
  GC_TRY(compose(*groups_, mine, parts, call.pairs_with_gaps, *own_.device(), whole_.scratch, &whole_.part.queue));
  whole_.part.queue.results_on_host = call.part.queue.results_on_host;
  if (loads) call.part.packing.on_host().load();
  return {};
}

Status GroupLeader::run(BlockingOrder& blocking_order) {
  blocking_order.wait_until_first();
  GC_TRY(runtime_.launch(whole_));
  blocking_order.leave();
  return runtime_.await_end();
}

Result<bool> GroupLeader::launch() {
  constexpr bool kHoldsEnd = true;
  GC_TRY_AS(const bool all, runtime_.advance(kHoldsEnd));
  if (all) launches_ = runtime_.get()->launched();
  return all;
}

void GroupLeader::answer(bool done) {
  own_.pages().answer(number_, done ? proto::LeaderAnswer::done : proto::LeaderAnswer::stage, "");
  answered_ = true;
}

// ---- failures ----

void GroupLeader::raise_fault(const Status& why) noexcept {
  if (core::Communicator* const runtime = runtime_.get()) runtime->raise_fault(why);
}

bool GroupLeader::fail(const Status& why) noexcept {
  raise_fault(why);
  const auto failed = why.code() == Code::truncated ? proto::LeaderAnswer::truncated : proto::LeaderAnswer::failed;
  std::string told;
  contained([&]() -> Status {
    told = matcher_.failures().told_of(why);
    return {};
  }).ignore();  // no memory to say it better
  if (!answered_) own_.pages().answer(number_, failed, told.empty() ? why.what() : told.c_str());
  answered_ = true;
  return runtime_.get();
}

// A failure on the leaders' communicator counts its ranks, unless it blames one.
Status GroupLeader::explained(Status failure) const {
  if (failure.blames()) return failure;
  const std::vector<int> leaders = groups_->leaders();
  if (leaders.back() == groups_->size() - 1) return failure;  // they are the first ranks of all
  return Status::error(failure.code(), "%s (ranks counted among those that lead the ranks of a device: %s)",
                       failure.what(), list_of(leaders).c_str());
}

void GroupLeader::finish(core::Closing& closing) {
  runtime_.finish(closing);
  whole_.scratch.release();
}

}  // namespace gpucoll::coll
