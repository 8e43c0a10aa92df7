// Writes and reads a letter of a mailbox (proto/format/peer.h). A slot may be written anew while its reader looks: what
// the reader takes is whole.
//
// Thread safety: one writer and one reader for each slot.
#pragma once
#include <cstdint>
#include <cstring>

#include "proto/format/peer.h"

namespace gpucoll::core {

inline constexpr size_t kLetterWords = proto::kLetterBytes / sizeof(uint64_t);
static_assert(kLetterWords * sizeof(uint64_t) == proto::kLetterBytes);

inline void write_letter(proto::WireupSlot& slot, uint64_t number, const uint8_t* payload) noexcept {
  auto* const words = reinterpret_cast<uint64_t*>(slot.payload);
  __atomic_store_n(&slot.number, uint64_t{0}, __ATOMIC_RELAXED);
  // Release: a reader that sees any of these words sees that the slot had no number.
  for (size_t w = 0; w < kLetterWords; ++w) {
    uint64_t word;
    std::memcpy(&word, payload + w * sizeof word, sizeof word);
    __atomic_store_n(&words[w], word, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&slot.number, number, __ATOMIC_RELEASE);  // partner: read_letter()
}

inline uint64_t letter_number(const proto::WireupSlot& slot) noexcept {
  return __atomic_load_n(&slot.number, __ATOMIC_ACQUIRE);
}

// Returns false where the slot does not hold the letter of this number, or no longer.
inline bool read_letter(const proto::WireupSlot& slot, uint64_t number, uint8_t* payload) noexcept {
  const auto* const words = reinterpret_cast<const uint64_t*>(slot.payload);
  if (letter_number(slot) != number) return false;
  for (size_t w = 0; w < kLetterWords; ++w) {
    const uint64_t word = __atomic_load_n(&words[w], __ATOMIC_ACQUIRE);
    std::memcpy(payload + w * sizeof word, &word, sizeof word);
  }
  return letter_number(slot) == number;
}

}  // namespace gpucoll::core
