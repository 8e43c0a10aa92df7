#include "net/tcp/endpoint.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/log.h"
#include "base/mutant.h"
#include "base/service_thread.h"
#include "base/system_limits.h"
#include "net/bootstrap/interfaces.h"
#include "net/bootstrap/of_this_process.h"

namespace gpucoll::net {
namespace {

using Clock = std::chrono::steady_clock;

// Turns that fail follow each other sooner.
constexpr std::chrono::seconds kRecent(1);
constexpr std::chrono::seconds kPatience(2);  // others may let go of what is short

}  // namespace

Result<Token> random_token() {
  Token token;
  if (getrandom(&token, sizeof token, 0) != static_cast<ssize_t>(sizeof token))
    return Status::system(errno, "this process gets no random bytes for a network connection");
  return token;
}

Endpoint& Endpoint::instance() { return of_this_process<Endpoint>(); }

Result<proto::ListenAddress> Endpoint::address() {
  std::lock_guard lock(mutex_);
  if (!listening_) GC_TRY(listen());
  return address_;
}

Result<Address> Endpoint::way_to(const proto::ListenAddress& peer) {
  std::lock_guard lock(mutex_);
  GC_TRY(find_own());
  return way_between(own_, from_format(peer));
}

// REQUIRES: the mutex.
Status Endpoint::find_own() {
  if (own_) return {};
  GC_TRY_AS(own_, local_addresses());
  return {};
}

Status Endpoint::listen() {
  widen_descriptor_table();  // before threads that must show their heartbeat open connections
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return Status::system(errno, "this process cannot make an event descriptor for its network connections");
  GC_TRY(find_own());
  Addresses at;
  GC_TRY_AS(auto listeners, listen_on(own_, &at));
  spare_.emplace();
  log::write(log::Level::info, "this process listens for other nodes at %s", to_string(at).c_str());
  address_ = to_format(at);
  door_ = Door(std::move(listeners), Door::kMostRanks);
  service_thread([this] { run(); }).detach();
  listening_ = true;  // only now: starting a thread may fail
  return {};
}

void Endpoint::wake() noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof one);  // a full counter wakes as well
}

void Endpoint::expect(const Token& token) {
  std::lock_guard lock(mutex_);
  waiting_[token];
}

void Endpoint::expect(const Token& token, Welcome welcome) {
  std::lock_guard lock(mutex_);
  waiting_[token].welcome = std::move(welcome);
}

Result<UniqueFd> Endpoint::claim(const Token& token, int number) {
  std::lock_guard lock(mutex_);
  const auto waiting = waiting_.find(token);
  if (waiting == waiting_.end()) return UniqueFd();
  const auto come = waiting->second.come.find(number);
  if (come != waiting->second.come.end()) return std::move(come->second);
  return is_unable() && !gc_mutant(613) ? Result<UniqueFd>(unable_) : UniqueFd();
}

// Returns whether nothing has been accepted for so long that it is to be told. REQUIRES: the mutex.
bool Endpoint::is_unable() const {
  return !unable_ && Clock::now() - unable_at_ < kRecent && unable_at_ - unable_since_ > kPatience;
}

void Endpoint::forget(const Token& token) {
  std::lock_guard lock(mutex_);
  waiting_.erase(token);
}

void Endpoint::serve(std::shared_ptr<Channel> channel, UniqueFd connected) {
  channel->attach(std::move(connected));
  {
    std::lock_guard lock(mutex_);
    channels_.push_back(std::move(channel));
  }
  wake();
}

void Endpoint::serve(std::shared_ptr<Channel> channel, const Token& token) {
  std::lock_guard lock(mutex_);
  waiting_[token].channel = channel;
  channels_.push_back(std::move(channel));
}

std::vector<std::shared_ptr<Channel>> Endpoint::channels() {
  std::lock_guard lock(mutex_);
  std::erase_if(channels_, [](const auto& channel) { return channel->over(); });
  std::erase_if(waiting_, [](const auto& waiting) {
    const auto& channel = waiting.second.channel;
    return channel && channel->over();
  });
  return channels_;
}

// A guest whose token nobody waits for any more is hung up on. The others hear that they are in: a fresh connection has
// room for a byte.
void Endpoint::admit(Door::Guest guest) {
  std::unique_lock lock(mutex_);
  const auto waiting = waiting_.find({guest.hello.nonce, guest.hello.host});
  if (waiting == waiting_.end()) return;
  if (send(guest.fd.get(), &proto::kAdmitted, 1, MSG_NOSIGNAL) != 1) return;
  if (waiting->second.welcome) {
    const Welcome welcome = waiting->second.welcome;
    lock.unlock();  // it serves a channel
    welcome(std::move(guest.fd));
  } else if (waiting->second.channel) {
    waiting->second.channel->attach(std::move(guest.fd));
    waiting_.erase(waiting);
  } else {
    waiting->second.come.insert_or_assign(guest.hello.level, std::move(guest.fd));
  }
}

// Errors: what keeps the thread from accepting connections.
Status Endpoint::serve_door(const PollSet& set) {
  Status short_of;
  {
    std::lock_guard lock(mutex_);
    if (is_unable()) short_of = unable_;
  }
  const Spare::Spent given_up = gc_mutant(624) ? Spare::spend() : Spare::Spent();
  std::vector<Door::Guest> guests;
  const auto knows = [this](const proto::BootstrapHello& hello) {
    std::lock_guard lock(mutex_);
    return waiting_.contains({hello.nonce, hello.host});
  };
  Status served = door_.serve(set, knows, &guests, !short_of);
  bool refuses = door_.has_last();
  for (Door::Guest& guest : guests) {
    refuses |= static_cast<bool>(guest.spare);
    if (!guest.spare)
      admit(std::move(guest));
    else
      send(guest.fd.get(), &proto::kNoDescriptor, 1, MSG_NOSIGNAL);  // it may have gone by itself
  }
  return refuses && served ? std::move(short_of) : served;
}

// Errors: what keeps the thread from looking at connections, or from accepting them.
Status Endpoint::turn() {
  const std::vector<std::shared_ptr<Channel>> served = channels();
  PollSet set;
  set.add(wake_.get(), POLLIN);
  door_.watch(&set);
  for (const auto& channel : served) channel->watch(&set);
  GC_TRY(set.wait(deadline_after(0)));
  uint64_t count;
  if (set.ready(wake_.get()) && read(wake_.get(), &count, sizeof count) < 0 && errno != EAGAIN)
    return Status::system(errno, "this process cannot read an event descriptor");
  Status served_door = serve_door(set);
  for (const auto& channel : served) channel->turn(set);
  return served_door;
}

// Keeps what claim() tells of. A turn may wait long for something to do, and the one before may have failed.
void Endpoint::note(const Status& status) noexcept {
  contained([&]() -> Status {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (!status && (unable_ || now - unable_at_ > kRecent)) unable_since_ = now;
    if (!status) unable_at_ = now;
    if (unable_.ok() != status.ok()) unable_ = status;
    return {};
  }).ignore();
}

// Says it once, and gives others time to let go of what is short.
void Endpoint::report(const Status& status) noexcept {
  constexpr timespec kNap = {0, 50'000'000};
  if (!std::exchange(reported_, true)) log::write(log::Level::error, "network connections: %s", status.what());
  nanosleep(&kNap, nullptr);
}

void Endpoint::run() {
  pthread_setname_np(pthread_self(), "gpucoll-net");
  for (;;) {
    const Status status = contained([this] { return turn(); });
    note(status);
    if (!status) report(status);
  }
}

Result<DialedConnection> dial_endpoint(const proto::ListenAddress& at, const Token& token, int number) {
  GC_TRY_AS(const Address address, Endpoint::instance().way_to(at));
  proto::BootstrapHello hello = {};
  hello.magic = proto::kBootstrapMagic;
  hello.nonce = token.low;
  hello.host = token.high;
  hello.level = number;
  hello.pid = getpid();
  return DialedConnection::start(address, hello);
}

}  // namespace gpucoll::net
