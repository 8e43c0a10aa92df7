#include "core/comm/background.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <list>
#include <utility>

#include "base/fork.h"
#include "base/mutant.h"
#include "base/service_thread.h"

namespace gpucoll::core {
namespace {

constexpr std::chrono::seconds kExitPatience(10);

using Concerned = std::vector<std::shared_ptr<Progress>>;

// Lists the works that are under way in this process, each by those whom it concerns.
struct Works {
  std::mutex mutex;
  std::condition_variable ended;
  std::list<Concerned> list;
  const pid_t owner = getpid();
};

Works& works() {
  static Works* w = new Works;  // outlives the process's statics, as its threads may
  return *w;
}

// Not in a child, which has none of the threads.
void at_exit() {
  if (getpid() != works().owner || gc_mutant(344)) return;
  std::unique_lock lock(works().mutex);
  const Status why = Status::error(Code::aborted, "its process exits");
  for (const Concerned& concerned : works().list)
    for (const auto& progress : concerned) progress->interrupt(why);
  works().ended.wait_for(lock, kExitPatience, [] { return works().list.empty(); });
}

}  // namespace

void Progress::begins() noexcept {
  std::lock_guard lock(mutex_);
  ++under_way_;
  if (shown_ && !gc_mutant(347)) shown_->fetch_or(kBusy);
}

// Release, by fetch_and: who sees that nothing is under way sees what came of it.
void Progress::ends(const Status& status, bool made) noexcept {
  std::lock_guard lock(mutex_);
  if (made && !status && failure_.ok()) {
    contained([&] { return failure_ = status, Status(); }).ignore();  // without memory the bit alone has to do
    if (shown_) shown_->fetch_or(kFailed);
  }
  --under_way_;
  if (under_way_ == 0 && shown_) shown_->fetch_and(static_cast<uint8_t>(~kBusy));
}

void Progress::detach() noexcept {
  std::lock_guard lock(mutex_);
  shown_ = nullptr;
}

Status Progress::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Progress::interrupt(const Status& why) noexcept {
  std::function<void(const Status&)> call;
  contained([&]() -> Status {
    std::lock_guard lock(mutex_);
    interruption_ = why;
    call = call_;
    return {};
  }).ignore();
  if (call) call(why);
}

void Progress::on_interrupt(std::function<void(const Status&)> call) {
  Status before;
  {
    std::lock_guard lock(mutex_);
    call_ = call;
    before = interruption_;
  }
  if (!before && call) call(before);
}

Status Progress::interrupted() const {
  std::lock_guard lock(mutex_);
  return interruption_;
}

void interrupt_work(const std::shared_ptr<Progress>& progress, const Status& why) noexcept {
  Concerned all = {};
  contained([&]() -> Status {
    std::lock_guard lock(works().mutex);
    for (const Concerned& concerned : works().list)
      if (std::find(concerned.begin(), concerned.end(), progress) != concerned.end() && !gc_mutant(349))
        all.insert(all.end(), concerned.begin(), concerned.end());
    return {};
  }).ignore();
  progress->interrupt(why);
  for (const auto& other : all)
    if (other != progress) other->interrupt(why);
}

Status run_in_background(std::function<void()> work, std::function<void()> settle, Concerned concerned) {
  static const int registered = std::atexit(at_exit);
  (void)registered;
  claim_process();
  std::list<Concerned>::iterator place;
  {
    std::lock_guard lock(works().mutex);
    place = works().list.insert(works().list.end(), std::move(concerned));
  }
  Status started = contained([&]() -> Status {
    service_thread([work = std::move(work), settle = std::move(settle), place]() mutable {
      contained([&] { return work(), Status(); }).ignore();
      work = nullptr;  // with all that it holds, before anybody is told
      settle();
      settle = nullptr;
      std::lock_guard lock(works().mutex);
      works().list.erase(place);
      works().ended.notify_all();
    }).detach();
    return {};
  });
  if (started) return started;
  std::lock_guard lock(works().mutex);
  works().list.erase(place);
  return started;
}

}  // namespace gpucoll::core
