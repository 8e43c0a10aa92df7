// The launch order of several communicators never hangs, however long threads of any rank are delayed between any two
// steps, where devices have room for one kernel, and give memory back only when they rest (docs/adr/0036).
//
// A world of ranks, in one thread: each rank has a device and a ProgressThread, the one of the library. Its clients are
// models of the queues of communicators, which share with each other what ranks share on their boards. A scheduler
// draws from a seed which thread of which rank takes its next step, also in the midst of the steps of others. The
// order before, by times and with patience, hangs in the same world.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "base/mutant.h"
#include "mpi/progress_thread.h"

namespace gpucoll::coll {
namespace {

enum class Rule { numbers, times_with_patience };

constexpr uint64_t kNone = 0, kComing = 1;
constexpr uint64_t kPatience = 400, kPatienceWithHost = 40;  // steps of the world

struct World;

// One collective of a communicator. Ranks are counted in the world.
struct Call {
  explicit Call(size_t n) : arrived(n), joined(n), launched(n), number(n, kNone) {}
  bool on_host = false, done = false;
  std::vector<bool> arrived, joined, launched;
  std::vector<uint64_t> number;  // of each rank, as on the lines of boards
};

struct Comm {
  std::vector<size_t> ranks;
  std::deque<Call> calls;
  bool blocking = false;  // each rank has a thread that makes its calls, and alone launches them
};

// What one rank has of a communicator.
class Queue final : public ProgressClient {
 public:
  Queue(World& world, size_t rank, Comm& comm, uint64_t name);
  void arrive();
  // Begins the first call on the host, if it is one that goes there.
  void begin_on_host();
  void go_on(bool launches);
  bool all_begun() const { return first_ == comm_.calls.size(); }
  bool waits_for_call() const { return next_ > first_; }
  bool may_arrive() const { return next_ < comm_.calls.size(); }
  bool blocking() const { return comm_.blocking; }
  size_t n_calls() const { return comm_.calls.size(); }

  bool progress() override;
  bool progress_on_thread() override { return progress(); }
  uint64_t first_ready() const noexcept override { return ready_; }
  uint64_t first_due() const noexcept override { return due_; }
  bool puts_behind(uint64_t number) override;

 private:
  Call& call(size_t at) const { return comm_.calls[at]; }
  bool goes_to_host() const { return waits_for_call() && call(first_).on_host; }
  void get_ready(Call& call);
  void note_first();
  uint64_t number_of(const Call& call) const;
  bool has_waited() const;
  bool may_launch(uint64_t number);
  bool connects(Call& call);
  void pop();

  World& world_;
  const size_t rank_;
  Comm& comm_;
  size_t first_ = 0, next_ = 0;  // the first that is not launched or begun here, and the first that has not come
  uint64_t ready_ = 0, due_ = 0, known_due_ = 0, due_since_ = 0;
};

// The application's thread: what it does next, one entry after another.
struct Program {
  enum class What { start, rest, free };
  struct Step {
    What what;
    size_t queue;
  };
  std::deque<Step> steps;
};

struct Rank {
  ProgressThread order;
  std::vector<std::unique_ptr<Queue>> queues;
  std::deque<Call*> device;  // launched, in this order
  bool frees = false;        // nothing is launched until the device rests
  bool inside = false;       // one of its threads is in the midst of a step
  uint64_t number = kComing;
  Program program;
};

struct World {
  World(Rule the_rule, uint64_t seed) : rule(the_rule), random(seed) { make(); }

  uint64_t below(uint64_t n) { return random() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  void changed() { last_change = now; }

  void make() {
    const size_t n = 2 + below(3), n_comms = 2 + below(3);
    for (size_t r = 0; r < n; ++r) ranks.push_back(std::make_unique<Rank>());
    for (size_t c = 0; c < n_comms; ++c) make_comm(c);
    for (auto& rank : ranks) make_program(*rank);
    frozen.assign(n * kThreads, 0);
  }
  void make_comm(size_t c) {
    Comm& comm = comms.emplace_back();
    while (comm.ranks.size() < 2) {
      comm.ranks.clear();
      for (size_t r = 0; r < ranks.size(); ++r)
        if (!one_in(4)) comm.ranks.push_back(r);
    }
    comm.blocking = one_in(3);
    for (size_t k = 1 + below(5); k > 0; --k)
      comm.calls.emplace_back(ranks.size()).on_host = !comm.blocking && one_in(3);
    for (size_t r : comm.ranks) ranks[r]->queues.push_back(std::make_unique<Queue>(*this, r, comm, 2 * c + 2));
  }
  // Starts in the order of each communicator, otherwise in any.
  void make_program(Rank& rank) {
    std::vector<size_t> starts;
    for (size_t q = 0; q < rank.queues.size(); ++q)
      if (!rank.queues[q]->blocking())
        for (size_t k = 0; k < calls_of(rank, q); ++k) starts.push_back(q);
    std::shuffle(starts.begin(), starts.end(), random);
    for (size_t q : starts) {
      rank.program.steps.push_back({Program::What::start, q});
      if (one_in(4)) rank.program.steps.push_back({one_in(2) ? Program::What::rest : Program::What::free, 0});
    }
  }
  size_t calls_of(const Rank& rank, size_t q) const;

  // ---- devices: room for one kernel ----

  void launch(size_t r, Call& call) {
    call.launched[r] = true;
    ranks[r]->device.push_back(&call);
    changed();
    for (bool any = true; any;) any = complete_one();
  }
  bool complete_one() {
    for (Comm& comm : comms)
      for (Call& call : comm.calls) {
        const bool runs =
            !call.done && !call.on_host && std::all_of(comm.ranks.begin(), comm.ranks.end(), [&](size_t r) {
              return !ranks[r]->device.empty() && ranks[r]->device.front() == &call;
            });
        if (!runs) continue;
        call.done = true;
        for (size_t r : comm.ranks) ranks[r]->device.pop_front();
        changed();
        return true;
      }
    return false;
  }

  // ---- threads: of each rank the application's, the ProgressThread's, and one for each blocking communicator ----

  static constexpr size_t kThreads = 6;

  void run_application(Rank& rank) {
    auto& steps = rank.program.steps;
    if (steps.empty()) return in_mpi(rank);
    const Program::Step step = steps.front();
    if (step.what == Program::What::start) {
      rank.queues[step.queue]->arrive();
      if (one_in(2)) in_mpi(rank);
    } else {
      rank.frees |= step.what == Program::What::free;
      if (!rank.device.empty()) return;  // it waits without calling MPI
      rank.frees = false;
    }
    steps.pop_front();
    changed();
  }
  void in_mpi(Rank& rank) {
    for (auto& queue : rank.queues) {
      if (queue->blocking()) continue;
      queue->begin_on_host();
      queue->go_on(true);
    }
  }
  void run_blocking(Rank& rank, size_t which) {
    for (auto& queue : rank.queues) {
      if (!queue->blocking() || which--) continue;
      if (!queue->waits_for_call() && queue->may_arrive()) queue->arrive();
      queue->go_on(true);
      return;
    }
  }
  void run_thread(size_t thread) {
    Rank& rank = *ranks[thread / kThreads];
    if (rank.inside || now < frozen[thread]) return;
    if (one_in(50) && !calm) frozen[thread] = now + below(2000);
    rank.inside = true;
    const size_t which = thread % kThreads;
    if (which == 0)
      run_application(rank);
    else if (which == 1)
      for (auto& queue : rank.queues) queue->progress();
    else
      run_blocking(rank, which - 2);
    rank.inside = false;
  }

  // A rank that is in the midst of a step is interrupted here: the others go on.
  void pause() {
    if (depth == 2 || !one_in(3)) return;
    ++depth;
    for (uint64_t steps = one_in(10) ? 200 : 3; steps > 0; --steps) step();
    --depth;
  }
  void step() {
    ++now;
    run_thread(below(ranks.size() * kThreads));
  }

  bool is_done() const {
    for (const auto& rank : ranks) {
      if (!rank->program.steps.empty()) return false;
      for (const auto& queue : rank->queues)
        if (!queue->all_begun()) return false;
    }
    return std::all_of(comms.begin(), comms.end(), [](const Comm& comm) {
      return std::all_of(comm.calls.begin(), comm.calls.end(), [](const Call& c) { return c.done || c.on_host; });
    });
  }
  // Returns whether everything has ended. Nobody is delayed any more once nothing has changed for long.
  bool run() {
    constexpr uint64_t kLong = 10'000;
    while (!is_done()) {
      step();
      calm = now - last_change > kLong;
      if (now - last_change > 3 * kLong) return false;
    }
    return true;
  }

  const Rule rule;
  std::mt19937_64 random;
  std::deque<Comm> comms;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<uint64_t> frozen;
  uint64_t now = 1, last_change = 1;
  int depth = 0;
  bool calm = false;
};

Queue::Queue(World& world, size_t rank, Comm& comm, uint64_t name) : world_(world), rank_(rank), comm_(comm) {
  world.ranks[rank]->order.register_client(this, &comm, name);
}

size_t World::calls_of(const Rank& rank, size_t q) const { return rank.queues[q]->n_calls(); }

// ---- numbers, as LaunchNumbers and Board do it ----

void Queue::get_ready(Call& its) {
  ready_ = its.number[rank_] = kComing;
  world_.pause();
  uint64_t& last = world_.ranks[rank_]->number;
  last = world_.rule == Rule::times_with_patience ? ++world_.now : last + 1;
  const uint64_t mine = last;
  world_.pause();
  ready_ = its.number[rank_] = mine;
  world_.changed();
}

uint64_t Queue::number_of(const Call& its) const {
  uint64_t last = 0;
  for (size_t r : comm_.ranks) {
    if (!its.arrived[r] || its.number[r] <= kComing) return 0;
    last = std::max(last, its.number[r]);
  }
  uint64_t& mine = world_.ranks[rank_]->number;
  mine = std::max(mine, last);
  return last;
}

bool Queue::puts_behind(uint64_t number) {
  note_first();
  if (!ready_) return true;
  const Call& its = call(first_);
  for (size_t r : comm_.ranks) {
    if (its.number[r]) continue;
    uint64_t& last = world_.ranks[r]->number;
    last = std::max(last, number);
    world_.pause();
    if (!its.number[r]) return true;
  }
  return false;
}

// ---- the queue ----

void Queue::arrive() {
  Call& its = call(next_++);
  const bool ready = world_.rule != Rule::numbers || comm_.blocking || next_ == first_ + 1;
  if (!its.on_host && ready) {
    its.number[rank_] = kComing;
    its.arrived[rank_] = true;
    get_ready(its);
  }
  its.arrived[rank_] = true;
  note_first();
  world_.changed();
}

void Queue::begin_on_host() {
  if (!goes_to_host()) return;
  pop();
  world_.changed();
}

void Queue::pop() {
  ++first_;
  note_first();
}

void Queue::note_first() {
  size_t at = first_;
  if (world_.rule != Rule::numbers)  // what waits behind the host has come as well
    while (at < next_ && call(at).on_host) ++at;
  const bool any = at < next_ && !call(at).on_host;
  const uint64_t number = any ? number_of(call(at)) : 0;
  if (number != known_due_) due_since_ = world_.now;
  known_due_ = number;
  due_ = has_waited() ? 0 : number;
  ready_ = any && !number ? call(at).number[rank_] : 0;
}

bool Queue::has_waited() const {
  return world_.rule == Rule::times_with_patience &&
         world_.now - due_since_ > (goes_to_host() ? kPatienceWithHost : kPatience);
}

bool Queue::may_launch(uint64_t number) {
  note_first();
  return has_waited() || world_.ranks[rank_]->order.launch_earlier(number, this);
}

// All ranks that have come to it wait for each other.
bool Queue::connects(Call& its) {
  if (!its.joined[rank_]) world_.changed();
  its.joined[rank_] = true;
  return std::all_of(comm_.ranks.begin(), comm_.ranks.end(), [&](size_t r) { return its.joined[r]; });
}

void Queue::go_on(bool launches) {
  while (waits_for_call() && !goes_to_host()) {
    Call& its = call(first_);
    if (!its.number[rank_]) get_ready(its);
    note_first();
    const uint64_t number = number_of(its);
    if (!number || !launches || !connects(its) || !may_launch(number)) return;
    world_.pause();
    if (world_.ranks[rank_]->frees) return;
    world_.launch(rank_, its);
    pop();
  }
}

bool Queue::progress() {
  world_.pause();
  go_on(!comm_.blocking);
  note_first();
  return true;
}

// ---- tests ----

int hangs(Rule rule, uint64_t seeds) {
  int n = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    if (World(rule, seed).run()) continue;
    if (n++ == 0) std::printf("seed %llu hangs\n", static_cast<unsigned long long>(seed));
    if (gc_mutant(160) || gc_mutant(161)) break;
  }
  return n;
}

TEST(LaunchOrderTest, NeverHangs) { EXPECT_EQ(hangs(Rule::numbers, 2000), 0); }

// As it was before (docs/adr/0014).
TEST(LaunchOrderTest, HangsByTimesWithPatience) { EXPECT_GT(hangs(Rule::times_with_patience, 100), 0); }

}  // namespace
}  // namespace gpucoll::coll
