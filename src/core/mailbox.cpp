#include "core/mailbox.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace gpucoll::core {
namespace {

using proto::Lane;
using proto::LetterSlot;

class PageMailbox final : public Mailbox {
 public:
  explicit PageMailbox(const Peers& peers)
      : peers_(peers), posted_(static_cast<size_t>(peers.size())), read_(static_cast<size_t>(peers.size())) {}

  Status post(int peer, Lane lane, const Letter& letter) override {
    const uint64_t number = ++posted_[static_cast<size_t>(peer)][lane];
    LetterSlot& slot = slot_of(peers_.rank(), peer, lane, number);
    std::memcpy(slot.payload, letter.bytes, sizeof slot.payload);
    __atomic_store_n(&slot.number, number, __ATOMIC_RELEASE);  // partner: poll() of the peer
    return {};
  }

  Result<bool> poll(int peer, Lane lane, Letter* letter) override {
    uint64_t& read = read_[static_cast<size_t>(peer)][lane];
    const LetterSlot& slot = slot_of(peer, peers_.rank(), proto::kOppositeLane[lane], read + 1);
    if (__atomic_load_n(&slot.number, __ATOMIC_ACQUIRE) != read + 1) return false;  // partner: post() of the peer
    std::memcpy(letter->bytes, slot.payload, sizeof slot.payload);
    ++read;
    return true;
  }

 private:
  LetterSlot& slot_of(int from, int to, Lane lane, uint64_t number) const {
    return *reinterpret_cast<LetterSlot*>(peers_.page_bytes(from) + proto::letter_offset(to, lane, number));
  }

  using Numbers = std::array<uint64_t, proto::kLanes>;
  const Peers& peers_;
  std::vector<Numbers> posted_, read_;  // the last letters, by peer and lane
};

}  // namespace

std::unique_ptr<Mailbox> make_page_mailbox(const Peers& peers) { return std::make_unique<PageMailbox>(peers); }

Result<Letter> await_letter(Mailbox& mailbox, int peer, Lane lane, Vigil& vigil, const char* what) {
  Letter letter;
  for (;;) {
    GC_TRY_AS(const bool come, mailbox.poll(peer, lane, &letter));
    if (come) break;
    GC_TRY(vigil.go_on(peer, what));
  }
  vigil.progress();
  return letter;
}

MailboxBootstrap::MailboxBootstrap(Mailbox& mailbox, Vigil& vigil, const Peers& peers)
    : MailboxBootstrap(mailbox, vigil, std::vector<int>(static_cast<size_t>(peers.size())), peers.rank()) {
  std::iota(members_.begin(), members_.end(), 0);
}

Status MailboxBootstrap::allgather(const void* mine, void* all, size_t bytes) {
  for (size_t at = 0; at < bytes; at += proto::kLetterBytes) {
    const size_t piece = std::min(bytes - at, proto::kLetterBytes);
    Status status = gather_piece(static_cast<const uint8_t*>(mine) + at, static_cast<uint8_t*>(all) + at, piece, bytes);
    broken_ = !status;
    GC_TRY(std::move(status));
  }
  return {};
}

Status MailboxBootstrap::gather_piece(const uint8_t* mine, uint8_t* all, size_t bytes, size_t stride) {
  Letter letter = {};
  std::memcpy(letter.bytes, mine, bytes);
  for (int r = 0; r < size(); ++r)
    if (r != rank_) GC_TRY(mailbox_.post(members_[static_cast<size_t>(r)], proto::kLaneCommon, letter));
  for (int r = 0; r < size(); ++r) {
    const auto place = static_cast<size_t>(r);
    if (r != rank_) {
      GC_TRY_AS(letter, await_letter(mailbox_, members_[place], proto::kLaneCommon, vigil_, "its share of a meeting"));
    } else {
      std::memcpy(letter.bytes, mine, bytes);
    }
    std::memcpy(all + place * stride, letter.bytes, bytes);
  }
  return {};
}

}  // namespace gpucoll::core
