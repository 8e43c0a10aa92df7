// The secret that a connection shows, so that its listener knows what it is for. Whoever makes a token tells it to the
// other side through the bootstrap, or through a channel that has shown one itself.
// Thread safety: a value.
#pragma once
#include <compare>
#include <cstdint>

#include "base/status.h"

namespace gpucoll::net {

struct Token {
  uint64_t low = 0, high = 0;
  auto operator<=>(const Token&) const = default;
};

// Returns 128 bits of the system's random source. Errors: system.
Result<Token> random_token();

}  // namespace gpucoll::net
