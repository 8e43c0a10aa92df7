// Format: what a rank tells a rank of another node about its page (format/peer.h), as messages of a channel
// (format/channel.h). The other rank keeps a copy of the page, and its host code reads that as if it were the page.
//   kState   the ControlPage. Where the pulse beats, the copy's says when the state came, by the reader's own clock
//   kLetter  a RemoteLetter: one message on a lane to the other rank
//   kCalls   CallRecords, the oldest first; the last one is the last call
#pragma once
#include <cstdint>

#include "proto/format/listen_address.h"
#include "proto/format/peer.h"

namespace gpucoll::proto {

enum class RemoteKind : uint32_t { kState = 1, kLetter, kCalls };

struct RemoteLetter {
  int32_t lane;
  uint32_t reserved;
  uint64_t number;
  uint8_t payload[kLetterBytes];
};
static_assert(sizeof(RemoteLetter) == 16 + kLetterBytes);

// Where a rank waits for channels of others, as it travels when the communicator is made.
struct NetworkAddress {
  ListenAddress at;   // nowhere: this rank cannot be reached, for the reason that its verdict tells
  uint64_t token[2];  // that of the channel to rank r has r + 1 added to the second by exclusive or
  char host[40];      // its name, for messages
};
static_assert(sizeof(NetworkAddress) == 80);

}  // namespace gpucoll::proto
