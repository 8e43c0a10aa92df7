// Messages between two ranks of a communicator, without anybody else: how connections are agreed upon after the
// communicator is made. Within a node they lie in shared pages (proto/format/peer.h); ranks of other nodes have
// copies of these (remote_pages.h).
//
// Thread safety: one caller at a time, on either side. Ownership: see implementations.
#pragma once
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/peer/peer_wait.h"
#include "core/peer/peers.h"
#include "proto/format/peer.h"

namespace gpucoll::core {

struct WireupMessage {
  uint8_t bytes[proto::kLetterBytes];

  template <class T>
  static WireupMessage of(const T& content) {
    static_assert(sizeof content <= proto::kLetterBytes && std::is_trivially_copyable_v<T>);
    WireupMessage message = {};
    std::memcpy(message.bytes, &content, sizeof content);
    return message;
  }
  template <class T>
  T as() const {
    static_assert(sizeof(T) <= proto::kLetterBytes && std::is_trivially_copyable_v<T>);
    T content;
    std::memcpy(&content, bytes, sizeof content);
    return content;
  }
};

class Mailbox {
 public:
  virtual ~Mailbox() = default;
  // Never waits. REQUIRES: on each lane but that of survivors, the two ranks write in turn: a rank writes its message
  // k + 2 only after it has read message k + 1 of the other.
  virtual Status post(int peer, proto::MailboxLane lane, const WireupMessage& message) = 0;
  // Reads the next message of the peer on the lane that is opposite to `lane`; returns false while there is none.
  virtual Result<bool> poll(int peer, proto::MailboxLane lane, WireupMessage* message) = 0;
  // Reads the peer's latest message there, and leaves out those before it; returns false while there is no new one.
  virtual bool poll_latest(int peer, proto::MailboxLane lane, WireupMessage* message) = 0;
};

// Returns a mailbox over the pages of `peers`, which must outlive it.
std::unique_ptr<Mailbox> make_page_mailbox(const Peers& peers);

// Waits for the next message. `what` is for the error's sentence: see PeerWait.
Result<WireupMessage> await_message(Mailbox& mailbox, int peer, proto::MailboxLane lane, PeerWait& wait,
                                    const char* what);

// The reason for which ranks come together.
enum class Purpose : uint32_t { connections = 1, split };

// Carries out an allgather among some ranks of a communicator by messages on the common lane. All these ranks make a
// bootstrap alike; where one of them came for another purpose, the allgather fails with invalid_usage.
class MailboxBootstrap final : public net::Bootstrap {
 public:
  // members: ranks of the mailbox's communicator, in the order of the bootstrap's ranks; `rank` is this rank's place.
  MailboxBootstrap(Mailbox& mailbox, PeerWait& wait, Purpose purpose, std::vector<int> members, int rank)
      : mailbox_(mailbox), wait_(wait), purpose_(purpose), members_(std::move(members)), rank_(rank) {}
  // Makes a bootstrap of all ranks.
  MailboxBootstrap(Mailbox& mailbox, PeerWait& wait, Purpose purpose, const Peers& peers);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  Status allgather(const void* mine, void* all, size_t bytes) override;
  Status look() override { return wait_.look(); }
  // Returns whether an allgather has failed: then the ranks' messages are out of step, and nothing more can be agreed
  // upon.
  bool broken() const { return broken_; }

 private:
  // A message with a piece of a rank's contribution. Ranks whose bytes or purpose differ have come for something else.
  struct Share {
    Purpose purpose;
    uint32_t bytes;
    uint8_t piece[proto::kLetterBytes - 8];
  };
  Status gather_piece(const uint8_t* mine, uint8_t* all, size_t bytes, size_t stride);
  Result<Share> share_of(int member, size_t bytes);
  Mailbox& mailbox_;
  PeerWait& wait_;
  Purpose purpose_;
  std::vector<int> members_;
  int rank_;
  bool broken_ = false;
};

}  // namespace gpucoll::core
