#include "net/bootstrap/gathering.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/mutant.h"
#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/rendezvous.h"

namespace gpucoll::net {

using proto::BootstrapHello;
using proto::BootstrapWord;
using proto::WordKind;

namespace {
constexpr int64_t kForFailures = 10;  // seconds

std::string host_of(const proto::BootstrapAddress& of) {
  return std::string(of.host, strnlen(of.host, sizeof of.host));
}

// Returns where a rank is that has just come, as far as this process knows. Its host's name comes later.
std::string place_of(int fd, const BootstrapHello& hello) {
  if (hello.host != 0 && hello.host == loopback_id()) return "on host " + host_of(own_address({}));
  SocketAddress peer;
  peer.bytes = sizeof peer.storage;
  if (getpeername(fd, peer.get(), &peer.bytes) != 0) return "of another host";
  return "at " + ip_text(address_of(*peer.get()));
}
}  // namespace

BootstrapWord failed_word(const Status& why) {
  BootstrapWord word = {};
  word.kind = WordKind::kFailed;
  word.code = static_cast<uint32_t>(why.code());
  std::snprintf(word.text, sizeof word.text, "%s", why.what());
  return word;
}

Status failure_of(const BootstrapWord& word) {
  const size_t length = strnlen(word.text, sizeof word.text);
  return Status(static_cast<Code>(word.code), std::string(word.text, length));
}

std::string process_at(const proto::BootstrapAddress& of) {
  return "process " + std::to_string(of.pid) + " on host " + host_of(of);
}

std::string Gathering::name(size_t rank) const {
  const Seat& seat = seats_[rank];
  return "rank " + std::to_string(rank) + " (process " + std::to_string(seat.pid) + " " + seat.place + ")";
}

Status Gathering::failure() const { return failure_of(failure_); }

void Gathering::watch(PollSet* set) const {
  for (const Seat& seat : seats_) seat.line.watch(set);
}

void Gathering::begin(int size) {
  if (!seats_.empty()) return;
  seats_.resize(static_cast<size_t>(size));
  deadline_ = deadline_after(0);
  state_ = State::gathering;
}

Status Gathering::contradiction(const BootstrapHello& hello) const {
  if (static_cast<size_t>(hello.size) != seats_.size())
    return Status::error(Code::invalid_usage, "rank %d says that the communicator has %d ranks, another rank says %zu",
                         hello.rank, hello.size, seats_.size());
  if (seats_[static_cast<size_t>(hello.rank)].come)
    return Status::error(Code::invalid_usage, "two processes or threads say that they are rank %d of %d", hello.rank,
                         hello.size);
  return {};
}

void Gathering::admit(Door::Guest guest, std::chrono::seconds after_failure) {
  const BootstrapHello& hello = guest.hello;
  begin(hello.size);
  if (guest.spare)
    fail(Status::error(Code::system,
                       "%s, which made the unique id, has no descriptor left for the connections "
                       "of all ranks; raise `ulimit -n`, the number of files that a process may have open",
                       process_at(own_address({})).c_str()),
         after_failure);
  Line line(std::move(guest.fd));
  Status status = state_ == State::failed ? Status() : contradiction(hello);
  if (!status) fail(status, after_failure);
  if (state_ == State::failed) {
    tell(&line);
    if (hello.rank < static_cast<int>(seats_.size())) seats_[static_cast<size_t>(hello.rank)].told = true;
    return end_if_all_are_told();
  }
  Seat& seat = seats_[static_cast<size_t>(hello.rank)];
  seat.place = place_of(line.fd(), hello);
  seat.line = std::move(line);
  seat.pid = hello.pid;
  seat.host = hello.host;
  seat.timeout_s = hello.timeout_s;
  seat.come = true;
  wait_no_longer_than(hello.timeout_s);
  go_on();
}

void Gathering::decline(int rank, int size, const Status& why, std::chrono::seconds after_failure) {
  begin(size);
  if (rank < static_cast<int>(seats_.size())) seats_[static_cast<size_t>(rank)].told = true;
  fail(why, after_failure);
}

void Gathering::fail(const Status& why, std::chrono::seconds after_failure) {
  if (state_ != State::failed) {
    state_ = State::failed;
    failure_ = failed_word(why);
    deadline_ = Clock::now() + after_failure;
    for (Seat& seat : seats_) {
      if (!seat.line) continue;
      tell(&seat.line);
      seat.told = true;
    }
  }
  end_if_all_are_told();
}

// Hangs up at once: the other side receives what was sent none the less.
void Gathering::tell(Line* line) const {
  if (!gc_mutant(121)) line->put(&failure_, sizeof failure_);
  line->hang_up();
}

bool Gathering::all(bool Seat::*fact) const {
  return std::all_of(seats_.begin(), seats_.end(), [fact](const Seat& seat) { return seat.*fact; });
}

void Gathering::end_if_all_are_told() { over_ = over_ || all(&Seat::told); }

void Gathering::wait_no_longer_than(int32_t timeout_s) {
  const Deadline deadline = deadline_after(timeout_s);
  if (deadline >= deadline_) return;
  deadline_ = deadline;
  timeout_s_ = timeout_s;
}

void Gathering::turn(const PollSet& set, std::chrono::seconds after_failure) {
  for (size_t r = 0; r < seats_.size(); ++r)
    if (seats_[r].line && set.ready(seats_[r].line.fd())) serve(static_cast<int>(r), after_failure);
  // Only now: who says why may have made another one leave.
  for (size_t r = 0; r < seats_.size(); ++r)
    if (seats_[r].line && seats_[r].line.ended()) miss(static_cast<int>(r), after_failure);
  if (Clock::now() < deadline_) return;
  if (state_ == State::gathering || state_ == State::readying)
    fail(too_late(), after_failure);
  else
    over_ = true;
}

void Gathering::serve(int rank, std::chrono::seconds after_failure) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  seat.line.turn();
  BootstrapWord word;
  while (seat.line && seat.line.take(&word, sizeof word)) take(rank, word, after_failure);
}

void Gathering::miss(int rank, std::chrono::seconds after_failure) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  seat.line.hang_up();
  seat.told = true;
  fail(Status::error(Code::remote, "%s left before all ranks of the communicator had met; it has failed",
                     name(static_cast<size_t>(rank)).c_str()),
       after_failure);
}

void Gathering::take(int rank, const BootstrapWord& word, std::chrono::seconds after_failure) {
  Seat& seat = seats_[static_cast<size_t>(rank)];
  switch (word.kind) {
    case WordKind::kReady:
      if (!std::exchange(seat.ready, true)) {
        seat.listener = word.listener;
        seat.place = "on host " + host_of(word.listener);
      }
      if (state_ == State::readying) wait_no_longer_than(seat.timeout_s);
      return go_on();
    case WordKind::kDone:
      seat.line.hang_up();
      seat.told = true;
      return end_if_all_are_told();
    default:
      seat.line.hang_up();
      seat.told = true;
      return fail(failure_of(word), after_failure);
  }
}

void Gathering::go_on() {
  BootstrapWord word = {};
  std::vector<proto::BootstrapAddress> addresses;
  if (state_ == State::gathering && all(&Seat::come)) {
    state_ = State::readying;
    deadline_ = deadline_after(0);  // until one waits for the others again
    const uint64_t host = seats_[0].host;
    word.kind = WordKind::kAllCome;
    word.one_host = host && std::all_of(seats_.begin(), seats_.end(), [=](const Seat& s) { return s.host == host; });
    word.maker = maker();
  } else if (state_ == State::readying && all(&Seat::ready)) {
    state_ = State::parting;
    // A rank that waits in vain for another tells it after its timeout.
    deadline_ = deadline_after(timeout_s_ ? timeout_s_ + kForFailures : 0);
    word.kind = WordKind::kAddresses;
    for (const Seat& seat : seats_) addresses.push_back(seat.listener);
  } else {
    return;
  }
  for (Seat& seat : seats_) {
    seat.line.put(&word, sizeof word);
    seat.line.put(addresses.data(), addresses.size() * sizeof addresses[0]);
  }
}

int Gathering::maker() const {
  const uint64_t here = loopback_id();
  const auto is_maker = [&](const Seat& s) { return s.pid == getpid() && s.host == here; };
  const auto seat = std::find_if(seats_.begin(), seats_.end(), is_maker);
  return seat == seats_.end() ? -1 : static_cast<int>(seat - seats_.begin());
}

// The guests cannot know who is missing.
Status Gathering::too_late() const {
  constexpr size_t kMostNamed = 8;
  const auto fact = state_ == State::gathering ? &Seat::come : &Seat::ready;
  std::string names;
  size_t missing = 0;
  for (size_t r = 0; r < seats_.size(); ++r) {
    if (seats_[r].*fact || ++missing > kMostNamed) continue;
    names += (missing > 1 ? ", " : "") + std::to_string(r);
    if (seats_[r].come) names += " (process " + std::to_string(seats_[r].pid) + " " + seats_[r].place + ")";
  }
  if (missing > kMostNamed) names += " and " + std::to_string(missing - kMostNamed) + " more";
  return Status::error(Code::timed_out, "%s %s of %zu did not come within %d s (parameter timeout)",
                       missing > 1 ? "ranks" : "rank", names.c_str(), seats_.size(), timeout_s_);
}

}  // namespace gpucoll::net
