#include "mpi/remote_boards.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/mutant.h"
#include "base/params.h"
#include "base/service_thread.h"
#include "core/peer/heart.h"
#include "net/tcp/endpoint.h"

namespace gpucoll::coll {
namespace {

using net::Endpoint;
using proto::BoardAnswer;
using proto::BoardArrivals;
using proto::BoardHello;
using proto::BoardMessage;
using proto::BoardQuestion;

core::BoardKey key_of(const BoardQuestion& question) { return {{question.key[0], question.key[1]}}; }

// How long a connection may take. Ranks that reach each other wait meanwhile, so it is well below their own timeout.
std::chrono::milliseconds patience() {
  constexpr int64_t kMostMs = 10'000;
  return std::chrono::milliseconds(params().timeout ? std::min(kMostMs, params().timeout * 250) : kMostMs);
}

net::Token token_of(const proto::NetworkAddress& address) { return {address.token[0], address.token[1]}; }

}  // namespace

// One connection: it knows the process on the other side once that has said its name.
class RemoteBoards::Link final : public net::ChannelListener {
 public:
  Link(RemoteBoards& boards, RemoteProcess* process) : boards_(boards), process_(process) {}

  const std::shared_ptr<net::Channel>& channel() const { return channel_; }

  bool on_message(const net::MessageReader::Message& message) noexcept override {
    const auto kind = static_cast<BoardMessage>(message.kind);
    if (!process_) return kind == BoardMessage::kHello && take_hello(message);
    if (kind != BoardMessage::kAwait && kind != BoardMessage::kRaise && kind != BoardMessage::kEnds)
      return process_->take(kind, message.payload, message.bytes);
    Request request = {kind, {}, process_};
    const size_t bytes = kind == BoardMessage::kEnds ? 0 : sizeof request.question;
    if (message.bytes != bytes) return false;
    if (bytes) std::memcpy(&request.question, message.payload, bytes);
    return contained([&]() -> Status {
             boards_.enqueue(std::move(request));
             return {};
           })
        .ok();
  }

 private:
  bool take_hello(const net::MessageReader::Message& message) noexcept {
    BoardHello hello;
    if (message.bytes != sizeof hello) return false;
    std::memcpy(&hello, message.payload, sizeof hello);
    ProcessId id = {{}, hello.pid, hello.board_inode};
    std::memcpy(id.node.data(), hello.node, id.node.size());
    return contained([&]() -> Status {
             GC_TRY_AS(process_, boards_.process(id));
             process_->add(channel_);
             return {};
           })
        .ok();
  }

  RemoteBoards& boards_;
  RemoteProcess* process_;  // null: it has not said its name
  std::shared_ptr<net::Channel> channel_ = std::make_shared<net::Channel>(this);
};

RemoteBoards& RemoteBoards::instance() {
  static RemoteBoards* boards = new RemoteBoards;  // its threads run until the process ends
  return *boards;
}

Status RemoteBoards::listen(const ProcessId& self, core::Board* own, proto::NetworkAddress* address) {
  GC_TRY_AS(const proto::ListenAddress listening, Endpoint::instance().address());
  GC_TRY_AS(const net::Token token, net::random_token());
  std::memcpy(hello_.node, self.node.data(), sizeof hello_.node);
  hello_.pid = self.pid;
  hello_.board_inode = self.board_inode;
  own_ = own;
  service_thread([this] { run(); }).detach();
  Endpoint::instance().expect(token, [this](UniqueFd connected) { welcome(std::move(connected)); });
  *address = {listening, {token.low, token.high}, {}};
  std::snprintf(address->host, sizeof address->host, "%s", topo::host_name().c_str());
  return {};
}

Result<RemoteProcess*> RemoteBoards::process(const ProcessId& id) {
  std::lock_guard lock(mutex_);
  auto& known = processes_[id];
  if (!known) {
    auto copy = core::Board::create_copy();
    if (!copy) {
      processes_.erase(id);
      return std::move(copy).status();
    }
    known = std::make_unique<RemoteProcess>(*std::move(copy));
  }
  return known.get();
}

// ---- connections ----

std::shared_ptr<net::Channel> RemoteBoards::make_channel(RemoteProcess* process) {
  std::lock_guard lock(mutex_);
  links_.push_back(std::make_unique<Link>(*this, process));
  return links_.back()->channel();
}

void RemoteBoards::welcome(UniqueFd connected) {
  Endpoint::instance().serve(make_channel(nullptr), std::move(connected));
}

// Makes a channel of a connection that this process has dialed.
void RemoteBoards::take(UniqueFd connected, RemoteProcess* process) {
  auto channel = make_channel(process);
  channel->put(static_cast<uint32_t>(BoardMessage::kHello), &hello_, sizeof hello_);
  process->add(channel);
  Endpoint::instance().serve(std::move(channel), std::move(connected));
}

// REQUIRES: watching_mutex_.
Status RemoteBoards::go_on(Watching* watching, RemoteProcess* process, const proto::NetworkAddress& address) {
  if (!watching->dialed) {
    GC_TRY_AS(watching->dialed, net::dial_endpoint(address.at, token_of(address), 0));
  }
  GC_TRY_AS(UniqueFd connected, watching->dialed->finish());
  if (connected) take(std::move(connected), process);
  return {};
}

// REQUIRES: watching_mutex_. A firewall may refuse connections to a process that lives, and a failure may pass, as
// where no descriptor is left: so this dials again after a pause.
void RemoteBoards::dial(RemoteProcess* process, const proto::NetworkAddress& address) {
  Watching& watching = watching_[process];
  if (process->has_channel() || watching.pause.lasts(net::Clock::now())) return;
  if (go_on(&watching, process, address)) return;
  watching.dialed.reset();
  watching.pause.begin(net::Clock::now() + std::chrono::hours(gc_mutant(454) ? 1 : 0));
}

const RemoteProcess* RemoteBoards::watch(const ProcessId& id, const proto::NetworkAddress& address) noexcept {
  if (!own_ || !address.at.anywhere()) return nullptr;
  const RemoteProcess* watched = nullptr;
  contained([&]() -> Status {
    GC_TRY_AS(RemoteProcess* const process, this->process(id));
    watched = process;
    std::lock_guard lock(watching_mutex_);
    dial(process, address);
    if (process->has_channel()) watching_.erase(process);
    return {};
  }).ignore();
  return watched;
}

Status RemoteBoards::connect(const std::vector<Wanted>& wanted, void (*idle)(), size_t* failed) {
  struct Dialing {
    size_t at;
    net::DialedConnection dialed;
  };
  std::vector<Dialing> pending;
  const auto deadline = core::RunningClock::now() + patience();  // this process may be stopped meanwhile
  for (size_t i = 0; i < wanted.size(); ++i) {
    const proto::NetworkAddress& address = wanted[i].address;
    if (wanted[i].process->has_channel()) continue;
    *failed = i;
    GC_TRY_AS(auto dialed, net::dial_endpoint(address.at, token_of(address), 0));
    pending.push_back({i, std::move(dialed)});
  }
  while (!pending.empty()) {
    for (size_t i = 0; i < pending.size();) {
      *failed = pending[i].at;
      RemoteProcess* const process = wanted[pending[i].at].process;
      GC_TRY_AS(UniqueFd socket, pending[i].dialed.finish());
      if (socket) take(std::move(socket), process);
      // A channel that the other side has made will do.
      if (process->has_channel())
        pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
    if (core::RunningClock::now() > deadline)
      return Status::error(Code::timed_out, "no connection within %lld s",
                           static_cast<long long>(std::chrono::ceil<std::chrono::seconds>(patience()).count()));
    idle();
    sched_yield();
  }
  return {};
}

void RemoteBoards::tell_pulse() noexcept {
  if (!own_) return;
  const bool beats = __atomic_load_n(&own_->pulse().beat_ns, __ATOMIC_RELAXED) != 0;
  contained([&]() -> Status {
    std::vector<RemoteProcess*> all;  // nothing is put under the lock, as messages that come in take it
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, process] : processes_) all.push_back(process.get());
    }
    for (RemoteProcess* const process : all) process->tell_pulse(beats);
    return {};
  }).ignore();  // the next one will be heard
}

// ---- answers ----

void RemoteBoards::enqueue(Request request) {
  std::lock_guard lock(requests_mutex_);
  requests_.push_back(std::move(request));
  changed_.notify_one();
}

void RemoteBoards::run() {
  using std::chrono::microseconds;
  constexpr microseconds kFirstNap{10}, kLongestNap{500};
  pthread_setname_np(pthread_self(), "gpucoll-board");
  prctl(PR_SET_TIMERSLACK, 1000);
  microseconds nap = kFirstNap;
  for (std::unique_lock lock(requests_mutex_);;) {
    if (requests_.empty() && awaiting_.empty()) changed_.wait(lock, [this] { return !requests_.empty(); });
    if (requests_.empty()) {
      changed_.wait_for(lock, nap);
      nap = std::min(nap + nap / 8 + microseconds(1), kLongestNap);
    } else {
      nap = kFirstNap;
    }
    const std::deque<Request> present = std::exchange(requests_, {});
    lock.unlock();
    std::erase_if(awaiting_, [this](const Request& request) { return tells_arrival(request, false); });
    for (const Request& request : present)
      contained([&]() -> Status {
        answer(request);
        return {};
      }).ignore();  // no memory: who waits ends within its timeout
    lock.lock();
  }
}

// Answers go over the connection of the stores, as they must not overtake these: who hears that a communicator has been
// freed has heard before that its rank has refused a call.
void RemoteBoards::answer(const Request& request) {
  if (request.kind == BoardMessage::kAwait) {
    if (!tells_arrival(request, true)) awaiting_.push_back(request);
    return;
  }
  if (request.kind == BoardMessage::kEnds) {
    const uint64_t ended = own_->has_ended();
    request.process->put(BoardMessage::kEnded, &ended, sizeof ended);
    return;
  }
  // First raise, then look (proto/format/board.h).
  BoardAnswer answer = {request.question, 0, 0};
  if (!gc_mutant(180)) own_->raise_number(request.question.raise_to);
  answer.is_ready = is_ready(request.question);
  answer.launch_number = own_->last_number();
  request.process->put(BoardMessage::kRaised, &answer, sizeof answer);
}

bool RemoteBoards::is_ready(const BoardQuestion& question) const noexcept {
  const gc_board_entry* const entry = own_->find(key_of(question));
  if (!entry) return false;
  if (question.order == proto::kBoardStarts)
    return __atomic_load_n(&entry->starts.scheduled, __ATOMIC_SEQ_CST) > question.number;
  return question.order < GC_ORDERS &&
         core::is_ready(entry->orders[question.order].lines[question.number % GC_BOARD_LINES], question.number);
}

// Reads what a rank has come to, and returns whether it has come to the call of the question, or never will.
bool RemoteBoards::read_arrivals(const BoardQuestion& question, BoardArrivals* told) const noexcept {
  *told = {{question.key[0], question.key[1]}, question.order, 0, 0, {}};
  const gc_board_entry* const entry = own_->find(key_of(question));
  told->has_left = !entry && own_->is_gone(key_of(question));
  if (!entry) return told->has_left;
  const gc_board_order& order = entry->orders[question.order];
  told->ending = __atomic_load_n(&entry->ending, __ATOMIC_ACQUIRE);
  told->has_left = __atomic_load_n(&entry->left, __ATOMIC_ACQUIRE) != 0;
  bool come = false;
  for (uint64_t i = 0; i < GC_BOARD_LINES; ++i) {
    const uint64_t arrival = __atomic_load_n(&order.lines[i].arrival, __ATOMIC_ACQUIRE);
    if (gc_arrival_kind(arrival) == GC_KIND_HOST) told->arrivals[i] = arrival;
    come |= i == question.number % GC_BOARD_LINES && gc_arrival_number(arrival) >= question.number;
  }
  // Where the entry has been taken for another communicator, what was read is nothing of this one.
  if (__atomic_load_n(&entry->key[1], __ATOMIC_RELAXED) != question.key[1])
    *told = {{question.key[0], question.key[1]}, question.order, 1, 0, {}};
  return come || told->has_left;
}

// Returns whether there is nothing more to wait for, and tells it. At first it tells in any case how far the rank is:
// others may report it.
bool RemoteBoards::tells_arrival(const Request& request, bool first) noexcept {
  if (!request.process->alive() || request.question.order >= GC_ORDERS) return true;
  BoardArrivals told;
  const bool known = read_arrivals(request.question, &told);
  if (known || first) request.process->put(BoardMessage::kCome, &told, sizeof told);
  return known;
}

}  // namespace gpucoll::coll
