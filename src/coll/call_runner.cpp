#include "coll/call_runner.h"

#include <utility>

#include "base/quiet_thread.h"

namespace gpucoll::coll {
namespace {

using Clock = std::chrono::steady_clock;
// For kernels to leave after a fault.
constexpr auto kGrace = std::chrono::seconds(10);

}  // namespace

Result<CallRunner::Readiness> CallRunner::prepare(PendingCall& call) {
  if (!preparation_) {
    GC_TRY_AS(const bool prepared, runtime_.prepared(call.call));
    if (prepared) return Readiness::ready;
    if (!running_.empty()) return Readiness::waiting;
    preparation_.emplace();
    preparation_->thread = quiet_thread([this, &call] {
      preparation_->result = contained([&] { return runtime_.prepare(call.call, nullptr); });
      preparation_->ended.store(true, std::memory_order_release);  // partner: below
    });
  }
  if (!preparation_->ended.load(std::memory_order_acquire)) return Readiness::waiting;
  preparation_->thread.join();
  Result<bool> prepared = std::move(preparation_->result);
  preparation_.reset();
  if (!prepared) return std::move(prepared).status();
  return *prepared ? Readiness::ready : Readiness::impossible;
}

Result<bool> CallRunner::launch(PendingCall& call) {
  if (!launching_) GC_TRY(runtime_.begin(call.call));
  GC_TRY_AS(const bool all, runtime_.advance());
  launching_ = !all;
  if (!all) return false;
  call.launches = runtime_.get()->launched();
  running_.push_back(&call);
  return true;
}

std::optional<CallRunner::Ended> CallRunner::next_ended() {
  if (running_.empty()) return {};
  const core::Fault& fault = runtime_.get()->fault();
  const bool done = runtime_.get()->done(running_.front()->launches);
  if (!fault.raised()) {
    if (!done) return {};
    runtime_.end(running_.front()->call);
    return Ended{take_running(), {}};
  }
  if (fault_seen_ == Clock::time_point()) fault_seen_ = Clock::now();
  if (!done && Clock::now() - fault_seen_ < kGrace) return {};
  return Ended{take_running(), fault.status()};
}

void CallRunner::stop() {
  if (preparation_ && preparation_->thread.joinable()) preparation_->thread.join();  // bounded by its own waits
  preparation_.reset();
}

PendingCall* CallRunner::take_running() {
  if (running_.empty()) return nullptr;
  PendingCall* const call = running_.front();
  running_.pop_front();
  return call;
}

}  // namespace gpucoll::coll
