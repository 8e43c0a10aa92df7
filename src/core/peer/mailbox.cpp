#include "core/peer/mailbox.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/mutant.h"
#include "core/peer/letter.h"

namespace gpucoll::core {
namespace {

using proto::MailboxLane;
using proto::WireupSlot;

class PageMailbox final : public Mailbox {
 public:
  explicit PageMailbox(const Peers& peers)
      : peers_(peers), posted_(static_cast<size_t>(peers.size())), read_(static_cast<size_t>(peers.size())) {}

  Status post(int peer, MailboxLane lane, const WireupMessage& message) override {
    const uint64_t number = ++posted_[static_cast<size_t>(peer)][lane];
    WireupSlot& slot = slot_of(peers_.rank(), peer, lane, number);
    write_letter(slot, number, message.bytes);
    return peers_.tell_of_letter(peer, lane, number);
  }

  Result<bool> poll(int peer, MailboxLane lane, WireupMessage* message) override {
    uint64_t& read = read_[static_cast<size_t>(peer)][lane];
    const WireupSlot& slot = slot_of(peer, peers_.rank(), proto::kOppositeLane[lane], read + 1);
    if (!read_letter(slot, read + 1, message->bytes) && !gc_mutant(300)) return false;
    ++read;
    return true;
  }

  bool poll_latest(int peer, MailboxLane lane, WireupMessage* message) override {
    uint64_t& read = read_[static_cast<size_t>(peer)][lane];
    if (gc_mutant(226)) return *poll(peer, lane, message);
    const auto slot = [&](uint64_t number) -> const WireupSlot& {
      return slot_of(peer, peers_.rank(), proto::kOppositeLane[lane], number);
    };
    const uint64_t latest = std::max(letter_number(slot(0)), letter_number(slot(1)));
    static_assert(proto::kLetterSlots == 2);
    if (latest <= read || !read_letter(slot(latest), latest, message->bytes)) return false;
    read = latest;
    return true;
  }

 private:
  WireupSlot& slot_of(int from, int to, MailboxLane lane, uint64_t number) const {
    return *reinterpret_cast<WireupSlot*>(peers_.page_bytes(from) + proto::wireup_offset(to, lane, number));
  }

  using Numbers = std::array<uint64_t, proto::kLanes>;
  const Peers& peers_;
  std::vector<Numbers> posted_, read_;  // the last messages, by peer and lane
};

const char* describe(Purpose purpose) {
  return purpose == Purpose::split ? "splits the communicator" : "connects for a collective operation";
}

}  // namespace

std::unique_ptr<Mailbox> make_page_mailbox(const Peers& peers) { return std::make_unique<PageMailbox>(peers); }

Result<WireupMessage> await_message(Mailbox& mailbox, int peer, MailboxLane lane, PeerWait& wait, const char* what) {
  WireupMessage message;
  for (;;) {
    GC_TRY_AS(const bool come, mailbox.poll(peer, lane, &message));
    if (come) break;
    GC_TRY(wait.check(peer, what));
  }
  wait.progress();
  return message;
}

MailboxBootstrap::MailboxBootstrap(Mailbox& mailbox, PeerWait& wait, Purpose purpose, const Peers& peers)
    : MailboxBootstrap(mailbox, wait, purpose, std::vector<int>(static_cast<size_t>(peers.size())), peers.rank()) {
  std::iota(members_.begin(), members_.end(), 0);
}

Status MailboxBootstrap::allgather(const void* mine, void* all, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof Share::piece) {
    const size_t piece = std::min(bytes - at, sizeof Share::piece);
    Status status = gather_piece(static_cast<const uint8_t*>(mine) + at, static_cast<uint8_t*>(all) + at, piece, bytes);
    broken_ = !status;
    GC_TRY(std::move(status));
  }
  return {};
}

Status MailboxBootstrap::gather_piece(const uint8_t* mine, uint8_t* all, size_t bytes, size_t stride) {
  Share own = {purpose_, static_cast<uint32_t>(bytes), {}};
  std::memcpy(own.piece, mine, bytes);
  for (int r = 0; r < size(); ++r)
    if (r != rank_) GC_TRY(mailbox_.post(members_[static_cast<size_t>(r)], proto::kLaneCommon, WireupMessage::of(own)));
  for (int r = 0; r < size(); ++r) {
    const auto place = static_cast<size_t>(r);
    Share share = own;
    if (r != rank_) {
      GC_TRY_AS(share, share_of(members_[place], bytes));
    }
    std::memcpy(all + place * stride, share.piece, bytes);
  }
  return {};
}

Result<MailboxBootstrap::Share> MailboxBootstrap::share_of(int member, size_t bytes) {
  GC_TRY_AS(const WireupMessage message,
            await_message(mailbox_, member, proto::kLaneCommon, wait_, "its share of a meeting"));
  const auto share = message.as<Share>();
  if ((share.purpose == purpose_ && share.bytes == bytes) || gc_mutant(301)) return share;
  return Status::error(Code::invalid_usage,
                       "this rank %s, but rank %d %s: all ranks must make the same collective calls in the same order",
                       describe(purpose_), member, describe(share.purpose));
}

}  // namespace gpucoll::core
