#include "gpu/emu/queue.h"

#include <utility>

namespace gpucoll::gpu::emu {

Queue::~Queue() { Pool::instance().unreserve(reserved_); }

void Queue::Launch::shape(Queue* owner, int n_blocks, int n_threads) {
  if (queue == owner && blocks == n_blocks && threads == n_threads) return;
  queue = owner;
  blocks = n_blocks;
  threads = n_threads;
  memory.clear();
  for (int b = 0; b < blocks; ++b) memory.emplace_back();
  crew.resize(static_cast<size_t>(blocks) * static_cast<size_t>(threads));
  for (size_t i = 0; i < crew.size(); ++i) {
    const int index = static_cast<int>(i), block = index / threads;
    crew[i].launch = this;
    crew[i].task = {run_thread, &crew[i], nullptr};
    BlockMemory& shared = memory[static_cast<size_t>(block)];
    crew[i].place = {block, blocks, index % threads, threads, shared.barriers, shared.shared};
  }
}

std::unique_ptr<Queue::Launch> Queue::take_spare() {
  if (spare_.empty()) return std::make_unique<Launch>();
  auto launch = std::move(spare_.back());
  spare_.pop_back();
  return launch;
}

Status Queue::reserve(int threads) {
  if (threads <= reserved_) return {};
  GC_TRY(Pool::instance().reserve(threads - reserved_));
  reserved_ = threads;
  return {};
}

Status Queue::launch(KernelFunction function, const proto::Plan& plan, int blocks, int threads) {
  std::lock_guard lock(mutex_);
  GC_TRY(reserve(blocks * threads));
  Entry entry;
  entry.launch = take_spare();
  entry.launch->function = function;
  entry.launch->plan = plan;
  entry.launch->shape(this, blocks, threads);
  put(std::move(entry));
  return {};
}

Status Queue::wait_for(const std::shared_ptr<Queue>& other) {
  if (other.get() == this) return {};
  Entry entry;
  {
    std::lock_guard lock(other->mutex_);
    if (other->put_ == other->ended_) return {};
    entry.until = other->put_;
  }
  entry.other = other;
  std::lock_guard lock(mutex_);
  GC_TRY(reserve(1));
  put(std::move(entry));
  return {};
}

void Queue::put(Entry entry) {
  entries_.push_back(std::move(entry));
  ++put_;
  if (active_) return;
  active_ = true;
  self_ = shared_from_this();
  drain_task_ = {drain, this, nullptr};
  Pool::instance().start(&drain_task_);
}

void Queue::synchronize() {
  uint64_t until;
  {
    std::lock_guard lock(mutex_);
    until = put_;
  }
  wait_until(until);
}

void Queue::close() {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [this] { return !active_; });
  Pool::instance().unreserve(std::exchange(reserved_, 0));
}

void Queue::wait_until(uint64_t count) {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] { return ended_ >= count; });
}

void Queue::drain(void* self) {
  Queue& queue = *static_cast<Queue*>(self);
  std::shared_ptr<Queue> keep;  // destroyed after the lock
  std::unique_lock lock(queue.mutex_);
  while (!queue.entries_.empty()) {
    Entry entry = std::move(queue.entries_.front());
    queue.entries_.pop_front();
    lock.unlock();
    queue.run(entry);
    entry.other.reset();  // may be the last owner: not under the lock
    lock.lock();
    if (entry.launch) queue.spare_.push_back(std::move(entry.launch));
    ++queue.ended_;
    queue.progress_.notify_all();
  }
  queue.active_ = false;
  queue.progress_.notify_all();
  keep = std::move(queue.self_);
  lock.unlock();
}

void Queue::run(Entry& entry) {
  if (entry.launch) return run_launch(*entry.launch);
  entry.other->wait_until(entry.until);
}

void Queue::run_launch(Launch& launch) {
  // relaxed: the pool's lock hands it to the other threads.
  launch.running.store(static_cast<int>(launch.crew.size()), std::memory_order_relaxed);
  for (size_t i = 1; i < launch.crew.size(); ++i) Pool::instance().start(&launch.crew[i].task);
  run_thread(&launch.crew[0]);
  std::unique_lock lock(mutex_);
  // acquire: partner of finish(); what the kernel wrote is visible to whoever synchronises.
  progress_.wait(lock, [&] { return launch.running.load(std::memory_order_acquire) == 0; });
}

void Queue::run_thread(void* thread) {
  auto& me = *static_cast<Launch::Thread*>(thread);
  Launch& launch = *me.launch;
  launch.function(me.place, launch.plan);
  launch.queue->finish(launch);
}

void Queue::finish(Launch& launch) {
  // Under the lock, so that nobody destroys the queue between the count and the wake-up. release: see run_launch().
  std::lock_guard lock(mutex_);
  if (launch.running.fetch_sub(1, std::memory_order_acq_rel) == 1) progress_.notify_all();
}

}  // namespace gpucoll::gpu::emu
