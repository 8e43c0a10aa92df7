#include "core/peer/wireup.h"

#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/mutant.h"

namespace gpucoll::core {
namespace {

struct LinkLetter {
  uint32_t code;  // gpucoll::Code: what went wrong here, for the reason in `text`; else there is the blob
  uint32_t reserved;
  union {
    char text[proto::kLetterBytes - 8];
    net::LinkBlob blob;
  };
};

proto::MailboxLane lane_of(const LinkName& name) {
  const bool send = name.side == net::Side::send;
  if (name.kind == proto::kMeshLinks) return send ? proto::kLaneMeshSend : proto::kLaneMeshReceive;
  if (name.kind == proto::kPairLinks) return send ? proto::kLanePairSend : proto::kLanePairReceive;
  return send ? proto::kLaneCollectiveSend : proto::kLaneCollectiveReceive;
}

}  // namespace

Wireup::Wireup(const LinkName& name, const net::LinkShape& shape, std::vector<Attempt> attempts, Mailbox& mailbox,
               net::MemoryPort& memory, CauseLog& causes)
    : name_(name),
      shape_(shape),
      attempts_(std::move(attempts)),
      mailbox_(mailbox),
      memory_(memory),
      causes_(causes),
      lane_(lane_of(name)) {}

Status Wireup::begin() { return offer(); }

Status Wireup::offer() {
  net::LinkBlob blob = {};
  failure_ = contained([&] { return make_end(&blob); });
  state_ = State::sent;
  return post(blob);
}

Status Wireup::make_end(net::LinkBlob* blob) {
  const Attempt& attempt = attempts_[attempt_];
  if (attempt.obstacle) return Status::error(Code::unsupported, "%s", attempt.obstacle);
  GC_TRY_AS(link_.end, attempt.transport->make_end(name_.side, shape_, memory_));
  link_.lanes = shape_.lanes;
  link_.transport = attempt.transport->name();
  *blob = link_.end->blob();
  return {};
}

Status Wireup::post(const net::LinkBlob& blob) {
  LinkLetter message = {};
  message.code = static_cast<uint32_t>(failure_.code());
  if (failure_)
    message.blob = blob;
  else
    std::snprintf(message.text, sizeof message.text, "%s", failure_.what());
  return mailbox_.post(name_.peer, lane_, WireupMessage::of(message));
}

Result<bool> Wireup::advance() {
  WireupMessage message;
  while (state_ != State::done) {
    if (state_ == State::connecting) {
      GC_TRY_AS(const bool over, establish());
      if (!over) return false;
      continue;
    }
    GC_TRY_AS(const bool come, mailbox_.poll(name_.peer, lane_, &message));
    if (!come) return false;
    GC_TRY(state_ == State::sent ? connect(message) : conclude(message));
  }
  return true;
}

// The peer's offer has come.
Status Wireup::connect(const WireupMessage& message) {
  const auto theirs = message.as<LinkLetter>();
  if (!failure_ || theirs.code) return conclude(message);
  failure_ = contained([&] { return link_.end->connect(theirs.blob); });
  state_ = State::connecting;
  return {};
}

// Returns whether the connection is there, or cannot be made on either side; then it has told the peer which.
Result<bool> Wireup::establish() {
  WireupMessage message;
  if (!judgement_) {
    GC_TRY_AS(const bool come, mailbox_.poll(name_.peer, lane_, &message));
    if (come) judgement_ = message;
  }
  const bool given_up = judgement_ && judgement_->as<LinkLetter>().code != 0;
  if (failure_ && !given_up) {
    auto there = contained([&] { return link_.end->established(); });
    if (there && !*there) return false;
    failure_ = std::move(there).status();
  }
  state_ = State::compared;
  GC_TRY(post({}));
  if (const auto judgement = std::exchange(judgement_, std::nullopt)) GC_TRY(conclude(*judgement));
  return true;
}

// The peer's judgement has come, or either offer was none.
Status Wireup::conclude(const WireupMessage& message) {
  const auto theirs = message.as<LinkLetter>();
  if (failure_ && theirs.code)
    failure_ = Status::error(static_cast<Code>(theirs.code), "rank %d: %.*s", name_.peer,
                             static_cast<int>(sizeof theirs.text), theirs.text);
  if (!failure_) return next_attempt();
  if (!tried_ && link_.end->needs_trial() && !gc_mutant(191)) {
    tried_ = true;
    failure_ = contained([&] { return link_.end->begin_trial(); });
    state_ = State::connecting;
    return {};
  }
  state_ = State::done;
  return {};
}

Status Wireup::next_attempt() {
  link_ = Link();
  if (attempt_ + 1 == attempts_.size()) {
    state_ = State::done;
    return {};
  }
  // Verbs are tried where every rank has a device: what is left is slower than what the user has.
  const Attempt& failed = attempts_[attempt_];
  const bool over_verbs = failed.transport == &net::verbs_transport();
  const std::string detail = std::string(name_.side == net::Side::send ? "to" : "from") + " rank " +
                             std::to_string(name_.peer) + " over " + attempts_[attempt_ + 1].transport->name() +
                             ", not " + failed.transport->name() + ": " + failure_.what();
  causes_.tell(failed.obstacle ? Cause::no_peer_access : Cause::no_link, "a connection", detail.c_str(),
               over_verbs ? log::Level::warn : log::Level::info);
  ++attempt_;
  tried_ = false;
  return offer();
}

}  // namespace gpucoll::core
