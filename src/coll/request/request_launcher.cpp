#include "coll/request/request_launcher.h"

#include <algorithm>
#include <utility>

namespace gpucoll::coll {

Result<RequestLauncher::Readiness> RequestLauncher::prepare(Request& call) {
  if (!preparation_.any()) {
    GC_TRY_AS(const bool prepared, runtime_.prepared(call.call));
    if (prepared) return Readiness::ready;
    if (!running_.empty()) return Readiness::waiting;
    prepared_ = &call;
    preparation_.start([this, &call] { return runtime_.prepare(call.call, nullptr); });
  }
  auto result = preparation_.take_result();
  if (!result) return Readiness::waiting;
  GC_TRY_AS(const bool prepared, std::move(*result));
  return prepared ? Readiness::ready : Readiness::impossible;
}

// The most that nothing is missing for, now in together_ if they are several.
Result<size_t> RequestLauncher::put_together(std::span<Request* const> calls) {
  size_t n = 1;
  for (; n < calls.size() && runtime_.joins(calls[n - 1]->call); ++n) {
    GC_TRY_AS(const bool prepared, runtime_.prepared(calls[n]->call));
    if (!prepared || !runtime_.joins(calls[n]->call)) break;
  }
  for (; n > 1; --n) {
    together_.clear();
    for (const Request* call : calls.first(n)) together_.append(call->call.part.queue);
    if (runtime_.connected(together_)) break;
  }
  return n;
}

Result<size_t> RequestLauncher::begin(std::span<Request* const> calls) {
  GC_TRY_AS(const size_t n, put_together(calls));
  if (n == 1) {
    GC_TRY(runtime_.begin(calls[0]->call));
    return n;
  }
  for (const Request* call : calls.first(n)) call->call.part.packing.on_host().load();
  GC_TRY(runtime_.begin(together_));
  return n;
}

Result<size_t> RequestLauncher::launch(std::span<Request* const> calls) {
  if (!launching_) {
    GC_TRY_AS(launching_, begin(calls));
  }
  constexpr bool kHoldsEnd = true;
  GC_TRY_AS(const bool all, runtime_.advance(kHoldsEnd));
  if (!all) return size_t{0};
  for (Request* call : calls.first(launching_)) {
    call->launches = runtime_.get()->launched();
    running_.push_back(call);
  }
  return std::exchange(launching_, 0);
}

bool RequestLauncher::runs_large() const noexcept {
  return std::any_of(running_.begin(), running_.end(),
                     [](const Request* call) { return !(call->line.flags & GC_LINE_SMALL); });
}

std::optional<RequestLauncher::Ended> RequestLauncher::next_ended() {
  if (running_.empty()) return {};
  const Result<bool> done = runtime_.has_run(running_.front()->launches);
  if (!done) return Ended{take_running(), done.status()};
  if (!*done) return {};
  return Ended{take_running(), {}};
}

void RequestLauncher::let_go(const Request& call) {
  if (prepared_ == &call) stop();
}

void RequestLauncher::stop() { preparation_.finish(); }

Request* RequestLauncher::take_running() {
  if (running_.empty()) return nullptr;
  Request* const call = running_.front();
  running_.pop_front();
  return call;
}

}  // namespace gpucoll::coll
