#include "core/comm/communicator.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/environment.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/log.h"
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

bool tells_closing(const Peers& peers) noexcept {
  return __atomic_load_n(&peers.own_page().closing, __ATOMIC_RELAXED) != 0;
}

uint64_t hash_of(const std::vector<int>& ranks) {
  uint64_t hash = 0;
  for (int rank : ranks) hash = hash_combine(hash, static_cast<uint64_t>(rank) + 1);
  return hash;
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
  Status mine = contained([&]() -> Status {
    GC_TRY(params_status());
    GC_TRY_AS(self->capabilities_.table, tuning_table(self->emulated(), bootstrap.size()));
    GC_TRY(self->allocate());
    self->device_state_ = DeviceWatch::instance().watch(device);
    Watchdog::instance().add(self.get());
    return {};
  });
  GC_TRY_AS(self->peers_, Peers::exchange(bootstrap, device, mine, surroundings));
  self->fault_.attach(&self->words()->latch, &self->peers_.own_page(), self->peers_.name(self->rank()), name);
  self->hold_.attach(&self->peers_.own_page().held);
  // The others are through with their part: they learn of a failure from this rank's page.
  if (Status prepared = contained([&] { return self->prepare(); }); !prepared) {
    self->fault_.raise(prepared);
    self->peers_.publish();
    return prepared;
  }
  if (trace::on() && !name.empty()) trace::name_group(self->key(), self->rank(), self->size(), name.c_str());
  self->watchable_.store(true, std::memory_order_release);  // partner: check()
  return self;
}

Result<Communicator::Part> Communicator::split(int color, int key, bool share, const CommOptions& options) {
  const User user(users_);
  if (fault().raised()) return fault_.status();
  PeerWait wait(fault_, peers_, nullptr);
  const SplitChoice mine = {color, key, share, last_share_};
  std::vector<SplitChoice> choices(static_cast<size_t>(size()));
  MailboxBootstrap all(*mailbox_, wait, Purpose::split, peers_);
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
  MailboxBootstrap some(*mailbox_, wait, Purpose::split, members, static_cast<int>(place));
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

// Keeps a letter to other ranks: it may be of the attempt that this rank makes next.
bool Communicator::is_handed(const std::vector<int>& some) {
  const int first = some.front();
  if (first == rank()) return false;
  WireupMessage message;
  if (mailbox_->poll_latest(first, proto::kLaneSurvivors, &message)) letters_[first] = message.as<HandedOut>();
  const auto letter = letters_.find(first);
  return letter != letters_.end() && letter->second.members == hash_of(some);
}

// An id that follows one which was not in vain is for the next call: the first rank may be through with this one.
bool Communicator::handed_anew(const std::vector<int>& some, uint64_t number) {
  return is_handed(some) && (letters_.at(some.front()).in_vain >= number || gc_mutant(227));
}

Result<uint64_t> Communicator::hand_out(const std::vector<int>& some, proto::UniqueId* id, bool after_fault,
                                        const std::function<Status()>& watch) {
  constexpr timespec kNap = {0, 50'000};
  constexpr int kLooksPerCheck = 64;
  const User user(users_);
  const int first = some.front();
  if (first == rank()) {
    const auto letter = WireupMessage::of(HandedOut{hash_of(some), ++handed_out_, in_vain_, *id});
    for (int member : some)
      if (member != first) GC_TRY(mailbox_->post(member, proto::kLaneSurvivors, letter));
    return handed_out_;
  }
  const auto start = RunningClock::now();
  for (int look = 1; !is_handed(some); ++look) {
    nanosleep(&kNap, nullptr);
    if (look % kLooksPerCheck != 0) continue;
    GC_TRY(watch());
    GC_TRY(can_meet(some, after_fault));
    if (peers_.closing(first))
      return Status::error(Code::remote,
                           "rank %d waits for %s to shrink the communicator with it, which has finalised, destroyed or "
                           "aborted the communicator",
                           peers_.number(rank()), peers_.name(first).c_str());
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(RunningClock::now() - start).count();
    if (peers_.timeout() && waited >= peers_.timeout())
      return Status::error(Code::timed_out,
                           "rank %d has waited %lld s (parameter timeout) for %s to shrink the communicator with it, "
                           "which may have left out other ranks",
                           peers_.number(rank()), static_cast<long long>(waited), peers_.name(first).c_str());
  }
  const HandedOut letter = letters_.extract(first).mapped();
  *id = letter.id;
  return letter.number;
}

Status Communicator::allocate() {
  for (const gpu::Kernel& kernel : kernels_.all) GC_TRY(device_.prepare(kernel));
  GC_TRY_AS(host_, device_.allocate_host(sizeof(HostWords)));
  return {};
}

Communicator::~Communicator() {
  Watchdog::instance().remove(this);
  if (watchable_) __atomic_store_n(&peers_.own_page().pulse.beat_ns, uint64_t{0}, __ATOMIC_RELAXED);
  fault_.attach(nullptr, nullptr);
  hold_.attach(nullptr);
  resident_.reset();
  if (stream_) device_.destroy_stream(stream_).ignore();
  launcher_.reset();
  copy_reduction_.reset();
  copies_.reset();
  pages_.reset();
  user_buffers_.reset();
  tables_.reset();
  links_.reset();
  mesh_.reset();
  line_mesh_.reset();
  landing_mesh_.reset();
  if (scratch_) device_.release(scratch_);
  if (host_.host) device_.release_host(host_);
}

// An inode is unlike others of its node.
uint64_t Communicator::key() const {
  uint64_t node;
  std::memcpy(&node, peers_.info(0).node, sizeof node);
  return peers_.info(0).control_inode ^ node;
}

bool Communicator::emulated() const { return !std::strcmp(device_.identity().kind, "emu"); }

bool Communicator::has_peers_in_this_process() const noexcept {
  for (int r = 0; r < size(); ++r)
    if (r != rank() && peers_.in_this_process(r)) return true;
  return false;
}

const Fault& Communicator::fault() noexcept {
  if (!fault_.raised()) look_at_report();
  return fault_;
}

Status Communicator::reserve_aside(const TaskQueue& queue) {
  const size_t bytes = bytes_aside(queue, size());
  if (bytes == 0) return {};
  Status reserved = aside_.reserve(device_, bytes, in_graphs());
  if (!reserved) raise_fault(reserved);  // the peers would wait for this rank's part
  return reserved;
}

void Communicator::put_aside(TaskQueue* queue) const {
  core::put_aside(queue, size(), aside_.memory(), kernels_.packing);
}

PlanCache::Hit Communicator::kept(const TaskQueue& queue, const CommProperties& shape) const {
  return launcher_ ? launcher_->kept(queue, shape) : PlanCache::Hit();
}

// The copy path counts all messages, whichever way they go.
Status Communicator::count_messages(const TaskQueue& queue) {
  const bool counts = copies_ && !(queue.sends.empty() && queue.recvs.empty());
  return counts && !gc_mutant(480) ? copies_->count_messages(queue) : Status();
}

// Before the launch, so that what waits is counted.
void Communicator::count_for_ends(const TaskQueue& queue, bool captured) noexcept {
  if (message_counts_) message_counts_->count(queue, captured);
}

Status Communicator::begin(const TaskQueue& queue, const CommProperties& shape, bool waits, PlanCache::Hit kept) {
  const trace::Span span(trace::What::plan, !kept);
  const User user(users_);
  if (fault().raised()) return fault_.status();
  if (!launcher_) GC_TRY(make_launcher());
  count_for_ends(queue, shape.capturing);
  if (copies_ && !shape.capturing && !kept) {
    parts_.clear();
    std::vector<PlannedLaunch> steps;
    bool reduces = false, moves = false;
    if (copy_reduction_) {
      GC_TRY_AS(reduces, copy_reduction_->begin(queue, shape, &steps));
    }
    if (!queue.sends.empty() || !queue.recvs.empty()) {
      GC_TRY_AS(moves, copies_->begin(queue, &without_copies_));
    }
    if (reduces) parts_.add(*copy_reduction_);
    if (moves) parts_.add(*copies_);
    if (!parts_.empty()) return launcher_->begin(moves ? without_copies_ : queue, shape, &parts_, std::move(steps));
  }
  if (waits && resident_) resident_->call_begins(ResidentKernel::Clock::now());
  // A kept queue has no message for copy engines, also where it has made room for another one since.
  if (kept) GC_TRY(count_messages(queue));
  if (kept && launcher_->begin_kept(kept, waits)) return {};
  return launcher_->begin(queue, shape, nullptr, {}, waits);
}

Result<bool> Communicator::advance() {
  const trace::Span span(trace::What::launch);
  const User user(users_);
  auto all = contained([&] { return launcher_->advance(); });
  launched_.store(launcher_->launched(), std::memory_order_release);  // partner: activity()
  links_->wake();
  // The peers have launched their part, or will: they must not wait for this rank's.
  if (!all) fault_.raise(all.status());
  return all;
}

bool Communicator::may_repeat(PlanCache::Hit kept, gpu::Stream stream) const {
  if (!is_kept(kept)) return false;
  if (!stream) return true;  // the default stream is never captured
  const auto capture = device_.capture_of(stream);
  return capture && *capture == 0;
}

Status Communicator::repeat(PlanCache::Hit kept) {
  {
    const User user(users_);
    if (fault().raised()) return fault_.status();
    Status begun = contained([&]() -> Status {
      if (const TaskQueue* queue = launcher_->begin_kept(kept, false)) {
        count_for_ends(*queue, false);
        return count_messages(*queue);
      }
      return Status::error(Code::internal, "rank %d has lost an operation that it keeps", peers_.number(rank()));
    });
    if (!begun) {
      raise_fault(begun);
      return begun;
    }
  }
  for (;;) {
    GC_TRY_AS(const bool all, advance());
    if (all) return {};
    sched_yield();
  }
}

Status Communicator::run(const TaskQueue& queue, void (*idle)()) {
  const User user(users_);
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

Result<gpu::Stream> Communicator::stream() {
  if (!stream_) {
    GC_TRY_AS(stream_, device_.create_stream());
  }
  return stream_;
}

Result<uint8_t*> Communicator::scratch() {
  if (!scratch_) {
    GC_TRY_AS(scratch_, device_.allocate(kScratchBytes));
  }
  return static_cast<uint8_t*>(scratch_);
}

bool Communicator::done(uint64_t launches) const noexcept {
  // Acquire: partner is the release of the done word by the kernel's last block.
  return __atomic_load_n(&words()->done, __ATOMIC_ACQUIRE) >= launches && copies_passed();
}

Status Communicator::wait(uint64_t launches, void (*idle)()) {
  const trace::Span span(trace::What::device);
  GC_TRY(await(launches, idle, true));
  if (resident_) resident_->call_ends(ResidentKernel::Clock::now());
  return {};
}

Status Communicator::await(uint64_t launches, void (*idle)(), bool looks) {
  constexpr int kLooksPerIdle = 64;
  const int64_t grace = grace_ns(looks);
  const bool polite = emulated();
  int64_t fault_seen = 0;
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
    if (device_failed()) break;
    if (!fault_seen) fault_seen = monotonic_ns();
    if (monotonic_ns() - fault_seen > grace) break;
  }
  return fault().status();
}

// For kernels to leave once the latch is set. Who gives the communicator back does not wait for those that have not
// begun, behind other work that may be stuck: their memory stays until they have left (reclaim.cpp). Kernels that run
// leave in microseconds, on the emulated device when the host gives their threads time.
int64_t Communicator::grace_ns(bool looks) const noexcept {
  constexpr int64_t kWhole = 10'000'000'000, kOnGpus = 2'000'000'000, kEmulated = 3'000'000'000;
  if (looks || gc_mutant(424)) return kWhole;
  return emulated() ? kEmulated : kOnGpus;
}

void Communicator::begin_close() noexcept {
  if (closing_) return;
  begun_at_end_ = begun_in_graphs();
  __atomic_store_n(&peers_.own_page().begun, begun_at_end_, __ATOMIC_RELAXED);  // before tell_closing()
  closing_ = true;
  const bool orderly = !fault_.raised();
  if (orderly || has_left()) tell_closing();  // else the watchdog does, when they have
  if (orderly) links_->finish();              // peers that rest receive once they know
}

void Communicator::tell_closing() noexcept {
  // Release: all that our kernels wrote into peers' memory has been written. Partner: Peers::closing.
  __atomic_store_n(&peers_.own_page().closing, 1u, __ATOMIC_RELEASE);
  peers_.publish();
}

bool Communicator::peers_closed() const noexcept { return are_peers_done(true); }
bool Communicator::peers_rest() const noexcept { return are_peers_done(false); }

bool Communicator::are_peers_done(bool with_graphs) const noexcept {
  // After a fault, copies into landing memory still come until they have left. Kernels of this process, too, and those
  // of graphs may be launched again: they reach this rank's memory at its own address.
  const bool lands = watched_reduction() != nullptr;
  for (int r = 0; r < size(); ++r) {
    if (!reached_by(r) || (!with_graphs && fault_.raised() && peers_.silent(r))) continue;
    const bool held = peers_.held(r);
    const bool until_left = lands || held || peers_.in_this_process(r);
    if (!(until_left ? peers_.left(r) : peers_.gone(r)) || (held && with_graphs)) return false;
  }
  return true;
}

// After a fault: peers whose kernels have not left yet may still store into this rank's buffers, which its program may
// free next. Each learns of the fault from its watchdog, its kernels leave when they next wait, and its watchdog tells.
void Communicator::await_peers() const noexcept {
  constexpr int64_t kPatienceNs = 2'000'000'000;
  constexpr timespec kNap = {0, 1'000'000};
  const int64_t end = monotonic_ns() + kPatienceNs;
  const auto all_left = [this] {
    for (int r = 0; r < size(); ++r)
      if (reached_by(r) && !peers_.left(r) && !peers_.silent(r)) return false;
    return true;
  };
  while (!all_left() && monotonic_ns() < end) nanosleep(&kNap, nullptr);
}

bool Communicator::has_left() const noexcept {
  const CopyReduction* const reduction = watched_reduction();
  return unused() && !(reduction && reduction->putting()) && ended();
}

// A caller that comes in from now on sees the fault and launches nothing.
void Communicator::tell_that_all_have_left() noexcept {
  if (!has_left()) return;
  __atomic_store_n(&peers_.own_page().left, 1u, __ATOMIC_RELEASE);  // partner: Peers::left
  if (closing_ && !tells_closing(peers_)) tell_closing();
}

// Waits for callers that are still inside after a fault, and see it soon; bounded, as the driver may hold one up.
void Communicator::await_users() const noexcept {
  constexpr timespec kNap = {0, 50'000};
  const int64_t end = monotonic_ns() + grace_ns(false);
  while (users_.load(std::memory_order_acquire) != 0 && monotonic_ns() < end) nanosleep(&kNap, nullptr);
}

Status Communicator::settle(void (*idle)()) {
  await(launched(), idle, false).ignore();
  if (gc_mutant(145) == 0) compare_calls();
  Status status = gc_mutant(141) != 0 ? fault().status() : await_graphs(idle);
  if (!status && user_buffers_ && user_buffers_->has_granted()) await_peers();
  return status;
}

Status Communicator::finish(void (*idle)()) {
  if (closing_) return fault().status();
  const uint64_t before = launched();
  Status status = settle(idle);
  // Another thread may have been about to launch when the fault was raised.
  if (fault().raised() && !gc_mutant(425)) {
    await_users();
    if (launched() != before) await(launched(), idle, false).ignore();
  }
  end_graphs();
  begin_close();
  return status;
}

uint32_t Communicator::running_in_graphs() const noexcept { return running_launches(words()->in_graphs); }

// Waits for the launches of graphs that have begun, and, unless the communicator has failed, for those that have been
// asked for: after a fault, what begins ends at once. What never ends is left to the watchdog, which raises a fault.
Status Communicator::await_graphs(void (*idle)()) {
  constexpr int64_t kGraceNs = 10'000'000'000;  // for kernels to leave once the latch is set
  constexpr timespec kNap = {0, 50'000};
  const int64_t begin = monotonic_ns(), patience = peers_.timeout();
  for (int64_t fault_seen = 0;;) {
    look_at_device();
    const bool failed = fault().raised();
    if (device_failed()) break;
    if (running_in_graphs() == 0 && (failed || !launcher_ || launcher_->rests())) break;
    if (failed && fault_seen == 0) fault_seen = monotonic_ns();
    if (failed && monotonic_ns() - fault_seen > kGraceNs) break;
    if (running_in_graphs() == 0 && patience && (monotonic_ns() - begin) / 1'000'000'000 > patience) break;
    if (idle) idle();
    nanosleep(&kNap, nullptr);
  }
  return fault().status();
}

// Launches of graphs end at once from now on: they find the latch as after a fault.
void Communicator::end_graphs() noexcept {
  if (!in_graphs() || !words()) return;
  __atomic_store_n(&words()->latch.abort, 1u, __ATOMIC_RELAXED);
  hold_.end();
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

// By the watchdog: tells the peers, and the program where it has launched a graph that it should not.
void Communicator::look_at_graphs() noexcept {
  hold_.tell();
  const uint64_t begun = begun_in_graphs();
  __atomic_store_n(&peers_.own_page().begun, begun, __ATOMIC_RELAXED);  // for reports
  if (!closing_ || begun == begun_at_end_ || std::exchange(late_graph_told_, true)) return;
  log::write(log::Level::error,
             "rank %d has launched a graph with operations of a communicator that it has destroyed or aborted: they "
             "moved nothing; launch graphs only while their communicators are there",
             rank());
}

void Communicator::raise_fault(const Status& status) noexcept {
  contained([&]() -> Status {
    if (status.code() == Code::remote && watchable_.load(std::memory_order_acquire))
      if (Status told = peers_.check(); told.code() == Code::truncated) fault_.raise(told);
    return {};
  }).ignore();
  fault_.raise(status);  // the first one counts
}

void Communicator::check() noexcept {
  if (!watchable_.load(std::memory_order_acquire)) return;
  look_at_graphs();
  Heart::show(&peers_.own_page().pulse);
  peers_.publish();
  look_at_device();
  if (fault().raised()) {
    if (CopyReduction* const reduction = watched_reduction()) reduction->give_up();
    return tell_that_all_have_left();
  }
  compare_calls();
  if (fault_.raised()) return;
  try {
    Status status = peers_.check();
    if (status) status = look_at_links();
    exports_->tidy();
    if (copies_) copies_->look_for_freed();
    if (user_buffers_) user_buffers_->look_for_freed();
    if (status) return look_for_timeout();
    fault_.raise(status);
  } catch (...) {
    // No memory to look: the next round tries again.
  }
}

// By the watchdog.
Status Communicator::look_at_links() {
  links_->expect_ends();
  bool certain = true;
  Status broken = links_->check(activity() == KernelActivity::launched, &certain);
  if (broken) {
    link_breaks_.none();
    return broken;
  }
  const uint64_t launches = launched() + __atomic_load_n(&words()->done, __ATOMIC_RELAXED);
  return link_breaks_.counts(certain, launches, RunningClock::now()) ? std::move(broken) : Status();
}

void Communicator::compare_calls() noexcept {
  contained([&]() -> Status {
    if (Status status = calls_.compare(); !status) fault_.raise(status);
    return {};
  }).ignore();
}

// A kernel has set the latch by itself: what it saw becomes the communicator's fault.
void Communicator::look_at_report() noexcept {
  if (!words()) return;
  const proto::FaultLatch& latch = words()->latch;
  // Acquire: partner is the release of kind by the kernel, after the rest.
  const uint32_t kind = __atomic_load_n(&latch.kind, __ATOMIC_ACQUIRE);
  if (kind == 0) return;
  const bool of_message = kind == proto::kFaultSizes;
  const char* const sentence = of_message ? "rank %d sends %llu bytes to rank %d, which receives %llu%s"
                               : latch.sent_bytes == latch.expected_bytes
                                   ? "rank %d reduces %llu elements by another call, datatype or root than rank %d its "
                                     "%llu%s"
                                   : "rank %d reduces %llu elements, rank %d %llu%s";
  const char* const advice = of_message ? ""
                                        : ": all ranks must make the same collective calls in the same order, with the "
                                          "same count, datatype, op and root";
  if (!of_message) compare_calls();  // which knows more
  if (fault_.raised()) return;
  try {
    const Code code = of_message ? wrong_length(latch.sent_bytes, latch.expected_bytes) : Code::invalid_usage;
    fault_.raise(Status::error(code, sentence, peers_.number(latch.peer),
                               static_cast<unsigned long long>(latch.sent_bytes), peers_.number(rank()),
                               static_cast<unsigned long long>(latch.expected_bytes), advice));
  } catch (...) {
    // No memory for the sentence: the next look tries again.
  }
}

// A device that has failed runs nothing, and tells nothing. Peers need nothing any more of who has closed.
void Communicator::look_at_device() noexcept {
  if (!device_failed() || fault_.raised() || tells_closing(peers_)) return;
  contained([&]() -> Status {
    raise_fault(Status::error(Code::device,
                              "the device of rank %d has failed: nothing runs on it any more in this process (%s)",
                              peers_.number(rank()), device_state_->why().what()));
    return {};
  }).ignore();
}

void Communicator::look_for_timeout() noexcept {
  const CopyReduction* const reduction = watched_reduction();
  const uint64_t copies = (copies_ ? copies_->groups() : 0) + (reduction ? reduction->groups() : 0),
                 copied = (copies_ ? copies_->passed() : 0) + (reduction ? reduction->passed() : 0);
  const uint64_t run = __atomic_load_n(&words()->done, __ATOMIC_RELAXED), in_graphs = ended_in_graphs();
  const uint32_t running = gc_mutant(142) != 0 ? 0 : running_in_graphs();
  const uint64_t done = run + copied + in_graphs, launched = this->launched() + copies + in_graphs + running;
  if (done >= launched || done != seen_done_ || stalled_since_ == RunningClock::time_point()) {
    seen_done_ = done;
    stalled_since_ = done < launched ? RunningClock::now() : RunningClock::time_point();
    stall_began_ = std::chrono::steady_clock::now();
    stall_told_ = false;
    return;
  }
  const auto waiting = RunningClock::now() - stalled_since_;
  const long long waited = std::chrono::duration_cast<std::chrono::seconds>(waiting).count();
  const auto is_over = [&](int64_t seconds) { return seconds && waited >= seconds; };
  const bool reports = !stall_told_ && is_over(params().report_after), ends = is_over(peers_.timeout());
  if (!reports && !ends) return;
  const std::string others = running != 0 ? waiting_in_graphs() : waiting_for(run + 1);
  stall_told_ = true;
  // Where nobody is missing, a stream may have other work first; but a rank may also have stopped, or its device hang.
  if (ends && !(others.empty() && gc_mutant(422))) return fault_.raise(timed_out(stall_began_, waited, others));
  if (!reports || others.empty()) return;
  log::write(log::Level::warn, "rank %d has waited %lld s (parameter report_after) %s", peers_.number(rank()), waited,
             others.c_str());
}

Status Communicator::timed_out(std::chrono::steady_clock::time_point since, long long waited_s,
                               const std::string& others) const {
  GC_TRY(peers_.stopped(since, waited_s));
  constexpr char kSentence[] = "rank %d has waited %lld s (parameter timeout) %s";
  const int self = peers_.number(rank());
  if (!others.empty()) return Status::error(Code::timed_out, kSentence, self, waited_s, others.c_str()).blaming();
  return Status::error(Code::timed_out, kSentence, self, waited_s,
                       "for all ranks, which have come as far: their calls may differ in count, datatype, op or root");
}

// On others, as far as it is known.
std::string Communicator::waiting_for(uint64_t launch) const {
  const CopyReduction* const reduction = watched_reduction();
  std::string message = copies_ ? copies_->waiting_for() : "";
  if (message.empty() && reduction) message = reduction->waiting_for();
  if (!message.empty()) return "for " + message;
  const std::string missing = peers_.missing(launch);
  if (missing.empty()) return "";
  return "in its launch " + std::to_string(launch) + " of this communicator; fewer launches have been made by " +
         missing;
}

std::string Communicator::waiting_in_graphs() const {
  const uint64_t begun = begun_in_graphs();
  const std::string missing = peers_.missing_in_graphs(begun);
  if (missing.empty()) return "";
  return "in launch " + std::to_string(begun) + " of the graphs of this communicator; fewer have been begun by " +
         missing;
}

}  // namespace gpucoll::core
