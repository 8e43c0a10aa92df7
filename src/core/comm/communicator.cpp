#include "core/comm/communicator.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/environment.h"
#include "base/fork.h"
#include "base/monotonic.h"
#include "base/mutant.h"
#include "base/observe/trace.h"
#include "base/params.h"
#include "core/plan/copy_items.h"
#include "core/plan/tuning_file.h"

namespace gpucoll::core {
namespace {

// A rank's arguments in a split.
struct SplitChoice {
  int32_t color, key;
  uint64_t shares, last_share;
};

// The ranks of a color in the order of their new ranks.
std::vector<int> members_of(int color, const std::vector<SplitChoice>& choices) {
  std::vector<int> members;
  for (size_t r = 0; r < choices.size(); ++r)
    if (choices[r].color == color) members.push_back(static_cast<int>(r));
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return choices[static_cast<size_t>(a)].key < choices[static_cast<size_t>(b)].key;
  });
  return members;
}

// The number of one more share, where the members are all ranks in their own order and all of them share; else 0.
uint64_t new_share(const std::vector<int>& members, const std::vector<SplitChoice>& choices) {
  uint64_t last = 0;
  for (size_t r = 0; r < choices.size(); ++r) {
    if (!choices[r].shares || r >= members.size() || members[r] != static_cast<int>(r)) return 0;
    last = std::max(last, choices[r].last_share);
  }
  return last + 1;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(gpu::Device& device, const Kernels& kernels,
                                                           net::Bootstrap& bootstrap,
                                                           const Surroundings& surroundings) {
  trace::start();
  claim_process();
  std::unique_ptr<Communicator> self(new Communicator(device, kernels, surroundings.options));
  const std::string& name = surroundings.options.name;
  self->causes_ = surroundings.causes ? surroundings.causes
                                      : std::make_shared<CauseLog>((name.empty() ? "a communicator" : name) + " of " +
                                                                   std::to_string(bootstrap.size()) + " ranks");
  if (bootstrap.rank() == 0) warn_of_unknown_variables();
  // All that can fail on this rank alone comes before the exchange, where the others learn of it.
  const TuningTable* table = nullptr;
  Status mine = contained([&]() -> Status {
    GC_TRY(params_status());
    GC_TRY_AS(table, tuning_table(device.is_emulated(), bootstrap.size()));
    GC_TRY(self->allocate());
    self->device_state_ = DeviceWatch::instance().watch(device);
    Watchdog::instance().add(self.get());
    return {};
  });
  GC_TRY_AS(self->peers_, Peers::exchange(bootstrap, device, mine, surroundings));
  self->fault_.attach(&self->words_->latch, &self->peers_.own_page(), self->peers_.name(self->rank()), name,
                      [peers = &self->peers_] { peers->publish(); });
  self->graphs_.attach(&self->peers_.own_page());
  // The others are through with their part: they learn of a failure from this rank's page.
  if (Status prepared = contained([&]() -> Status {
        self->prepare(table);
        return {};
      });
      !prepared) {
    self->fault_.raise(prepared);
    return prepared;
  }
  if (trace::on() && !name.empty()) trace::name_group(self->key(), self->rank(), self->size(), name.c_str());
  self->watchable_.store(true, std::memory_order_release);  // partner: check()
  return self;
}

Result<Communicator::Part> Communicator::split(int color, int key, bool share, const CommOptions& options) {
  const Callers::Inside inside(callers_);
  if (fault().raised()) return fault_.status();
  PeerWait wait(fault_, peers_, nullptr);
  const SplitChoice mine = {color, key, share, last_share_};
  std::vector<SplitChoice> choices(static_cast<size_t>(size()));
  MailboxBootstrap all(connections_->mailbox(), wait, Purpose::split, peers_);
  Status status = all.allgather(&mine, choices.data(), sizeof mine);
  if (!status) {
    fault_.raise(status);  // the messages of the ranks are out of step now
    return status;
  }
  if (color < 0) return Part();
  const std::vector<int> members = members_of(color, choices);
  if (const uint64_t number = new_share(members, choices)) {
    last_share_ = number;
    return Part{nullptr, number};
  }
  const auto place = std::find(members.begin(), members.end(), rank()) - members.begin();
  MailboxBootstrap some(connections_->mailbox(), wait, Purpose::split, members, static_cast<int>(place));
  auto child = create(device_, kernels_, some, {{}, {}, nullptr, options});
  if (!child && some.broken()) fault_.raise(child.status());
  Part part;
  GC_TRY_AS(part.own, std::move(child));
  return part;
}

Status Communicator::can_meet(const std::vector<int>& some, bool after_fault) {
  if (given_up_.load(std::memory_order_relaxed) && !gc_mutant(222))
    return Status::error(Code::aborted, "rank %d has aborted the communicator while it was being shrunk",
                         peers_.number(rank()));
  if (!after_fault && fault().raised() && !gc_mutant(223)) return fault_.status();
  for (int member : some)
    if (peers_.dead(member) && !gc_mutant(224))
      return Status::error(Code::remote, "rank %d cannot shrink the communicator with %s, which has died",
                           peers_.number(rank()), peers_.name(member).c_str());
  return {};
}

Result<uint64_t> Communicator::hand_out(const std::vector<int>& some, proto::UniqueId* id, bool after_fault,
                                        const std::function<Status()>& watch) {
  const Callers::Inside inside(callers_);
  return ids_->hand_out(some, id, [&]() -> Status {
    GC_TRY(watch());
    return can_meet(some, after_fault);
  });
}

Status Communicator::allocate() {
  for (const gpu::Kernel& kernel : kernels_.all) GC_TRY(device_.prepare(kernel));
  return words_.allocate();
}

Communicator::~Communicator() {
  Watchdog::instance().remove(this);
  if (watchable_) __atomic_store_n(&peers_.own_page().pulse.beat_ns, uint64_t{0}, __ATOMIC_RELAXED);
  fault_.attach(nullptr, nullptr);
  graphs_.attach(nullptr);
  resident_.reset();
  launcher_.reset();
  copies_.reset();
  user_buffers_.reset();
  connections_.reset();
}

// An inode is unlike others of its node.
uint64_t Communicator::key() const {
  uint64_t node;
  std::memcpy(&node, peers_.info(0).node, sizeof node);
  return peers_.info(0).control_inode ^ node;
}

bool Communicator::has_peers_in_this_process() const noexcept {
  for (int r = 0; r < size(); ++r)
    if (r != rank() && peers_.in_this_process(r)) return true;
  return false;
}

Status Communicator::reserve_aside(const TaskQueue& queue) {
  const size_t bytes = bytes_aside(queue, size());
  if (bytes == 0) return {};
  Status reserved = workspace_.reserve_aside(bytes, in_graphs());
  if (!reserved) raise_fault(reserved);  // the peers would wait for this rank's part
  return reserved;
}

void Communicator::put_aside(TaskQueue* queue) const {
  core::put_aside(queue, size(), workspace_.aside(), kernels_.packing);
}

PlanCache::Hit Communicator::kept(const TaskQueue& queue, const CommProperties& shape) const {
  return launcher_ ? launcher_->kept(queue, shape) : PlanCache::Hit();
}

Status Communicator::begin_anew(const TaskQueue& queue, const CommProperties& shape, bool waits) {
  const trace::Span span(trace::What::plan);
  const Callers::Inside inside(callers_);
  if (fault().raised()) return fault_.status();
  if (!launcher_) GC_TRY(make_launcher());
  connections_->count(queue, shape.capturing);
  if (copies_ && !shape.capturing) {
    GC_TRY_AS(CopyEngines::Taken taken, copies_->take(queue, shape));
    if (taken.ops) return launcher_->begin(*taken.rest, shape, taken.ops, std::move(taken.steps));
  }
  if (waits && resident_) resident_->call_begins(ResidentKernel::Clock::now());
  return launcher_->begin(queue, shape, nullptr, {}, waits);
}

Result<bool> Communicator::begin_again(const PlanCache::Hit& kept, bool waits) {
  const Callers::Inside inside(callers_);
  if (fault().raised()) return fault_.status();
  const TaskQueue* const queue = launcher_->begin_kept(kept, waits);
  if (!queue) return false;
  connections_->count(*queue, false);
  if (copies_) GC_TRY(copies_->count_messages(*queue));
  if (waits && resident_) resident_->call_begins(ResidentKernel::Clock::now());
  return true;
}

// Has the proxy move steps from now on. Behind a kernel's launch, another call of the device's runtime may wait until a
// cudaFree of another thread returns, which waits until that kernel ends, which waits for its steps.
void Communicator::begin_launching() noexcept {
  if (gc_mutant(610)) return;
  launching_.store(true, std::memory_order_release);  // before the proxy is woken; partner: activity()
  connections_->links().wake();
}

Result<bool> Communicator::advance(bool holds_end) {
  const trace::Span span(trace::What::launch);
  const Callers::Inside inside(callers_);
  begin_launching();
  auto all = contained([&] { return launcher_->advance(holds_end); });
  launched_.store(launcher_->launched(), std::memory_order_release);  // partner: activity()
  launching_.store(false, std::memory_order_release);
  if (gc_mutant(610)) connections_->links().wake();
  // The peers have launched their part, or will: they must not wait for this rank's.
  if (!all) fault_.raise(all.status());
  return all;
}

Status Communicator::repeat(const PlanCache::Hit& kept) {
  Status begun = contained([&]() -> Status {
    GC_TRY_AS(const bool kept_still, begin_again(kept, false));
    if (kept_still) return {};
    return Status::error(Code::internal, "rank %d has lost an operation that it keeps", peers_.number(rank()));
  });
  if (!begun) {
    raise_fault(begun);
    return begun;
  }
  for (;;) {
    GC_TRY_AS(const bool all, advance());
    if (all) return {};
    sched_yield();
  }
}

Status Communicator::run(const TaskQueue& queue, void (*idle)()) {
  const Callers::Inside inside(callers_);
  GC_TRY_AS(CommProperties now, shape(queue.streams));
  const Requirements required = required_by(queue, rank(), now);
  if (!connected(required)) {
    GC_TRY(connect(required, idle));
    GC_TRY_AS(now, shape(queue.streams));
  }
  GC_TRY(begin(queue, now));
  for (;;) {
    GC_TRY_AS(const bool all, advance());
    if (all) return {};
    if (idle) idle();
    sched_yield();
  }
}

bool Communicator::done(uint64_t launches) const noexcept { return words_.done() >= launches && copies_passed(); }

Status Communicator::wait(uint64_t launches, void (*idle)()) {
  const trace::Span span(trace::What::device);
  GC_TRY(await(launches, idle, true, 0));
  if (resident_) resident_->call_ends(ResidentKernel::Clock::now());
  return {};
}

Status Communicator::await(uint64_t launches, void (*idle)(), bool looks, int64_t since_ns) {
  constexpr int kLooksPerIdle = 64;
  const int64_t grace = grace_ns(looks);
  const bool polite = device_.is_emulated();
  for (int look = 0; !done(launches); ++look) {
    if (looks && launcher_)
      if (Status put = launcher_->look(); !put) {
        launched_.store(launcher_->launched(), std::memory_order_release);  // partner: activity()
        raise_fault(put);                                                   // the peers have launched their part
        return put;
      }
    if (polite) sched_yield();
    if (look % kLooksPerIdle) continue;
    if (idle) idle();
    look_at_device();
    if (!fault().raised()) continue;
    if (device_failed() || fault_.age_ns(since_ns) > grace) break;
  }
  return fault().status();
}

// For kernels to leave once the latch is set. Who gives the communicator back does not wait for those that have not
// begun, behind other work that may be stuck: their memory stays until they have left (reclaim.cpp). Kernels that run
// leave in microseconds, on the emulated device when the host gives their threads time.
int64_t Communicator::grace_ns(bool looks) const noexcept {
  constexpr int64_t kWhole = 10'000'000'000, kOnGpus = 2'000'000'000, kEmulated = 3'000'000'000;
  if (looks || gc_mutant(424)) return kWhole;
  return device_.is_emulated() ? kEmulated : kOnGpus;
}

Status Communicator::may_launch() noexcept {
  return contained([&]() -> Status {
    if (closing_)
      return Status::error(Code::invalid_usage,
                           "the graph has operations of a communicator (its rank %d of %d) that was destroyed, "
                           "finalised or aborted: launch it only while the communicator is there",
                           rank(), size());
    return fault().status();
  });
}

void Communicator::raise_fault(const Status& status) noexcept {
  contained([&]() -> Status {
    if (status.code() == Code::remote && watchable_.load(std::memory_order_acquire))
      if (Status told = peers_.check(); told.code() == Code::truncated) fault_.raise(told);
    return {};
  }).ignore();
  fault_.raise(status);  // the first one counts
}

void Communicator::revoke() {
  raise_fault(Status::error(Code::invalid_usage,
                            "%s has revoked the communicator: it can only be shrunk, destroyed or aborted",
                            peers_.name(rank()).c_str())
                  .blaming());
}

}  // namespace gpucoll::core
