#include "core/comm/group.h"

#include <sched.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutant.h"
#include "base/observe/trace.h"
#include "core/plan/algorithm_choice.h"

namespace gpucoll::core {
namespace {

// Holds a group's tasks for one communicator, and the collective calls that it comes from.
struct Queue : TaskQueue {
  std::vector<Call> calls;
};

// Queues to use again: a call alone allocates nothing.
thread_local std::vector<std::unique_ptr<Queue>> spare_queues;

std::unique_ptr<Queue> take_queue() {
  if (spare_queues.empty()) return std::make_unique<Queue>();
  auto queue = std::move(spare_queues.back());
  spare_queues.pop_back();
  return queue;
}

// A share's part of a group.
struct Part {
  explicit Part(const CommShare& t) : share(t), communicator(t.communicator()) {}
  CommShare share;
  Communicator* communicator;
  std::unique_ptr<Queue> queue = take_queue();
  CommProperties shape = {};
  PlanCache::Hit kept = {};
  Status status = {};
  bool begun = false, launched = false;

  // Returns a key that is equal on all ranks, for the ranks of one share.
  auto key() const { return std::pair(communicator->key(), share.number()); }
};

struct Step {
  std::function<Status()> run;
  CancelJob cancel;
  InBackground in_background = {};
  Status result = {};
};

// Work that waits for other ranks: its steps one after another.
struct Job {
  const void* in_order_with = nullptr;
  std::vector<Step> steps;

  void cancel(const Status& why) const {
    for (const Step& step : steps)
      if (step.cancel) step.cancel(why);
  }

  // All of them, whatever comes of one: other ranks wait for each. The first failure.
  // lets_go: of what each step works on, at its end.
  Status operator()(bool lets_go) {
    Status first;
    for (Step& step : steps) {
      step.result = contained(step.run);
      if (lets_go) step.run = nullptr;
      if (first) first = step.result;
    }
    return first;
  }
};

struct Group {
  int depth = 0;
  Status failure;
  std::vector<Job> jobs;
  std::vector<Part> parts;
};

thread_local Group the_group;

void give_back(std::unique_ptr<Queue> queue) {
  constexpr size_t kMostSpare = 16, kMostRoom = 1024;
  const size_t room = queue->collectives.capacity() + queue->sends.capacity() + queue->recvs.capacity();
  if (spare_queues.size() >= kMostSpare || room > kMostRoom) return;
  queue->clear();
  queue->calls.clear();
  spare_queues.push_back(std::move(queue));
}

// Runs jobs that wait for each other side by side; their results, in the same order. One that finds no thread is
// cancelled at once: the others, here and elsewhere, would wait for it. lets_go: as for a job; who aborts what one has
// made waits until it has let go.
std::vector<Status> run_all(std::vector<Job>& jobs, bool lets_go = false) {
  std::vector<Status> results(jobs.size());
  std::vector<std::thread> threads;
  threads.reserve(jobs.size());
  for (size_t i = 1; i < jobs.size(); ++i) {
    Status started = contained([&]() -> Status {
      threads.emplace_back([&, i] { results[i] = contained([&] { return jobs[i](lets_go); }); });
      return {};
    });
    if (started) continue;
    if (!gc_mutant(126)) jobs[i].cancel(started);
    for (Step& step : jobs[i].steps) {
      step.result = started;
      if (lets_go) step.run = nullptr;
    }
    results[i] = std::move(started);
  }
  if (!jobs.empty()) results[0] = contained([&] { return jobs[0](lets_go); });
  for (auto& thread : threads) thread.join();
  return results;
}

// Messages to this rank itself have no other side that could be waited for: the group must hold both.
Status check_self(const TaskQueue& queue, int rank) {
  auto next = [rank](const std::vector<TaskQueue::Pair>& tasks, size_t& at) {
    while (at < tasks.size() && tasks[at].peer != rank) ++at;
    return at < tasks.size() ? &tasks[at++] : nullptr;
  };
  size_t sends = 0, recvs = 0;
  for (;;) {
    const TaskQueue::Pair *send = next(queue.sends, sends), *recv = next(queue.recvs, recvs);
    if (!send && !recv) return {};
    if (!send || !recv)
      return Status::error(Code::invalid_usage,
                           "rank %d %s itself without %s in the same group: it would wait for ever", rank,
                           send ? "sends to" : "receives from", send ? "a receive" : "a send");
    if (send->bytes != recv->bytes)
      return Status::error(wrong_length(send->bytes, recv->bytes),
                           "rank %d sends %llu bytes to itself, but receives %llu", rank,
                           static_cast<unsigned long long>(send->bytes), static_cast<unsigned long long>(recv->bytes));
  }
}

Status check(Part& part) {
  if (part.share.finished()) return Status::error(Code::invalid_usage, "the communicator has been finalised");
  GC_TRY(check_self(*part.queue, part.communicator->rank()));
  GC_TRY_AS(part.shape, part.communicator->shape(part.queue->streams));
  part.kept = part.communicator->kept(*part.queue, part.shape);
  if (!part.kept) part.communicator->replace_by_messages(part.queue.get(), part.shape);
  return {};
}

// The connections that the parts of a Communicator lack.
struct Lack {
  Communicator* communicator;
  Requirements required;
  std::vector<Part*> parts;
};

std::vector<Lack> missing(std::span<Part> parts) {
  std::vector<Lack> lacks;
  for (Part& part : parts) {
    if (part.kept) continue;
    Requirements required = required_by(*part.queue, part.communicator->rank(), part.shape);
    if (part.communicator->connected(required)) continue;
    auto same = std::find_if(lacks.begin(), lacks.end(),
                             [&](const Lack& lack) { return lack.communicator == part.communicator; });
    if (same == lacks.end()) same = lacks.insert(same, {part.communicator, {}, {}});
    same->required.add(required);
    same->parts.push_back(&part);
  }
  return lacks;
}

// Makes the connections that are missing, side by side: the other ends may be this thread's as well.
void connect(std::span<Part> parts, std::vector<Lack> lacks) {
  std::vector<Job> jobs;
  for (const Lack& lack : lacks)
    jobs.push_back({nullptr,
                    {{[&lack] { return lack.communicator->connect(lack.required); },
                      [&lack](const Status& why) { lack.communicator->raise_fault(why); }}}});
  std::vector<Status> results = run_all(jobs);
  for (size_t i = 0; i < lacks.size(); ++i)
    for (Part* part : lacks[i].parts)
      part->status = results[i] ? check(*part) : results[i];  // the shape may be another, and ask for more
  const auto fine = [](const Part& part) { return part.status.ok(); };
  if (!std::all_of(parts.begin(), parts.end(), fine)) return;
  lacks = missing(parts);
  if (!lacks.empty()) connect(parts, std::move(lacks));
}

// Before anything waits for the peers, so that they see why it is in vain. What is captured runs at another time.
void announce(std::span<Part> parts) noexcept {
  for (Part& part : parts)
    if (!part.shape.capturing) part.communicator->announce(part.queue->calls);
}

// From here on the peers count on this rank: what fails must fail for them, too.
void begin(Part& part) {
  part.begun = true;
  part.status = contained([&] { return part.communicator->begin(*part.queue, part.shape, false, part.kept); });
  if (!part.status) part.communicator->raise_fault(part.status);
}

// Before any launch where it can be, as it may wait for the device; of shares of one Communicator only the first.
void begin_all(std::span<Part> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool later = std::any_of(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const Part& p) { return p.communicator == parts[i].communicator; });
    if (parts[i].status && !later) begin(parts[i]);
  }
}

// Ranks of one communicator, each in turn as far as it gets: a launch that waits for room may need one of another rank.
void launch(std::span<Part> parts) {
  for (Part& part : parts)
    if (part.status && !part.begun) begin(part);
  for (bool all = false; !all;) {
    all = true;
    for (Part& part : parts) {
      if (part.launched || !part.status) continue;
      auto launched = part.communicator->advance();
      if (launched) {
        part.launched = *launched;
        all = all && part.launched;
      } else {
        part.status = std::move(launched).status();
      }
    }
    if (!all) sched_yield();
  }
}

// One communicator after the other, in an order that is the same on all ranks: they may share streams.
void launch_all(std::span<Part> parts) {
  while (!parts.empty()) {
    const auto other =
        std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.key() != parts[0].key(); });
    const auto n = static_cast<size_t>(other - parts.begin());
    launch(parts.first(n));
    parts = parts.subspan(n);
  }
}

// Records a group of the C API from here to its end, when all is on streams; of several communicators as of the first.
class GroupSpan {
 public:
  explicit GroupSpan(std::span<Part> parts) noexcept {
    if (trace::on() && !parts.empty()) record_ = trace::begin(fields_of(parts));
  }
  ~GroupSpan() {
    if (record_) trace::end(record_);
  }
  GroupSpan(const GroupSpan&) = delete;
  GroupSpan& operator=(const GroupSpan&) = delete;

 private:
  static trace::Fields fields_of(std::span<Part> parts) noexcept {
    trace::Fields fields = {.what = trace::What::group};
    for (const Part& part : parts) {
      for (const CollectiveTask& task : part.queue->collectives) fields.bytes += task.count * task.element_bytes;
      for (const auto& send : part.queue->sends) fields.bytes += send.bytes;
    }
    fields.group = parts[0].communicator->key();
    fields.label = trace::label(parts[0].queue->collectives.empty() ? "messages" : "collectives");
    return fields;
  }
  uint64_t record_ = 0;
};

// Returns the first failure.
Status launch_connected(std::span<Part> parts) {
  if (parts.size() == 1) {
    launch(parts);
  } else {
    begin_all(parts);
    launch_all(parts);
  }
  for (Part& part : parts)
    if (!part.status) return part.status;
  return {};
}

Status connect_in_background(std::span<Part> parts);

// Returns whether the caller has to wait: a communicator blocks, or a stream is the calling thread's own.
bool blocks(std::span<const Part> parts) {
  return std::any_of(parts.begin(), parts.end(), [](const Part& part) {
    const auto& streams = part.queue->streams;
    return !part.share.progress() || std::any_of(streams.begin(), streams.end(), gpu::is_stream_of_each_thread);
  });
}

// One communicator's failure does not keep the others from their work. The first failure.
// may_leave: where connections are missing, and no communicator blocks, the rest is left to the background, with all
// that the parts hold.
Status carry_out(std::span<Part> parts, bool may_leave = true) {
  const GroupSpan span(parts);
  for (Part& part : parts) GC_TRY(part.communicator->reserve_aside(*part.queue));
  for (Part& part : parts) {
    part.communicator->put_aside(part.queue.get());
    GC_TRY(check(part));
  }
  if (parts.size() > 1)
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.key() < b.key(); });
  announce(parts);
  if (std::vector<Lack> lacks = missing(parts); !lacks.empty()) {
    if (may_leave && !blocks(parts) && !gc_mutant(345)) return connect_in_background(parts);
    connect(parts, std::move(lacks));
  }
  return launch_connected(parts);
}

// Does what a group has left to do. The communicators' programs learn of its end by their Progress.
class LeftWork {
 public:
  LeftWork(std::vector<Job> jobs, std::vector<Part> parts, bool announced)
      : jobs_(std::move(jobs)), parts_(std::move(parts)), announced_(announced) {
    for (const Job& job : jobs_)
      for (const Step& step : job.steps) ends_.push_back({step.in_background, {}});
    for (const Part& part : parts_) ends_.push_back({{nullptr, part.share.progress()}, {}});
  }

  std::vector<std::shared_ptr<Progress>> concerned() const {
    std::vector<std::shared_ptr<Progress>> all;
    for (const End& end : ends_)
      for (const auto& progress : {end.who.made, end.who.used})
        if (progress) all.push_back(progress);
    return all;
  }

  void run() {
    Status failure;
    for (const Part& part : parts_)
      part.share.progress()->on_interrupt(
          [share = part.share](const Status& why) { share.communicator()->give_up(why); });
    for (Status& status : run_all(jobs_))
      if (failure) failure = std::move(status);
    size_t i = 0;
    for (Job& job : jobs_)
      for (Step& step : job.steps) ends_[i++].status = step.result;
    if (!parts_.empty()) run_parts(failure);
    tell(failure);
    for (const Part& part : parts_) part.share.progress()->on_interrupt({});
    jobs_.clear();
    parts_.clear();
  }
  void settle() noexcept {
    for (const End& end : ends_) {
      if (end.who.made) end.who.made->ends(end.status, true);
      if (end.who.used) end.who.used->ends({}, false);
    }
  }
  // Instead of run(), where there is no thread for it.
  void give_up(const Status& why) const {
    for (const Job& job : jobs_) job.cancel(why);
    for (const Part& part : parts_) part.communicator->raise_fault(why);
  }

 private:
  struct End {
    InBackground who;
    Status status;
  };
  // A failure here must reach the peers, too, and the program must learn of it.
  void run_parts(Status& failure) {
    const bool after_jobs = failure.ok();
    Status status = contained([&]() -> Status {
      if (!after_jobs) return failure;
      if (!announced_) return carry_out(parts_, false);
      if (std::vector<Lack> lacks = missing(parts_); !lacks.empty()) connect(parts_, std::move(lacks));
      return launch_connected(parts_);
    });
    if (status) return;
    for (const Part& part : parts_)
      if (!part.launched) part.communicator->raise_fault(part.status ? status : part.status);
    if (failure) failure = std::move(status);
  }
  static void tell(const Status& failure) noexcept {
    if (!failure && !failure.told() && failure.code() != Code::aborted)
      log::write(log::Level::error, "what a communicator has begun has failed: %s", failure.what());
  }

  std::vector<Job> jobs_;
  std::vector<Part> parts_;
  const bool announced_;
  std::vector<End> ends_;
};

Status leave(std::shared_ptr<LeftWork> work) {
  const auto concerned = work->concerned();
  for (const auto& progress : concerned) progress->begins();
  Status started = run_in_background([work] { work->run(); }, [work] { work->settle(); }, concerned);
  if (!started) {
    work->give_up(started);
    for (const auto& progress : concerned) progress->ends({}, false);
    return started;
  }
  Status going = Status::error(Code::in_progress, "%s", describe(Code::in_progress));
  going.mark_told();
  return going;
}

Status connect_in_background(std::span<Part> parts) {
  std::vector<Part> taken(std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  auto work = std::make_shared<LeftWork>(std::vector<Job>(), std::move(taken), true);
  return leave(work);
}

// Returns how to carry out again what a group of one part has; what it has put aside is of this time only.
Repeat repeat_of(const Part& part) {
  const Queue& queue = *part.queue;
  if (!part.kept || !queue.before.empty()) return {};
  return {part.kept, queue.streams.front(), queue.calls.empty() ? std::nullopt : std::optional(queue.calls.front())};
}

template <class Add>
Status enqueue_with(const CommShare& share, Add&& add, Repeat* repeat = nullptr) {
  if (the_group.depth == 0) {
    Part part(share);
    add(*part.queue);
    Status status = carry_out({&part, 1});
    if (repeat && status) *repeat = repeat_of(part);
    if (part.queue) give_back(std::move(part.queue));
    return status;
  }
  auto& parts = the_group.parts;
  auto part = std::find_if(parts.rbegin(), parts.rend(), [&](const Part& p) { return p.share == share; });
  if (part == parts.rend()) {
    parts.emplace_back(share);
    part = parts.rbegin();
  }
  add(*part->queue);
  return {};
}

// Tells the other ranks of communicators that the group does not make. Jobs of a parent are left out, as it would fail.
void cancel(const std::vector<Job>& jobs, const Status& why) {
  for (const Job& job : jobs)
    if (!job.in_order_with) job.cancel(why);
}

bool blocks(const Group& group) {
  const auto step_blocks = [](const Step& step) { return !step.in_background; };
  return blocks(group.parts) || std::any_of(group.jobs.begin(), group.jobs.end(), [&](const Job& job) {
           return std::any_of(job.steps.begin(), job.steps.end(), step_blocks);
         });
}

Status leave(Group group) {
  return leave(std::make_shared<LeftWork>(std::move(group.jobs), std::move(group.parts), false));
}

// Returns the group that ends with the calling thread's outermost end; an empty one at an inner end.
Result<Group> end_of_group() {
  if (the_group.depth == 0)
    return Status::error(Code::invalid_usage, "gpucollGroupEnd without a gpucollGroupStart before it");
  if (--the_group.depth > 0) return Group();
  Group group = std::exchange(the_group, Group());
  if (!group.failure) cancel(group.jobs, group.failure);
  GC_TRY(std::move(group.failure));
  return group;
}

}  // namespace

bool group_open() { return the_group.depth > 0; }
void group_start() { ++the_group.depth; }

Status group_end() {
  auto ended = end_of_group();
  if (!ended) return std::move(ended).status();
  Group& group = *ended;
  if (!group.jobs.empty()) {
    if (!blocks(group)) return leave(std::move(group));
    for (Status& status : run_all(group.jobs, !gc_mutant(432))) GC_TRY(std::move(status));
  }
  Status status = carry_out(group.parts, group.jobs.empty());
  for (Part& part : group.parts)
    if (part.queue) give_back(std::move(part.queue));
  return status;
}

Result<double> group_simulate_end() {
  GC_TRY_AS(Group group, end_of_group());
  if (!group.jobs.empty()) {
    const Status why =
        Status::error(Code::invalid_usage, "a group that makes, splits or finalises communicators cannot be simulated");
    cancel(group.jobs, why);
    return why;
  }
  double longest = 0;
  for (Part& part : group.parts) {
    GC_TRY(check(part));
    double us = 0;
    for (const CollectiveTask& task : part.queue->collectives)
      if (task.count != 0) us += choose_for(task, part.shape).us;
    longest = std::max(longest, us);
    give_back(std::move(part.queue));
  }
  return longest;
}

Status enqueue(const CommShare& share, const CollectiveTask& task, const Call& call, Repeat* repeat) {
  const auto add = [&](Queue& queue) {
    queue.add(task);
    queue.calls.push_back(call);
  };
  return enqueue_with(share, add, repeat);
}

bool enqueue_again(const CommShare& share, const Repeat& repeat, Status* status) {
  Communicator& communicator = *share.communicator();
  if (trace::on() || share.finished()) return false;
  if (!communicator.may_repeat(repeat.plan, repeat.stream)) return false;
  if (repeat.call && !gc_mutant(399)) communicator.announce({&*repeat.call, 1});
  *status = communicator.repeat(repeat.plan);
  return true;
}

Status enqueue_messages(const CommShare& share, std::span<const Message> messages, Repeat* repeat) {
  if (messages.empty()) return {};
  const auto add = [&](TaskQueue& queue) {
    for (const Message& m : messages) m.is_send ? queue.add_send(m.peer, m.task) : queue.add_recv(m.peer, m.task);
  };
  return enqueue_with(share, add, repeat);
}

Status enqueue_job(std::function<Status()> job, const void* in_order_with, CancelJob cancel,
                   InBackground in_background) {
  if (the_group.depth == 0) {
    if (!in_background) return job();
    Group group;
    group.jobs.push_back({in_order_with, {{std::move(job), std::move(cancel), std::move(in_background)}}});
    return leave(std::move(group));
  }
  auto& jobs = the_group.jobs;
  auto same = std::find_if(jobs.begin(), jobs.end(),
                           [&](const Job& j) { return in_order_with && j.in_order_with == in_order_with; });
  if (same == jobs.end()) same = jobs.insert(same, {in_order_with, {}});
  same->steps.push_back({std::move(job), std::move(cancel), std::move(in_background)});
  return {};
}

bool has_job(const void* in_order_with) {
  return std::any_of(the_group.jobs.begin(), the_group.jobs.end(),
                     [&](const Job& job) { return job.in_order_with == in_order_with; });
}

Status fail_open_group(Status status) {
  if (the_group.depth == 0 || !the_group.failure) return status;
  the_group.failure = status;
  the_group.failure.mark_told();  // by the call that failed
  return status;
}

void forget(const CommShare& share) {
  std::erase_if(the_group.parts, [&](const Part& part) { return part.share == share; });
}

}  // namespace gpucoll::core
