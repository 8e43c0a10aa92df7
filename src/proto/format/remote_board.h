// Format: what processes of different nodes tell each other about their arrival boards (format/board.h), as messages of
// a channel (format/channel.h). Each process keeps a copy of the board of each process on another node that it has a
// channel with, and looks there as it looks on a board that is shared.
//
//   kHello    a BoardHello: who has made the channel; its first message
//   kStores   a BoardKey, then one BoardPiece after another, each with its bytes: what the sender has stored into its
//             entry of that key, in the order in which it stored it. The entry is taken where it is not there yet
//   kReleased a BoardKey: the sender has freed that communicator
//   kPulse    a uint64_t, not 0 where the sender's heart beats
//   kAwait    a BoardQuestion: tell me once you have come to collective `number` of `order`, or will not
//   kCome     a BoardArrivals: the answer to kAwait, and before that one at once
//   kRaise    a BoardQuestion: raise your `launch_number` to `raise_to`; have you been ready for the call after that?
//   kRaised   a BoardAnswer to it
//   kEnds     no payload: have you called MPI_Finalize?
//   kEnded    a uint64_t, not 0 where it has
//
// A rank with host memory only stores into its own board, and tells nobody. So who waits for it asks (kAwait), and a
// thread of its process looks at the board for it. Whatever a rank stores that comes with device memory, or waits for
// others, it sends to all processes of the communicator that are on other nodes, right after it has stored it. So a
// reader of a copy sees stores in the order of the writer. A line that is ready is sent only once it has its number: a
// copy never shows GC_NUMBER_COMING.
//
// An answer has the arrivals with host memory alone, as others are sent by themselves; a copy takes an arrival
// with a greater number than its own. Who raises a `launch_number` stores, and then looks whether the rank is ready, as
// on a board that is shared: both on the rank's own board. An answer to kEnds is sent after all answers to questions
// that came before it.
#pragma once
#include <cstdint>

#include "proto/format/board.h"

namespace gpucoll::proto {

enum class BoardMessage : uint32_t {
  kHello = 1,
  kStores,
  kReleased,
  kPulse,
  kAwait,
  kCome,
  kRaise,
  kRaised,
  kEnds,
  kEnded
};

struct BoardHello {
  uint8_t node[16];
  int32_t pid;
  uint32_t reserved;
  uint64_t board_inode;
};
static_assert(sizeof(BoardHello) == 32);

struct BoardPiece {
  uint32_t offset;  // in the entry; it and `bytes` are multiples of 8
  uint32_t bytes;
};

// Stand for an order in a BoardQuestion: the schedule of persistent collectives, of which `number` is the last step
// that the asker has read; nothing, to learn of `launch_number` alone.
inline constexpr uint32_t kBoardStarts = GC_ORDERS, kBoardNumber = GC_ORDERS + 1;

struct BoardQuestion {
  uint64_t key[2];
  uint64_t number;
  uint64_t raise_to;
  uint32_t order;
  uint32_t reserved;
};
static_assert(sizeof(BoardQuestion) == 40);

struct BoardAnswer {
  BoardQuestion question;
  uint64_t launch_number;
  uint64_t is_ready;  // or has scheduled more steps
};

struct BoardArrivals {
  uint64_t key[2];
  uint32_t order;
  uint32_t has_left;  // the communicator has been freed there
  uint64_t ending;
  uint64_t arrivals[GC_BOARD_LINES];  // 0 where it is not of host memory
};

}  // namespace gpucoll::proto
