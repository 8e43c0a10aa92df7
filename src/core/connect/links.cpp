#include "core/connect/links.h"

#include <numeric>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/mutant.h"
#include "base/params.h"
#include "core/peer/heart.h"

namespace gpucoll::core {
namespace {

const char* describe(const LinkName& name) {
  if (name.side == net::Side::send) return name.kind == proto::kPairLinks ? "for sends to" : "for collectives to";
  return name.kind == proto::kPairLinks ? "for receives from" : "for collectives from";
}

}  // namespace

std::vector<Attempt> Links::attempts(const LinkName& name) const {
  const int peer = name.peer;
  const Attempt tcp = {&net::tcp_transport(), nullptr}, verbs = {&net::verbs_transport(), nullptr};
  if (options_.transport == kTransportTcp || name.kind == proto::kMeshLinks) return {tcp};
  if (options_.transport == kTransportVerbs) return {verbs};
  if (peers_.remote(peer) && (peers_.common_capabilities() & proto::kHasVerbs)) return {verbs, tcp};
  if (peers_.remote(peer)) return {tcp};
  const bool reach = device_.can_reach(identity_of(peers_.info(peer)));
  const Attempt p2p = {&net::p2p_transport(),
                       reach ? nullptr : "the devices cannot reach each other's memory (no peer access)"};
  const Attempt shm = {&net::shm_transport(), nullptr};
  if (options_.transport == kTransportShm) return {shm};
  if (options_.transport == kTransportP2p) return {p2p};
  return {p2p, shm};
}

int Links::lanes(const LinkName& name) const {
  const auto link = links_.find(name);
  if (link == links_.end()) return 0;
  return std::accumulate(link->second.begin(), link->second.end(), 0,
                         [](int sum, const Link& piece) { return sum + piece.lanes; });
}

bool Links::over_p2p(const LinkName& name) const {
  const auto link = links_.find(name);
  return link != links_.end() && !link->second.empty() && link->second.front().transport == net::p2p_transport().name();
}

const char* Links::over_network() const {
  if (any_tcp_ && any_verbs_) return "over verbs and tcp between nodes";
  if (any_verbs_) return "over verbs between nodes";
  return any_tcp_ ? "over tcp between nodes" : "inside the node";
}

proto::Connector Links::connector(const LinkName& name, int lane) const {
  auto piece = links_.at(name).begin();
  for (; lane >= piece->lanes; ++piece) lane -= piece->lanes;
  return piece->end->connector(lane);
}

// Returns the shape of the lanes that a wish adds.
net::LinkShape Links::shape_of(const LinkWish& wish) const {
  const int missing = wish.lanes - lanes(wish.name);
  if (wish.name.kind == proto::kMeshLinks) return {missing, {}, wish.mesh};
  return {missing, options_.slots[wish.name.kind]};
}

Status Links::make(const std::vector<LinkWish>& wishes, PeerWait& wait) {
  std::vector<Wireup> wireups;
  wireups.reserve(wishes.size());
  for (const LinkWish& wish : wishes) {
    const net::LinkShape shape = shape_of(wish);
    if (shape.lanes > 0) wireups.emplace_back(wish.name, shape, attempts(wish.name), mailbox_, memory_, causes_);
  }
  Status status = contained([&] { return wireup_all(wireups, wait); });
  for (Wireup& wireup : wireups)
    if (Link link = wireup.take_link(); link.end) half_made_.push_back(std::move(link));
  return status;
}

Status Links::wireup_all(std::vector<Wireup>& wireups, PeerWait& wait) {
  // From the first message on the peer may have this rank's memory open.
  for (Wireup& wireup : wireups) {
    linked_.insert(wireup.name().peer);
    GC_TRY(wireup.begin());
  }
  return advance_all(wireups, wait);
}

// Goes round until all have ended, whoever comes first.
Status Links::advance_all(std::vector<Wireup>& wireups, PeerWait& wait) {
  Status first;
  std::vector<Wireup*> open;
  for (Wireup& wireup : wireups) open.push_back(&wireup);
  while (!open.empty()) {
    const size_t before = open.size();
    for (size_t i = 0; i < open.size();) {
      GC_TRY_AS(const bool ended, open[i]->advance());
      if (!ended) {
        ++i;
        continue;
      }
      Status kept = keep(*open[i]);
      if (first) first = std::move(kept);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (open.size() < before)
      wait.progress();
    else
      GC_TRY(wait.check(open[0]->name().peer, "its end of a connection"));
  }
  return first;
}

Status Links::keep(Wireup& wireup) {
  const LinkName& name = wireup.name();
  if (!wireup.failure())
    return Status::error(wireup.failure().code(), "rank %d cannot connect %s %s: %s", peers_.rank(), describe(name),
                         peers_.name(name.peer).c_str(), wireup.failure().what());
  Link link = wireup.take_link();
  log::write(log::Level::debug, "rank %d is connected %s rank %d over %s, %d lanes more", peers_.rank(), describe(name),
             name.peer, link.transport, link.lanes);
  if (name.kind == proto::kCollectiveLinks && link.transport != net::p2p_transport().name()) all_p2p_ = false;
  any_tcp_ |= link.transport == net::tcp_transport().name();
  any_verbs_ |= link.transport == net::verbs_transport().name();
  if (link.end->needs_progress()) {
    if (!progress_) progress_ = std::make_unique<LinkProgress>(options_.activity, options_.counts);
    watched_.store(progress_.get(), std::memory_order_release);  // partners: check(), expect_ends()
    const bool messages = name.kind == proto::kPairLinks;
    progress_->add(name.peer, *link.end, messages ? std::optional(name.side) : std::nullopt);
  }
  links_[name].push_back(std::move(link));
  return {};
}

void Links::finish() noexcept {
  if (!progress_) return;
  progress_->finish();
  end_wait_.emplace(RunningClock::now());
}

// A process that ends takes along what is not sent yet, and what its system has not sent is lost once the other side
// answers.
bool Links::are_ends_taken() noexcept {
  if (!end_wait_) return true;
  const bool failed = peers_.fault(peers_.rank()) && !gc_mutant(510);
  if (end_wait_->goes_on(progress_->unacknowledged(), failed, RunningClock::now())) return false;
  end_wait_.reset();
  return true;
}

Status Links::check(bool outstanding, bool* certain) const {
  const LinkProgress* const progress = watched_.load(std::memory_order_acquire);
  if (!progress) return {};
  const auto broken = progress->failure([this](int peer) { return peers_.closing(peer); }, outstanding);
  if (broken.why) return {};
  *certain = broken.certain;
  return Status::error(Code::remote, "the network connection between %s and %s is broken: %s",
                       peers_.name(peers_.rank()).c_str(), peers_.name(broken.peer).c_str(), broken.why.what())
      .blaming();
}

}  // namespace gpucoll::core
