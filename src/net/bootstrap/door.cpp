#include "net/bootstrap/door.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/mutant.h"
#include "base/system_limits.h"

namespace gpucoll::net {
namespace {

// For one turn: then others, and the deadline, have theirs.
constexpr int kMostAccepted = 256;

// Returns whether somebody knocks. Without a descriptor left accept4 fails with EMFILE also where nobody does.
bool somebody_knocks(int listener) {
  pollfd knock = {listener, POLLIN, 0};
  return poll(&knock, 1, 0) > 0;
}

}  // namespace

void Door::shut() noexcept {
  for (const UniqueFd& listener : listeners_) shutdown(listener.get(), SHUT_RDWR);
  *this = Door();
}

void Door::watch(PollSet* set) const {
  for (const UniqueFd& listener : listeners_)
    if (!has_last()) set->add(listener.get(), POLLIN);
  for (const Stranger& stranger : strangers_) set->add(stranger.fd.get(), POLLIN);
}

bool Door::has_last() const {
  return std::any_of(strangers_.begin(), strangers_.end(),
                     [](const Stranger& s) { return static_cast<bool>(s.spare); });
}

Door::Heard Door::hear(Stranger* stranger) {
  const ssize_t n =
      recv(stranger->fd.get(), stranger->said.data() + stranger->bytes, stranger->said.size() - stranger->bytes, 0);
  if (n < 0 && not_now(errno)) return Heard::less;
  if (n <= 0) return Heard::nonsense;
  stranger->bytes += static_cast<size_t>(n);
  const size_t begun = std::min(stranger->bytes, sizeof proto::kBootstrapMagic);
  if (std::memcmp(stranger->said.data(), &proto::kBootstrapMagic, begun)) return Heard::nonsense;
  return stranger->bytes == stranger->said.size() ? Heard::hello : Heard::less;
}

bool Door::settle(Stranger* stranger, const Knows& knows, std::vector<Guest>* guests) {
  const Heard heard = hear(stranger);
  if (heard == Heard::less) return false;
  proto::BootstrapHello hello;
  std::memcpy(&hello, stranger->said.data(), sizeof hello);
  if (heard == Heard::hello && knows(hello))
    guests->push_back({std::move(stranger->spare), std::move(stranger->fd), hello});
  return true;
}

bool Door::accept_one(int listener, const Knows& knows, std::vector<Guest>* guests, bool spends) {
  Stranger stranger{{}, accept_now(listener), Clock::now()};
  while (!stranger.fd && no_descriptor_left(errno)) {
    if (!somebody_knocks(listener)) return errno = EAGAIN, false;
    if (!strangers_.empty())
      strangers_.pop_front();
    else if (!spends || !(stranger.spare = Spare::spend()))
      return errno = EMFILE, false;
    stranger.fd = accept_now(listener);
  }
  if (!stranger.fd) return false;
  if (!settle(&stranger, knows, guests)) strangers_.push_back(std::move(stranger));
  if (strangers_.size() > room() && !gc_mutant(122)) strangers_.pop_front();
  return true;
}

size_t Door::room() const noexcept {
  return gc_mutant(455) ? most_strangers_ : std::clamp<size_t>(most_descriptors() / 4, 1, most_strangers_);
}

Status Door::serve(const PollSet& set, const Knows& knows, std::vector<Guest>* guests, bool spends) {
  std::erase_if(strangers_, [&](Stranger& s) { return set.ready(s.fd.get()) && settle(&s, knows, guests); });
  std::erase_if(strangers_, [](const Stranger& s) { return Clock::now() - s.since > kBudget; });
  Spare::restore();
  for (const UniqueFd& listener : listeners_)
    if (set.ready(listener.get())) GC_TRY(accept_all(listener.get(), knows, guests, spends));
  return {};
}

Status Door::accept_all(int listener, const Knows& knows, std::vector<Guest>* guests, bool spends) {
  for (int i = 0; i < kMostAccepted && !has_last(); ++i) {
    if (accept_one(listener, knows, guests, spends) || errno == EINTR || errno == ECONNABORTED) continue;
    if (no_descriptor_left(errno)) return Status::system(errno, "this process cannot accept a bootstrap connection");
    break;
  }
  return {};
}

}  // namespace gpucoll::net
