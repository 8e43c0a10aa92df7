#include "net/bootstrap/rendezvous.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/mutant.h"
#include "base/service_thread.h"
#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/of_this_process.h"

namespace gpucoll::net {

using proto::BootstrapHello;
using proto::UniqueId;

namespace {

bool makes_sense(const BootstrapHello& hello) {
  return hello.magic == proto::kBootstrapMagic && hello.size > 0 && hello.size <= proto::kMostRanks &&
         hello.rank >= 0 && hello.rank < hello.size && hello.level == -1;
}

}  // namespace

proto::BootstrapAddress own_address(const proto::ListenAddress& at) {
  proto::BootstrapAddress own = {at, getpid(), ""};
  gethostname(own.host, sizeof own.host);
  return own;
}

Rendezvous& Rendezvous::instance() {
  return of_this_process<Rendezvous>();  // its thread does not come along with a fork
}

Result<UniqueId> Rendezvous::make_id() {
  UniqueId id = {};
  id.magic = proto::kBootstrapMagic;
  if (getrandom(&id.nonce, sizeof id.nonce, 0) != sizeof id.nonce)
    return Status::system(errno, "this process cannot get random bytes for a unique id");
  std::lock_guard lock(mutex_);
  Status status = contained([&] { return start(); });
  auto address = status ? entrance() : Result<proto::ListenAddress>(status);
  if (!address) {
    wake();  // to end where it has nothing to do
    return address.status();
  }
  id.root = own_address(*address);
  drop_oldest_unused();
  gatherings_.emplace(id.nonce, Gathering(++made_, Clock::now() + limits_.unused));
  wake();
  return id;
}

void Rendezvous::drop_oldest_unused() {
  const auto unused = [](const auto& entry) { return entry.second.unused(); };
  const auto older = [&](const auto& a, const auto& b) {
    return unused(a) != unused(b) ? unused(a) : a.second.number() < b.second.number();
  };
  if (static_cast<size_t>(std::count_if(gatherings_.begin(), gatherings_.end(), unused)) >= limits_.most_unused)
    gatherings_.erase(std::min_element(gatherings_.begin(), gatherings_.end(), older));
}

// Returns where this process listens at the addresses that are to be used.
Result<proto::ListenAddress> Rendezvous::entrance() {
  GC_TRY_AS(Addresses wanted, local_addresses());
  if (gc_mutant(123)) wanted.ipv4.bytes = {};
  for (const Entrance& known : entrances_)
    if (known.wanted.ipv4.is_same_ip(wanted.ipv4) && known.wanted.ipv6.is_same_ip(wanted.ipv6))
      return to_format(known.at);
  Entrance made = {wanted, {}, {}};
  GC_TRY_AS(auto listeners, listen_on(wanted, &made.at));
  made.door = Door(std::move(listeners), Door::kMostRanks);
  entrances_.push_back(std::move(made));
  return to_format(entrances_.back().at);
}

Status Rendezvous::start() {
  if (running_) return {};
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return Status::system(errno, "this process cannot create an eventfd for its unique ids");
  spare_ = std::make_unique<Spare>();
  service_thread([this] { run(); }).detach();
  running_ = true;  // only now: starting a thread may fail
  return {};
}

void Rendezvous::wake() noexcept {
  const uint64_t one = 1;
  if (wake_ && write(wake_.get(), &one, sizeof one) < 0) return;  // it is awake already
}

bool Rendezvous::decline(const UniqueId& id, int rank, int size, const Status& why) {
  std::lock_guard lock(mutex_);
  const auto found = gatherings_.find(id.nonce);
  if (found == gatherings_.end()) return false;
  found->second.decline(rank, size, why, limits_.after_failure);
  wake();
  return true;
}

Status Rendezvous::refusal(const proto::UniqueId& id, int rank, int size) {
  std::lock_guard lock(mutex_);
  const auto found = gatherings_.find(id.nonce);
  if (found == gatherings_.end()) return {};
  if (found->second.failed()) return found->second.failure();
  if (!stuck_) found->second.decline(rank, size, stuck_, limits_.after_failure);
  return stuck_;
}

void Rendezvous::run() {
  pthread_setname_np(pthread_self(), "gpucoll-meet");
  std::unique_lock lock(mutex_);
  while (!gatherings_.empty()) {
    PollSet set = watched();
    const Deadline deadline = next_deadline();
    lock.unlock();
    set.wait(deadline).ignore();  // who is too late is found out by each
    lock.lock();
    contained([&]() -> Status {
      serve(set);
      return {};
    }).ignore();  // no memory: the next turn tries again
    if (!std::exchange(resting_, false)) continue;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lock.lock();
  }
  for (Entrance& entrance : entrances_) entrance.door.shut();
  entrances_.clear();
  wake_.reset();
  spare_.reset();
  running_ = false;
}

PollSet Rendezvous::watched() const {
  PollSet set;
  set.add(wake_.get(), POLLIN);
  for (const Entrance& entrance : entrances_) entrance.door.watch(&set);
  for (const auto& [nonce, gathering] : gatherings_) gathering.watch(&set);
  return set;
}

Deadline Rendezvous::next_deadline() const {
  Deadline first = deadline_after(0);
  for (const auto& [nonce, gathering] : gatherings_) first = std::min(first, gathering.deadline());
  return first;
}

void Rendezvous::serve(const PollSet& set) {
  uint64_t count;
  while (read(wake_.get(), &count, sizeof count) > 0) {
  }
  stuck_ = {};
  for (Entrance& entrance : entrances_) serve(entrance, set);
  for (auto& [nonce, gathering] : gatherings_) gathering.turn(set, limits_.after_failure);
  std::erase_if(gatherings_, [](const auto& entry) { return entry.second.over(); });
}

void Rendezvous::serve(Entrance& entrance, const PollSet& set) {
  std::vector<Door::Guest> guests;
  Status status = entrance.door.serve(set, makes_sense, &guests);
  for (Door::Guest& guest : guests) welcome(std::move(guest));
  if (status) return;
  resting_ = true;
  stuck_ = status;
  // Those who have come wait for one who cannot come in.
  for (auto& [nonce, gathering] : gatherings_)
    if (gathering.gathers()) gathering.fail(status, limits_.after_failure);
}

void Rendezvous::welcome(Door::Guest guest) {
  const auto found = gatherings_.find(guest.hello.nonce);
  if (found != gatherings_.end()) return found->second.admit(std::move(guest), limits_.after_failure);
  const proto::BootstrapWord word =
      failed_word(Status::error(Code::remote,
                                "%s, which made the unique id, knows it no longer: it was used before, or %zu newer "
                                "ones have been made since. Each makes one communicator",
                                process_at(own_address({})).c_str(), limits_.most_unused));
  Line line(std::move(guest.fd));
  line.put(&word, sizeof word);
}

}  // namespace gpucoll::net
