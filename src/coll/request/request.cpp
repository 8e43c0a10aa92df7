#include "coll/request/request.h"

#include <utility>

namespace gpucoll::coll {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenLooksAround = std::chrono::milliseconds(10);

}  // namespace

bool Request::is_small() const noexcept {
  constexpr uint64_t kSmallBytes = uint64_t{64} << 10;
  const core::TaskQueue& queue = call.part.queue;
  uint64_t bytes = 0;
  for (const core::CollectiveTask& task : queue.collectives) bytes += task.count * task.element_bytes;
  for (const auto& task : queue.sends) bytes += task.bytes;
  for (const auto& task : queue.recvs) bytes += task.bytes;
  for (const proto::PackItem& copy : queue.spread) bytes += copy.bytes;
  return bytes <= kSmallBytes;
}

bool Request::time_to_look_around() {
  const auto now = Clock::now();
  if (now < next_look_around) return false;
  next_look_around = now + kBetweenLooksAround;
  return true;
}

void Request::look_around_later() { next_look_around = wait.start + kBetweenLooksAround; }

void Request::end_with(Status status) {
  const bool good = status.ok();
  code = guarded(name_of(call.place), [&] { return std::move(status); });
  if (is_persistent()) stage = good ? Stage::resting : Stage::failed;
  end();
}

void Request::end_idle(Status status) noexcept {
  code = status.code();
  unreported = std::move(status);
  stage = Stage::failed;
  end();
}

void Request::end() noexcept {
  if (start_requested && !unreported.ok()) guarded_report(name_of(call.place), std::exchange(unreported, Status()));
  const int ended = is_persistent() && !std::exchange(start_requested, false) ? GC_READY : GC_ENDED;
  __atomic_store_n(&state, ended, __ATOMIC_RELEASE);  // partner: the component's look
}

}  // namespace gpucoll::coll
