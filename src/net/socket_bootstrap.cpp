#include "net/socket_bootstrap.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/quiet_thread.h"

namespace gpucoll::net {
namespace {

using proto::BootstrapAddress;
using proto::BootstrapHello;
using proto::BootstrapReply;

// The loopback where the other side is this very host: works behind any firewall.
Address route_to(const BootstrapAddress& a) {
  const auto own = local_ip();
  return {own && a.ip == *own ? htonl(INADDR_LOOPBACK) : a.ip, a.port, 0};
}

bool genuine(const BootstrapHello& hello, uint64_t nonce) {
  return hello.magic == proto::kBootstrapMagic && hello.nonce == nonce && hello.size <= proto::kMostRanks &&
         hello.rank >= 0 && hello.rank < hello.size;
}

// The meeting point: collects one Hello of every rank, then tells everyone everything.
class Rendezvous {
 public:
  Rendezvous(UniqueFd listener, uint64_t nonce) : listener_(std::move(listener)), nonce_(nonce) {}

  void run() {
    Status status = contained([this] { return collect(); });
    listener_.reset();  // who has an answer finds nobody here any more
    BootstrapReply reply = {};
    reply.code = static_cast<uint32_t>(status.code());
    std::strncpy(reply.text, status.what(), sizeof reply.text - 1);
    Deadline deadline = deadline_after(60);
    for (auto& fd : guests_) {
      if (!fd || !send_all(fd.get(), &reply, sizeof reply, deadline) || !status) continue;
      send_all(fd.get(), addresses_.data(), addresses_.size() * sizeof(BootstrapAddress), deadline).ignore();
    }
  }

 private:
  Status collect() {
    // The first guest says how many are expected.
    for (size_t come = 0; come == 0 || come < addresses_.size();) {
      auto guest = accept_one(listener_.get(), deadline_, company());
      if (!guest) return guest.status().code() == Code::timed_out ? too_late() : std::move(guest).status();
      UniqueFd fd = *std::move(guest);
      BootstrapHello hello;
      // A stranger who connects and stays silent must not keep the ranks waiting for long.
      if (!receive_all(fd.get(), &hello, sizeof hello, deadline_after(5)) || !genuine(hello, nonce_)) continue;
      Status status = admit(hello, std::move(fd));
      if (!status) return status;
      ++come;
    }
    return {};
  }

  // The guests cannot know who is missing.
  Status too_late() const {
    constexpr size_t kMostNamed = 8;
    std::string names;
    size_t missing = 0;
    for (size_t r = 0; r < guests_.size(); ++r)
      if (!guests_[r] && ++missing <= kMostNamed) names += (missing > 1 ? ", " : "") + std::to_string(r);
    if (missing > kMostNamed) names += " and " + std::to_string(missing - kMostNamed) + " more";
    return Status::error(Code::timed_out, "%s %s of %zu did not come within %d s (parameter timeout)",
                         missing > 1 ? "ranks" : "rank", names.c_str(), guests_.size(), timeout_s_);
  }

  Company company() const {
    Company company;
    for (size_t r = 0; r < guests_.size(); ++r)
      if (guests_[r]) company.push_back({guests_[r].get(), static_cast<int>(r)});
    return company;
  }

  Status admit(const BootstrapHello& hello, UniqueFd fd) {
    if (addresses_.empty()) {
      addresses_.resize(static_cast<size_t>(hello.size));
      guests_.resize(addresses_.size());
    }
    auto rank = static_cast<size_t>(hello.rank);
    Status status;
    if (static_cast<size_t>(hello.size) != addresses_.size())
      status =
          Status::error(Code::invalid_usage, "rank %d says that the communicator has %d ranks, another rank says %zu",
                        hello.rank, hello.size, addresses_.size());
    else if (guests_[rank])
      status = Status::error(Code::invalid_usage, "two processes or threads say that they are rank %d of %d",
                             hello.rank, hello.size);
    if (status) {
      guests_[rank] = std::move(fd);
      addresses_[rank] = hello.listener;
      wait_no_longer_than(hello.timeout_s);
    } else {
      guests_.push_back(std::move(fd));
    }
    return status;
  }

  void wait_no_longer_than(int32_t timeout_s) {
    const Deadline deadline = deadline_after(timeout_s);
    if (deadline >= deadline_) return;
    deadline_ = deadline;
    timeout_s_ = timeout_s;
  }

  UniqueFd listener_;
  uint64_t nonce_;
  Deadline deadline_ = deadline_after(0);  // of the guest whose time runs out first
  int32_t timeout_s_ = 0;                  // what it said
  std::vector<UniqueFd> guests_;
  std::vector<BootstrapAddress> addresses_;
};

}  // namespace

Result<proto::UniqueId> make_unique_id() {
  proto::UniqueId id = {};
  id.magic = proto::kBootstrapMagic;
  if (getrandom(&id.nonce, sizeof id.nonce, 0) != sizeof id.nonce)
    return Status::system(errno, "cannot get random bytes for a unique id");
  Address address;
  GC_TRY_AS(UniqueFd listener, listen_anywhere(&address));
  id.root = {address.ip, address.port, 0};
  // Detached: it serves whoever comes, and owns all that it uses.
  quiet_thread([listener = std::move(listener), nonce = id.nonce]() mutable {
    Rendezvous(std::move(listener), nonce).run();
  }).detach();
  return id;
}

Result<std::unique_ptr<Bootstrap>> SocketBootstrap::create(const proto::UniqueId& id, int rank, int size,
                                                           int64_t timeout_s) {
  if (id.magic != proto::kBootstrapMagic)
    return Status::error(Code::invalid_argument,
                         "the unique id was not made by gpucollGetUniqueId (or not passed on whole)");
  if (size > proto::kMostRanks)
    return Status::error(Code::invalid_argument, "rank %d of %d ranks: a communicator has at most %d", rank, size,
                         proto::kMostRanks);
  std::unique_ptr<SocketBootstrap> self(new SocketBootstrap(id, rank, size, timeout_s));
  GC_TRY(self->meet(id));
  return std::unique_ptr<Bootstrap>(std::move(self));
}

BootstrapHello SocketBootstrap::hello(int level) const {
  return {proto::kBootstrapMagic, nonce_, rank_, size_, level, static_cast<int32_t>(timeout_s_), listener_address_};
}

Status SocketBootstrap::meet(const proto::UniqueId& id) {
  constexpr int64_t kGrace = 5;  // for the rendezvous to tell who is missing
  Deadline deadline = deadline_after(timeout_s_ ? timeout_s_ + kGrace : 0);
  Address own;
  GC_TRY_AS(listener_, listen_anywhere(&own));
  listener_address_ = {own.ip, own.port, 0};
  BootstrapReply reply = {};
  Status status = ask_all_addresses(route_to(id.root), deadline, &reply);
  if (status) {
    reply.text[sizeof reply.text - 1] = 0;
    return reply.code ? Status(static_cast<Code>(reply.code), reply.text) : Status();
  }
  if (status.code() == Code::timed_out)
    return Status::error(
        Code::timed_out,
        "rank %d of %d: the maker of the unique id, at %s, did not answer within %lld s (parameter timeout)", rank_,
        size_, to_string(route_to(id.root)).c_str(), static_cast<long long>(timeout_s_ + kGrace));
  return Status::error(status.code(),
                       "rank %d of %d: %s: is the rank that made the unique id still running? Was the id used before? "
                       "Each makes one communicator",
                       rank_, size_, status.what());
}

Status SocketBootstrap::ask_all_addresses(const Address& root, Deadline deadline, BootstrapReply* reply) {
  GC_TRY_AS(const UniqueFd connection, connect_to(root, deadline));
  BootstrapHello mine = hello(-1);
  GC_TRY(send_all(connection.get(), &mine, sizeof mine, deadline));
  GC_TRY(receive_all(connection.get(), reply, sizeof *reply, deadline));
  if (reply->code) return {};
  addresses_.resize(static_cast<size_t>(size_));
  return receive_all(connection.get(), addresses_.data(), addresses_.size() * sizeof(BootstrapAddress), deadline);
}

int SocketBootstrap::rank_before(int level) const { return (rank_ - (1 << level) + size_) % size_; }

Status SocketBootstrap::connect_level(int level, Deadline deadline) {
  auto l = static_cast<size_t>(level);
  if (to_.size() <= l) to_.resize(l + 1), from_.resize(l + 1);
  if (to_[l]) return {};
  auto peer = static_cast<size_t>(rank_before(level));
  auto connected = connect_to(route_to(addresses_[peer]), deadline);
  if (!connected)
    return Status::error(connected.status().code(), "rank %d does not reach rank %zu, which may have failed: %s", rank_,
                         peer, connected.status().what());
  UniqueFd fd = *std::move(connected);
  BootstrapHello mine = hello(level);
  GC_TRY(send_all(fd.get(), &mine, sizeof mine, deadline));
  to_[l] = std::move(fd);
  return {};
}

Company SocketBootstrap::company() const {
  Company company;
  for (size_t l = 0; l < to_.size(); ++l)
    if (to_[l]) company.push_back({to_[l].get(), rank_before(static_cast<int>(l))});
  return company;
}

Status SocketBootstrap::accept_level(int level, Deadline deadline) {
  // Ranks ahead of us may knock for a later level first: keep whoever comes.
  while (!from_[static_cast<size_t>(level)]) {
    GC_TRY_AS(UniqueFd fd, accept_one(listener_.get(), deadline, company()));
    BootstrapHello hello;
    if (!receive_all(fd.get(), &hello, sizeof hello, deadline_after(5)) || !genuine(hello, nonce_)) continue;
    if (hello.level < 0 || hello.level > 31) continue;
    auto l = static_cast<size_t>(hello.level);
    if (from_.size() <= l) from_.resize(l + 1), to_.resize(l + 1);
    from_[l] = std::move(fd);
  }
  return {};
}

Status SocketBootstrap::allgather(const void* mine, void* all, size_t bytes) {
  Deadline deadline = deadline_after(timeout_s_);
  auto n = static_cast<size_t>(size_);
  // All connections before any data: a rank that has hung up by then has failed, it cannot have finished. Others may
  // wait for it in vain, and not know it, while this one waits for them: so it goes on looking.
  int levels = std::bit_width(n - 1);
  for (int level = 0; level < levels; ++level) GC_TRY(connect_level(level, deadline));
  for (int level = 0; level < levels; ++level) GC_TRY(accept_level(level, deadline));
  std::vector<uint8_t> ring(n * bytes);  // ring[i] is the block of rank (rank + i) mod n
  std::memcpy(ring.data(), mine, bytes);
  for (size_t have = 1; have < n; have *= 2) {
    int level = std::countr_zero(have);
    size_t count = std::min(have, n - have);
    auto l = static_cast<size_t>(level);
    Status status = exchange({to_[l].get(), ring.data(), from_[l].get(), ring.data() + have * bytes, count * bytes},
                             deadline, company(), rounds_ + 1);
    if (!status)
      return Status::error(status.code(), "rank %d, waiting for rank %d and rank %d: %s", rank_, rank_before(level),
                           (rank_ + (1 << level)) % size_, status.what());
  }
  for (size_t i = 0; i < n; ++i)
    std::memcpy(static_cast<uint8_t*>(all) + (static_cast<size_t>(rank_) + i) % n * bytes, ring.data() + i * bytes,
                bytes);
  ++rounds_;
  return {};
}

SocketBootstrap::~SocketBootstrap() {
  for (const UniqueFd& fd : from_)
    if (fd) say_farewell(fd.get(), rounds_);
}

}  // namespace gpucoll::net
