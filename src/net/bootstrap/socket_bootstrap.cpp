#include "net/bootstrap/socket_bootstrap.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"
#include "base/system_limits.h"
#include "net/bootstrap/gathering.h"
#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/rendezvous.h"

namespace gpucoll::net {
namespace {

using proto::BootstrapAddress;
using proto::BootstrapFarewell;
using proto::BootstrapHello;
using proto::BootstrapWord;
using proto::WordKind;

constexpr int64_t kGrace = 5;  // seconds, for the rendezvous to tell who is missing
// For the maker to tell who has failed first, after something has come of it here.
constexpr std::chrono::milliseconds kPatience{2000};
// A rank that has waited for the parameter timeout looks so often for ranks that are stopped.
constexpr std::chrono::milliseconds kLookForStopped{100};
// A rank in the maker's process looks so often at whether the maker can answer at all (Rendezvous::refusal).
constexpr std::chrono::milliseconds kLookAtMaker{50};
// Returns whether a process listens on this host, as far as the interfaces tell that ranks use.
bool is_here(const proto::ListenAddress& at, const Addresses& own) {
  const Addresses there = from_format(at);
  const auto is_one_of = [&](const Addresses& here) {
    return (there.ipv4 && there.ipv4.is_same_ip(here.ipv4)) || (there.ipv6 && there.ipv6.is_same_ip(here.ipv6));
  };
  return is_one_of(loopback_addresses()) || is_one_of(own);
}

// Processes of which /proc shows nothing are not stopped here. REQUIRES: the process is of this host.
bool is_stopped(int pid) {
  std::string stat;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), stat);
  const size_t name = stat.rfind(')');  // which may hold anything
  return name != std::string::npos && name + 2 < stat.size() && (stat[name + 2] == 'T' || stat[name + 2] == 't');
}

constexpr auto kHungUp = static_cast<short>(POLLRDHUP | POLLHUP | POLLERR);

Deadline with_grace(int64_t timeout_s) { return deadline_after(timeout_s ? timeout_s + kGrace : 0); }

// Reads what a rank said before it hung up; false where that was nothing.
bool farewell_of(int fd, BootstrapFarewell* farewell) {
  return recv(fd, farewell, sizeof *farewell, MSG_PEEK | MSG_DONTWAIT) == sizeof *farewell;
}

Status check(const proto::UniqueId& id, int rank, int size) {
  constexpr uint64_t kVersion = 0xff;  // the byte of the magic that is the format's version
  if (id.magic != proto::kBootstrapMagic && (id.magic | kVersion) == (proto::kBootstrapMagic | kVersion))
    return Status::error(Code::invalid_argument,
                         "the unique id was made by another version of gpucoll, which knows other addresses: install "
                         "one version everywhere");
  if (id.magic != proto::kBootstrapMagic || !id.root.at.anywhere())
    return Status::error(Code::invalid_argument,
                         "the unique id was not made by gpucollGetUniqueId (or not passed on whole)");
  if (size > proto::kMostRanks)
    return Status::error(Code::invalid_argument, "rank %d of %d ranks: a communicator has at most %d", rank, size,
                         proto::kMostRanks);
  return {};
}

}  // namespace

Result<proto::UniqueId> make_unique_id() { return Rendezvous::instance().make_id(); }

Result<std::unique_ptr<SocketBootstrap>> SocketBootstrap::create(const proto::UniqueId& id, int rank, int size,
                                                                 int64_t timeout_s, Watch watch) {
  GC_TRY(check(id, rank, size));
  std::unique_ptr<SocketBootstrap> self(new SocketBootstrap(id, rank, size, timeout_s, std::move(watch)));
  Status status = contained([&] { return self->meet(); });
  if (status) return self;
  if (self->root_)
    self->give_up(status);
  else if (!self->failure_ && (status.code() != Code::remote || self->turned_away_))
    decline(id, rank, size, status);
  return status;
}

void SocketBootstrap::decline(const proto::UniqueId& id, int rank, int size, const Status& why) noexcept {
  contained([&]() -> Status {
    GC_TRY(check(id, rank, size));
    const Status told = Status::error(why.code(), "rank %d of %d (%s): %s", rank, size,
                                      process_at(own_address({})).c_str(), why.what());
    if (Rendezvous::instance().decline(id, rank, size, told)) return {};
    const Deadline deadline = deadline_after(2);
    const Addresses root = from_format(id.root.at);
    auto way = way_to(id.root.at);
    if (!way) way = root.ipv4 ? root.ipv4 : root.ipv6;  // what is wrong here may be a parameter of addresses
    Spare::Spent spare;
    auto connected = connect_to(*way, deadline);
    if (!connected && (spare = Spare::spend())) connected = connect_to(*way, deadline);
    if (!connected) return connected.status();
    SocketBootstrap self(id, rank, size, 0);
    self.root_ = Line(*std::move(connected));
    const BootstrapHello hello = self.hello(-1);
    self.root_.put(&hello, sizeof hello);
    self.give_up(told);
    // Hanging up at once might look like a stranger's doing.
    while (!self.root_.ended()) {
      PollSet set;
      self.root_.watch(&set);
      GC_TRY(set.wait(deadline));
      self.root_.turn();
    }
    return {};
  }).ignore();  // then the others wait for this rank as long as the parameter timeout says
}

BootstrapHello SocketBootstrap::hello(int level) const {
  return {proto::kBootstrapMagic,        id_.nonce, rank_, size_, level, static_cast<int32_t>(timeout_s_),
          level < 0 ? loopback_id() : 0, getpid(),  0};
}

Status SocketBootstrap::meet() {
  const Deadline deadline = with_grace(timeout_s_);
  begin_waiting();
  const auto own = local_addresses();
  const auto way = own ? way_between(*own, from_format(id_.root.at)) : Result<Address>(own.status());
  if (!way)
    return Status::error(way.status().code(), "rank %d of %d cannot reach %s, which made the unique id: %s", rank_,
                         size_, process_at(id_.root).c_str(), way.status().what());
  own_ = *own;
  const Address& root = *way;
  constexpr int kAttempts = 6;  // where strangers crowd the maker, it may take this rank for one of them
  Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt) std::this_thread::sleep_for(std::chrono::milliseconds(10 << attempt));
    auto come = come_to(root, deadline);
    if (come && *come) return {};
    if (failure_) return *failure_;
    if (ended_) return *ended_;
    turned_away_ = come.ok();
    status = come ? Status::error(Code::remote, "%s hung up", to_string(root).c_str()) : come.status();
    if (!come) break;
  }
  if (status.blames()) return status;
  if (status.code() == Code::timed_out)
    return Status::error(Code::timed_out, "%s did not answer rank %d of %d at %s within %lld s (parameter timeout)",
                         maker_name().c_str(), rank_, size_, to_string(root).c_str(),
                         static_cast<long long>(timeout_s_ + kGrace));
  if (status.code() != Code::remote) return status;
  if (turned_away_)
    return Status::error(status.code(),
                         "%s hung up on rank %d of %d %d times without a word: it has no descriptors left (then raise "
                         "`ulimit -n`, the number of files that a process may have open), or strangers crowd its port",
                         maker_name().c_str(), rank_, size_, kAttempts);
  return Status::error(status.code(),
                       "%s does not answer rank %d of %d (%s): is it still running? Was the id used before? Each makes "
                       "one communicator",
                       maker_name().c_str(), rank_, size_, status.what());
}

// As connect_to(), but asks the watch, and names the maker where it does not answer.
Result<UniqueFd> SocketBootstrap::reach(const Address& root, Deadline deadline) {
  GC_TRY_AS(Dial dial, Dial::start(root));
  while (Clock::now() < deadline) {
    PollSet set;
    dial.watch(&set);
    GC_TRY(set.wait(deadline, kLookAtMaker));
    GC_TRY(ask_watch());
    GC_TRY(look_for_silence(process_at(id_.root) + ", which made the unique id", root, false));
    GC_TRY_AS(UniqueFd fd, dial.finish());
    if (fd) return fd;
  }
  return connect_to(root, deadline);  // which says that it is too late
}

Result<bool> SocketBootstrap::come_to(const Address& root, Deadline deadline) {
  GC_TRY_AS(UniqueFd fd, reach(root, deadline));
  root_ = Line(std::move(fd));
  const BootstrapHello mine = hello(-1);
  root_.put(&mine, sizeof mine);
  BootstrapWord word;
  for (;;) {
    PollSet set;
    root_.watch(&set);
    GC_TRY(set.wait(deadline, kLookAtMaker));
    root_.turn();
    if (root_.take(&word, sizeof word)) break;
    if (Status refused = Rendezvous::instance().refusal(id_, rank_, size_); !refused) return *(failure_ = refused);
    if (Status stopped = stopped_rank(); !stopped) return *(failure_ = stopped);
    GC_TRY(ask_watch());
    if (!root_.ended()) continue;
    root_.hang_up();
    return false;
  }
  one_host_ = word.one_host != 0;
  maker_ = word.kind == WordKind::kAllCome ? word.maker : -1;
  if (word.kind == WordKind::kAllCome) return true;
  failure_ = failure_of(word);
  return *failure_;
}

int SocketBootstrap::levels() const { return std::bit_width(static_cast<unsigned>(size_ - 1)); }

bool SocketBootstrap::expects(const BootstrapHello& hello) const {
  return hello.nonce == id_.nonce && hello.size == size_ && hello.level >= 0 && hello.level < levels() &&
         hello.rank == rank_after(hello.level) && !from_[static_cast<size_t>(hello.level)];
}

Status SocketBootstrap::hear_maker() {
  if (failure_) return *failure_;
  if (!root_) return {};
  root_.turn();
  for (BootstrapWord word; !addresses_follow_ && root_.take(&word, sizeof word);) {
    if (word.kind == WordKind::kFailed) return *(failure_ = failure_of(word));
    if (word.kind != WordKind::kAddresses) continue;
    addresses_follow_ = true;
    addresses_.clear();
  }
  std::vector<BootstrapAddress> all(addresses_follow_ ? static_cast<size_t>(size_) : 0);
  if (addresses_follow_ && root_.take(all.data(), all.size() * sizeof all[0])) {
    addresses_ = std::move(all);
    addresses_follow_ = false;
    return hear_maker();  // what came behind them
  }
  if (root_.ended()) root_.hang_up();
  return {};
}

void SocketBootstrap::watch_others(PollSet* set) const {
  root_.watch(set);
  for (size_t l = 0; l < to_.size(); ++l)
    if (to_[l] && !left_[l]) set->add(to_[l].get(), POLLRDHUP);
}

Status SocketBootstrap::wait(PollSet* set, Deadline deadline, std::chrono::milliseconds most) {
  watch_others(set);
  const bool looks = watch_ || Clock::now() > patience_;
  GC_TRY(set->wait(deadline, looks ? std::min(most, kLookForStopped) : most));
  GC_TRY(hear_maker());
  GC_TRY(ask_watch());
  return stopped_rank();
}

void SocketBootstrap::begin_waiting() {
  begun_ = Clock::now();
  patience_ = deadline_after(timeout_s_);
}

Status SocketBootstrap::look_for_silence(const std::string& whom, const Address& at, bool taken) {
  const auto say = [&](int64_t seconds, const char* parameter) {
    return unanswered("rank " + std::to_string(rank_) + " of " + std::to_string(size_), seconds, parameter, whom, at,
                      taken);
  };
  const int64_t report_after = params().report_after;
  if (report_after && Clock::now() - begun_ > std::chrono::seconds(report_after) && !std::exchange(silence_told_, true))
    log::write(log::Level::warn, "%s", say(report_after, "report_after").c_str());
  if (!timeout_s_ || Clock::now() < patience_) return {};
  return Status::error(Code::timed_out, "%s", say(timeout_s_, "timeout").c_str()).blaming();
}

Status SocketBootstrap::ask_watch() {
  if (!ended_ && watch_)
    if (Status status = watch_(); !status) ended_ = std::move(status);
  return ended_ ? *ended_ : Status();
}

std::string SocketBootstrap::rank_at(int rank) const {
  return "rank " + std::to_string(rank) + " (" + process_at(addresses_[static_cast<size_t>(rank)]) + ")";
}

std::string SocketBootstrap::maker_name() const {
  const std::string process = process_at(id_.root);
  if (maker_ < 0) return process + ", which made the unique id,";
  return "rank " + std::to_string(maker_) + " (" + process + "), which made the unique id,";
}

// Nobody but this rank can tell of a maker that is stopped; and where all ranks have met, the maker waits for nobody.
Status SocketBootstrap::stopped_rank() const {
  if (!timeout_s_ || Clock::now() < patience_ || gc_mutant(125)) return {};
  std::string who;
  if ((is_here(id_.root.at, own_) || gc_mutant(127)) && is_stopped(id_.root.pid)) who = maker_name();
  for (size_t r = 0; one_host_ && r < addresses_.size(); ++r)
    if (is_stopped(addresses_[r].pid)) who = rank_at(static_cast<int>(r));
  if (who.empty()) return {};
  return Status::error(
             Code::timed_out,
             "%s is stopped, by a signal or a debugger, while rank %d waited %lld s for it (parameter timeout)",
             who.c_str(), rank_, static_cast<long long>(timeout_s_))
      .blaming();
}

// Leaves out those that were through before they hung up.
Status SocketBootstrap::look_for_hangups(const PollSet& set) {
  for (size_t l = 0; l < to_.size(); ++l) {
    if (!to_[l] || left_[l] || !(set.ready(to_[l].get()) & kHungUp)) continue;
    BootstrapFarewell farewell;
    const bool said = farewell_of(to_[l].get(), &farewell);
    if (said && farewell.code) {
      // The maker may hear of it from here first.
      give_up(Status(static_cast<Code>(farewell.code),
                     std::string(farewell.text, strnlen(farewell.text, sizeof farewell.text))));
      return *failure_;
    }
    if (!said || farewell.rounds <= rounds_)
      return Status::error(Code::remote, "%s has left; it has failed",
                           rank_at(rank_before(static_cast<int>(l))).c_str());
    left_[l] = true;
  }
  return {};
}

Status SocketBootstrap::open_door() {
  Addresses own = one_host_ ? loopback_addresses() : own_;
  if (one_host_ && params().socket_family != kSocketFamilyAuto)
    (params().socket_family == kSocketFamilyIpv4 ? own.ipv6 : own.ipv4) = {};
  if (gc_mutant(124)) own.ipv4.bytes = {};
  Addresses at;
  auto listeners = listen_on(own, &at);
  if (!listeners && one_host_) listeners = listen_on(loopback_addresses(), &at);  // not all hosts have ::1
  if (!listeners) return listeners.status();
  door_ = Door(*std::move(listeners));
  BootstrapWord ready = {};
  ready.kind = WordKind::kReady;
  ready.listener = own_address(to_format(at));
  root_.put(&ready, sizeof ready);
  return {};
}

Status SocketBootstrap::learn_addresses(Deadline deadline) {
  while (addresses_.empty()) {
    if (!root_)
      return Status::error(Code::remote, "%s left before all ranks had met; it has failed", maker_name().c_str());
    PollSet set;
    door_.watch(&set);
    GC_TRY(wait(&set, deadline));
    GC_TRY(accept(set));
  }
  return {};
}

bool SocketBootstrap::all_connected() const {
  const auto there = [](const UniqueFd& fd) { return static_cast<bool>(fd); };
  return std::all_of(to_.begin(), to_.end(), there) && std::all_of(from_.begin(), from_.end(), there);
}

// All connections before any data: a rank that has hung up by then has failed, it cannot have finished. Others may
// wait for it in vain, and not know it, while this one waits for them: so it goes on looking. Nobody else is expected
// then, so that this rank stops listening.
Status SocketBootstrap::connect(Deadline deadline) {
  const auto n = static_cast<size_t>(levels());
  if (to_.size() == n && all_connected()) return {};
  to_.resize(n), from_.resize(n), left_.resize(n);
  GC_TRY(open_door());
  GC_TRY(learn_addresses(deadline));
  std::vector<Call> calls;
  GC_TRY(begin_calls(&calls));
  while (!all_connected()) {
    PollSet set;
    door_.watch(&set);
    for (const Call& call : calls) call.dialed.watch(&set);
    GC_TRY(wait(&set, deadline, calls.empty() ? kLookForStopped : kLookAtMaker));
    GC_TRY(advance(&calls));
    GC_TRY(accept(set));
    GC_TRY(look_for_hangups(set));
    if (calls.empty()) continue;
    const Call& call = calls[0];
    GC_TRY(look_for_silence(rank_at(rank_before(call.level)), call.dialed.address(), call.dialed.taken()));
  }
  door_.shut();
  return {};
}

Status SocketBootstrap::unreached(int level, const Status& why) const {
  if (why.code() == Code::unsupported)
    return Status::error(why.code(), "rank %d cannot reach rank %d: %s", rank_, rank_before(level), why.what());
  if (why.code() != Code::remote) return why;
  return Status::error(Code::remote, "rank %d does not reach %s, which may have failed: %s", rank_,
                       rank_at(rank_before(level)).c_str(), why.what());
}

Status SocketBootstrap::begin_calls(std::vector<Call>* calls) {
  for (int level = 0; level < levels(); ++level) {
    const proto::ListenAddress& at = addresses_[static_cast<size_t>(rank_before(level))].at;
    const auto way = way_between(one_host_ ? loopback_addresses() : own_, from_format(at));
    if (!way) return unreached(level, way.status());
    auto dialed = DialedConnection::start(*way, hello(level));
    if (!dialed) return unreached(level, dialed.status());
    calls->push_back({level, *std::move(dialed)});
  }
  return {};
}

Status SocketBootstrap::advance(std::vector<Call>* calls) {
  for (Call& call : *calls) {
    auto fd = call.dialed.finish();
    if (!fd) return unreached(call.level, fd.status());
    to_[static_cast<size_t>(call.level)] = *std::move(fd);
  }
  std::erase_if(*calls, [this](const Call& call) { return static_cast<bool>(to_[static_cast<size_t>(call.level)]); });
  return {};
}

// A guest that has hung up meanwhile dials again.
Status SocketBootstrap::accept(const PollSet& set) {
  std::vector<Door::Guest> guests;
  Status status = door_.serve(
      set, [this](const BootstrapHello& hello) { return expects(hello); }, &guests);
  for (Door::Guest& guest : guests)
    if (send(guest.fd.get(), &proto::kAdmitted, 1, MSG_NOSIGNAL) == 1)
      from_[static_cast<size_t>(guest.hello.level)] = std::move(guest.fd);
  return status;
}

Status SocketBootstrap::exchange(int level, const uint8_t* out, uint8_t* in, size_t bytes, Deadline deadline) {
  const auto l = static_cast<size_t>(level);
  Transfer transfers[] = {{to_[l].get(), const_cast<uint8_t*>(out), bytes, true}, {from_[l].get(), in, bytes, false}};
  while (transfers[0].left || transfers[1].left) {
    PollSet set;
    for (const Transfer& t : transfers)
      if (t.left) set.add(t.fd, t.sending ? POLLOUT : POLLIN);
    GC_TRY(wait(&set, deadline));
    GC_TRY(look_for_hangups(set));  // first: who hangs up may say why
    for (Transfer& t : transfers) {
      Status status = t.left && set.ready(t.fd) ? t.step() : Status();
      if (status.code() == Code::remote)
        return Status::error(Code::remote, "%s has left; it has failed",
                             rank_at(t.sending ? rank_before(level) : rank_after(level)).c_str());
      GC_TRY(std::move(status));
    }
  }
  return {};
}

Status SocketBootstrap::gather(const void* mine, void* all, size_t bytes) {
  const auto n = static_cast<size_t>(size_);
  if (failure_) return *failure_;
  begin_waiting();
  if (n > 1) GC_TRY(connect(with_grace(timeout_s_)));
  const Deadline deadline = deadline_after(timeout_s_);
  std::vector<uint8_t> ring(n * bytes);  // ring[i] is the block of rank (rank + i) mod n
  std::memcpy(ring.data(), mine, bytes);
  for (size_t have = 1; have < n; have *= 2) {
    const int level = std::countr_zero(have);
    const size_t count = std::min(have, n - have);
    Status status = exchange(level, ring.data(), ring.data() + have * bytes, count * bytes, deadline);
    if (!status && !failure_ && !status.blames())
      return Status::error(status.code(), "rank %d, waiting for rank %d and rank %d: %s", rank_, rank_before(level),
                           rank_after(level), status.what());
    GC_TRY(std::move(status));
  }
  for (size_t i = 0; i < n; ++i)
    std::memcpy(static_cast<uint8_t*>(all) + (static_cast<size_t>(rank_) + i) % n * bytes, ring.data() + i * bytes,
                bytes);
  ++rounds_;
  return {};
}

Status SocketBootstrap::allgather(const void* mine, void* all, size_t bytes) {
  Status status = contained([&] { return gather(mine, all, bytes); });
  return status ? Status() : cause_of(std::move(status));
}

// Asks as the waits of an allgather do.
Status SocketBootstrap::look() {
  Status status = contained([&]() -> Status {
    PollSet set;
    watch_others(&set);
    GC_TRY(set.look());
    GC_TRY(hear_maker());
    GC_TRY(ask_watch());
    return look_for_hangups(set);
  });
  return status ? Status() : cause_of(std::move(status));
}

Status SocketBootstrap::cause_of(Status mine) noexcept {
  if (mine.code() == Code::remote && !ended_) {
    const Deadline deadline = Clock::now() + kPatience;
    contained([&]() -> Status {
      while (root_ && !failure_) {
        PollSet set;
        root_.watch(&set);
        GC_TRY(set.wait(deadline));
        GC_TRY(hear_maker());
      }
      return {};
    }).ignore();
  }
  if (failure_) return *failure_;
  if (mine.code() != Code::remote && mine.code() != Code::timed_out)
    mine = Status::error(mine.code(), "rank %d of %d (%s): %s", rank_, size_, process_at(own_address({})).c_str(),
                         mine.what());
  give_up(mine);
  return mine;
}

void SocketBootstrap::give_up(const Status& why) noexcept {
  contained([&]() -> Status {
    if (failure_) return {};
    failure_ = why;
    const BootstrapWord word = failed_word(why);
    if (root_) root_.put(&word, sizeof word);
    return {};
  }).ignore();
}

// To the ranks that send to this one, and those that have knocked meanwhile.
void SocketBootstrap::say_farewell() {
  BootstrapFarewell farewell = {};
  farewell.rounds = rounds_;
  if (failure_) {
    farewell.code = static_cast<uint32_t>(failure_->code());
    std::snprintf(farewell.text, sizeof farewell.text, "%s", failure_->what());
  }
  if (door_) {
    PollSet set;
    door_.watch(&set);
    set.wait(Clock::now() + std::chrono::milliseconds(1)).ignore();
    accept(set).ignore();
  }
  for (const UniqueFd& fd : from_)
    if (fd && send(fd.get(), &farewell, sizeof farewell, MSG_NOSIGNAL) < 0) continue;  // nobody is there to hear it
}

// Until the maker has let this rank go: where that is this process, none of its descriptors are left then.
void SocketBootstrap::take_leave() {
  BootstrapWord done = {};
  done.kind = WordKind::kDone;
  root_.put(&done, sizeof done);
  const Deadline deadline = Clock::now() + std::chrono::milliseconds(200);
  while (!root_.ended()) {
    PollSet set;
    root_.watch(&set);
    if (!set.wait(deadline)) return;
    root_.turn();
  }
}

SocketBootstrap::~SocketBootstrap() {
  contained([&]() -> Status {
    say_farewell();
    const bool through = rounds_ || size_ == 1;
    if (root_ && !failure_ && through) take_leave();
    return {};
  }).ignore();
}

}  // namespace gpucoll::net
