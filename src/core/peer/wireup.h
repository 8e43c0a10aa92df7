// How the two ends of one link find each other: by messages, without a word to anybody else.
//
// For each transport in turn, both ranks make their ends and post them; where both could, both connect and post how it
// went; where that worked for both, the link is made. Where the ends need it (LinkEnd::needs_trial) they then try it,
// and post how that went. In every other case both go on to the next transport, so they
// always agree. advance() never waits: any number of wireups go on side by side, in any order on each side.
//
// Thread safety: one caller at a time. Ownership: borrows mailbox, memory and transports.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "base/observe/causes.h"
#include "core/peer/mailbox.h"
#include "net/transport.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

// One end of a link, seen from this rank.
struct LinkName {
  proto::LinkKind kind;
  int peer;
  net::Side side;
  auto operator<=>(const LinkName&) const = default;
};

// Some lanes of a link: those that one wireup has made.
struct Link {
  std::unique_ptr<net::LinkEnd> end;
  int lanes = 0;
  const char* transport = "none";
};

// A transport to be tried, and the reason why it need not be.
struct Attempt {
  net::Transport* transport;
  const char* obstacle;  // null: none
};

class Wireup {
 public:
  Wireup(const LinkName& name, const net::LinkShape& shape, std::vector<Attempt> attempts, Mailbox& mailbox,
         net::MemoryPort& memory, CauseLog& causes);
  const LinkName& name() const { return name_; }
  // Makes and posts the first offer.
  Status begin();
  // Returns whether the wireup has ended: then link() is there, or failure() says why not. Errors: the mailbox's.
  Result<bool> advance();
  Link take_link() { return std::move(link_); }
  // Returns why the last attempt failed, on either side.
  const Status& failure() const { return failure_; }

 private:
  enum class State { sent, connecting, compared, done };
  Status offer();
  Status make_end(net::LinkBlob* blob);
  Status connect(const WireupMessage& message);
  Result<bool> establish();
  Status conclude(const WireupMessage& message);
  Status next_attempt();
  Status post(const net::LinkBlob& blob);

  LinkName name_;
  net::LinkShape shape_;
  std::vector<Attempt> attempts_;
  Mailbox& mailbox_;
  net::MemoryPort& memory_;
  CauseLog& causes_;
  proto::MailboxLane lane_;
  State state_ = State::done;
  size_t attempt_ = 0;
  bool tried_ = false;  // the link's trial has begun
  Link link_;
  Status failure_;
  std::optional<WireupMessage> judgement_;  // the peer's, which has come while this side connects
};

}  // namespace gpucoll::core
