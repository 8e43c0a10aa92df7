#include "gpu/emu/pool.h"

#include <system_error>
#include <utility>

#include "base/fork.h"
#include "base/service_thread.h"

namespace gpucoll::gpu::emu {

namespace {

thread_local bool is_of_pool = false;

}  // namespace

Pool& Pool::instance() {
  static Pool* const pool = new Pool;
  return *pool;
}

Status Pool::reserve(int threads) {
  std::lock_guard lock(mutex_);
  idle_.reserve(static_cast<size_t>(reserved_ + threads));  // so that going idle never allocates
  while (threads_ < reserved_ + threads) GC_TRY(add_thread());
  reserved_ += threads;
  return {};
}

Status Pool::add_thread() {
  claim_process();
  try {
    service_thread([this] { serve(); }).detach();
  } catch (const std::system_error& e) {
    return Status::error(Code::out_of_memory,
                         "the emulated device cannot start thread number %d (%s); raise `ulimit -u` or lower the "
                         "parameters threads and channels",
                         threads_ + 1, e.what());
  }
  ++threads_;
  return {};
}

void Pool::unreserve(int threads) noexcept {
  std::lock_guard lock(mutex_);
  reserved_ -= threads;
}

void Pool::start(Task* task) noexcept {
  task->next = nullptr;
  std::lock_guard lock(mutex_);
  ++running_;
  if (!idle_.empty()) {
    Sleeper* sleeper = idle_.back();  // the last to fall asleep: its caches are warm
    idle_.pop_back();
    sleeper->task = task;
    sleeper->wake.notify_one();
    return;
  }
  (last_ != nullptr ? last_->next : first_) = task;
  last_ = task;
}

int Pool::threads() const {
  std::lock_guard lock(mutex_);
  return threads_;
}

bool Pool::rests() const {
  std::lock_guard lock(mutex_);
  return running_ == waiting_.load(std::memory_order_relaxed);
}

// Threads of the program wait as well, but run no task.
Pool::Waiting::Waiting() noexcept {
  if (is_of_pool) instance().waiting_.fetch_add(1, std::memory_order_relaxed);
}

Pool::Waiting::~Waiting() {
  if (is_of_pool) instance().waiting_.fetch_sub(1, std::memory_order_relaxed);
}

Task* Pool::next_task(Sleeper& me, std::unique_lock<std::mutex>& lock) {
  if (Task* task = first_; task != nullptr) {
    first_ = task->next;
    if (first_ == nullptr) last_ = nullptr;
    return task;
  }
  idle_.push_back(&me);
  me.wake.wait(lock, [&me] { return me.task != nullptr; });
  return std::exchange(me.task, nullptr);
}

void Pool::serve() {
  pthread_setname_np(pthread_self(), "gpucoll-emu");
  is_of_pool = true;
  Sleeper me;
  std::unique_lock lock(mutex_);
  for (;;) {
    Task* task = next_task(me, lock);
    const auto run = task->run;  // the task may be gone as soon as it runs
    void* const arg = task->arg;
    lock.unlock();
    run(arg);
    lock.lock();
    --running_;
  }
}

}  // namespace gpucoll::gpu::emu
