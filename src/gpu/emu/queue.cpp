#include "gpu/emu/queue.h"

#include <cstring>
#include <utility>

#include "gpu/emu/failure.h"

namespace gpucoll::gpu::emu {
namespace {

void run_now(const Copy& copy) { std::memmove(copy.dst, copy.src, copy.bytes); }

// release: partner of the acquire in the wait below, or of whoever else reads the word.
void run_now(const WriteValue& write) { proto::store_release(write.word, write.value); }

// acquire: partner of the release above, or of whoever else stores the word.
bool is_there(const WaitValue& wait) { return static_cast<int64_t>(proto::load_acquire(wait.word) - wait.value) >= 0; }

void run_now(const WaitValue& wait) {
  if (is_there(wait)) return;
  const Pool::Waiting waiting;
  while (!is_there(wait)) {
    if (wait.abort != nullptr && proto::load_acquire(wait.abort) != 0) return;
    proto::pause();
  }
}

}  // namespace

Queue::~Queue() { Pool::instance().unreserve(reserved_); }

void Queue::Launch::shape(Queue* owner, int n_blocks, int n_threads) {
  if (queue == owner && blocks == n_blocks && threads == n_threads) return;
  queue = owner;
  blocks = n_blocks;
  threads = n_threads;
  memory.clear();
  for (int b = 0; b < blocks; ++b) memory.emplace_back();
  workers.resize(static_cast<size_t>(blocks) * static_cast<size_t>(threads));
  for (size_t i = 0; i < workers.size(); ++i) {
    const int index = static_cast<int>(i), block = index / threads;
    workers[i].launch = this;
    workers[i].task = {run_thread, &workers[i], nullptr};
    BlockMemory& shared = memory[static_cast<size_t>(block)];
    workers[i].place = {block, blocks, index % threads, threads, shared.barriers, shared.shared};
  }
}

Queue::LaunchPointer Queue::take_spare() {
  if (spare_.empty()) return std::make_unique<Launch>();
  auto launch = std::move(spare_.back());
  spare_.pop_back();
  return launch;
}

Status Queue::reserve(int threads) {
  std::lock_guard lock(mutex_);
  return reserve_more(threads);
}

Status Queue::reserve_more(int threads) {
  if (threads <= reserved_) return {};
  GC_TRY(Pool::instance().reserve(threads - reserved_));
  reserved_ = threads;
  return {};
}

Status Queue::put(const Work& work) {
  return std::visit([this](const auto& one) { return put_one(one); }, work);
}

Status Queue::put_one(const KernelLaunch& work) {
  std::lock_guard lock(mutex_);
  GC_TRY(reserve_more(work.blocks * work.threads));
  LaunchPointer launch = take_spare();
  launch->function = work.function;
  launch->plan = work.plan;
  launch->shape(this, work.blocks, work.threads);
  launch->turn = BlockLimit::instance().take_turn();
  push(std::move(launch));
  return {};
}

Status Queue::put_one(const RecordEvent& record) {
  record.event->set(mark());
  return {};
}

Status Queue::put_mark(Mark mark) {
  if (mark.queue == nullptr || mark.queue.get() == this) return {};
  return put_entry(std::move(mark));
}

Status Queue::put_entry(Entry entry) {
  std::lock_guard lock(mutex_);
  GC_TRY(reserve_more(1));
  push(std::move(entry));
  return {};
}

Mark Queue::mark() {
  std::lock_guard lock(mutex_);
  if (put_ == ended_) return {};  // nothing to wait for, and no reason to keep the queue
  return {shared_from_this(), put_};
}

void Queue::push(Entry entry) {
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

bool Queue::has_ended(uint64_t count) {
  std::lock_guard lock(mutex_);
  return ended_ >= count;
}

void Queue::close() {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [this] { return !active_; });
  Pool::instance().unreserve(std::exchange(reserved_, 0));
}

void Queue::wait_until(uint64_t count) {
  std::unique_lock lock(mutex_);
  if (ended_ >= count) return;
  const Pool::Waiting waiting;
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
    LaunchPointer launch = queue.run(std::move(entry));
    lock.lock();
    if (launch) queue.spare_.push_back(std::move(launch));
    ++queue.ended_;
    queue.progress_.notify_all();
  }
  queue.active_ = false;
  queue.progress_.notify_all();
  keep = std::move(queue.self_);
  lock.unlock();
}

// Releases what the entry owns before the entry has ended, and not under the lock. Gives back a launch to be used
// again.
Queue::LaunchPointer Queue::run(Entry entry) {
  const bool dropped = has_failed(device_);
  if (auto* launch = std::get_if<LaunchPointer>(&entry)) {
    if (dropped)
      drop_launch(**launch);
    else
      run_launch(**launch);
    return std::move(*launch);
  }
  if (dropped) return nullptr;
  if (const auto* mark = std::get_if<Mark>(&entry)) mark->queue->wait_until(mark->until);
  if (const auto* copy = std::get_if<Copy>(&entry)) run_now(*copy);
  if (const auto* write = std::get_if<WriteValue>(&entry)) run_now(*write);
  if (const auto* wait = std::get_if<WaitValue>(&entry)) run_now(*wait);
  return nullptr;
}

// Others wait until it has had its turn.
void Queue::drop_launch(Launch& launch) {
  BlockLimit::instance().enter(launch.turn, launch.blocks);
  BlockLimit::instance().leave(launch.blocks);
}

void Queue::run_launch(Launch& launch) {
  BlockLimit::instance().enter(launch.turn, launch.blocks);
  // relaxed: the pool's lock hands it to the other threads.
  launch.running.store(static_cast<int>(launch.workers.size()), std::memory_order_relaxed);
  for (size_t i = 1; i < launch.workers.size(); ++i) Pool::instance().start(&launch.workers[i].task);
  run_thread(&launch.workers[0]);
  // acquire: partner of finish(); what the kernel wrote is visible to whoever synchronises.
  const auto has_ended = [&] { return launch.running.load(std::memory_order_acquire) == 0; };
  if (std::unique_lock lock(mutex_); !has_ended()) {
    const Pool::Waiting waiting;
    progress_.wait(lock, has_ended);
  }
  BlockLimit::instance().leave(launch.blocks);
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
