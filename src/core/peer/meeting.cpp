#include "core/peer/meeting.h"

#include <cstdio>

#include "base/log.h"

namespace gpucoll::core {
namespace {

struct LinkLetter {
  net::LinkBlob blob;
  uint32_t code;  // gpucoll::Code: what went wrong here, for the reason in `text`
  char text[176];
};

proto::MailboxLane lane_of(const LinkName& name) {
  const bool send = name.side == net::Side::send;
  if (name.kind == proto::kPairLinks) return send ? proto::kLanePairSend : proto::kLanePairReceive;
  return send ? proto::kLaneCollectiveSend : proto::kLaneCollectiveReceive;
}

}  // namespace

Meeting::Meeting(const LinkName& name, const net::LinkShape& shape, std::vector<Attempt> attempts, Mailbox& mailbox,
                 net::MemoryPort& memory)
    : name_(name),
      shape_(shape),
      attempts_(std::move(attempts)),
      mailbox_(mailbox),
      memory_(memory),
      lane_(lane_of(name)) {}

Status Meeting::begin() { return offer(); }

Status Meeting::offer() {
  net::LinkBlob blob = {};
  failure_ = contained([&] { return make_end(&blob); });
  state_ = State::offered;
  return post(blob);
}

Status Meeting::make_end(net::LinkBlob* blob) {
  const Attempt& attempt = attempts_[attempt_];
  if (attempt.obstacle) return Status::error(Code::unsupported, "%s", attempt.obstacle);
  GC_TRY_AS(link_.end, attempt.transport->make_end(name_.side, shape_, memory_));
  link_.lanes = shape_.lanes;
  link_.transport = attempt.transport->name();
  *blob = link_.end->blob();
  return {};
}

Status Meeting::post(const net::LinkBlob& blob) {
  LinkLetter letter = {blob, static_cast<uint32_t>(failure_.code()), {}};
  std::snprintf(letter.text, sizeof letter.text, "%s", failure_.what());
  return mailbox_.post(name_.peer, lane_, Letter::of(letter));
}

Result<bool> Meeting::advance() {
  Letter letter;
  while (state_ != State::ended) {
    GC_TRY_AS(const bool come, mailbox_.poll(name_.peer, lane_, &letter));
    if (!come) return false;
    GC_TRY(state_ == State::offered ? connect(letter) : conclude(letter));
  }
  return true;
}

// The peer's offer has come.
Status Meeting::connect(const Letter& letter) {
  const auto theirs = letter.as<LinkLetter>();
  if (!failure_ || theirs.code) return conclude(letter);
  failure_ = contained([&] { return link_.end->connect(theirs.blob); });
  state_ = State::judged;
  return post({});
}

// The peer's judgement has come, or either offer was none.
Status Meeting::conclude(const Letter& letter) {
  const auto theirs = letter.as<LinkLetter>();
  if (failure_ && theirs.code)
    failure_ = Status::error(static_cast<Code>(theirs.code), "rank %d: %.*s", name_.peer,
                             static_cast<int>(sizeof theirs.text), theirs.text);
  if (!failure_) return next_attempt();
  state_ = State::ended;
  return {};
}

Status Meeting::next_attempt() {
  link_ = Link();
  if (attempt_ + 1 == attempts_.size()) {
    state_ = State::ended;
    return {};
  }
  log::write(log::Level::info, "no link %s rank %d over %s: %s", name_.side == net::Side::send ? "to" : "from",
             name_.peer, attempts_[attempt_].transport->name(), failure_.what());
  ++attempt_;
  return offer();
}

}  // namespace gpucoll::core
