// Format: what processes of different nodes tell each other over a channel (net/tcp/channel.h). All run on machines of
// one byte order.
//
// The side that connects sends a BootstrapHello whose nonce and host are the channel's token, and its level a number
// where several connections have one token. The other side answers kAdmitted (format/bootstrap.h); where it hangs up
// instead, the connection is made again. Then both sides send messages: a ChannelHeader, then its payload. Connections
// for steps (format/step_frame.h) begin so, too.
#pragma once
#include <cstdint>

namespace gpucoll::proto {

inline constexpr uint32_t kChannelMagic = 0x67634d73;
inline constexpr uint32_t kChannelMost = 1 << 16;  // bytes of a payload

struct ChannelHeader {
  uint32_t magic;
  uint32_t kind;
  uint32_t bytes;
  uint32_t reserved;
};
static_assert(sizeof(ChannelHeader) == 16);

}  // namespace gpucoll::proto
