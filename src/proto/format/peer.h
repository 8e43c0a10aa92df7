// Format: what ranks of a communicator tell each other when it is made, and the page each keeps for the others.
//
// PeerInfo travels once, by the bootstrap's allgather, and again with what this rank found out about all of them.
//
// A page lies in shared host memory of its rank (memfd, opened through /proc by the others of the node) and is written
// by that rank only, read by all. First a ControlPage:
//   entered   number of plans launched; stored with release after the launch
//   closing   1 once this rank will launch nothing more and all its kernels have ended; a peer that reads it (acquire)
//             knows that nobody writes into the peer's memory on behalf of this rank any more
//   fault     0, or a gpucoll::Code stored with release after fault_text, a sentence about the first cause: of a fault
//             that another rank has caused, or has told first, every rank has the same one
//   pulse     whether the process of this rank runs (format/pulse.h)
//   left      1 once, after a fault, all kernels of this rank have ended and none will follow; as for closing
//   held      1 while graphs hold launches of this rank, which may be launched even when it has failed or is closing:
//             then they end by the fault latch at once, but they may reach into the peers' connection memory before
//   begun     number of launches that graphs of this rank have begun, as its watchdog saw it last; for reports
// then, for each rank of the communicator, kLanes lanes of messages to that rank (core/peer/mailbox.h); then what copy
// engines need (format/copy.h), direct stores (format/direct.h), and what the rank has called (format/calls.h).
//
// A lane carries messages 1, 2, ... of this rank to one other rank. Message k lies in slot k % 2: its payload,
// then `number` = k with release; the receiver loads number with acquire until it is k. Nobody acknowledges: message k
// + 2 may be written only when the other rank's message k + 1 on the opposite lane has been read, which it writes after
// it has read message k. That is so by itself where both ranks write one message each in turn and read the other's.
// Memory of pages is used only as messages are written.
#pragma once
#include <cstddef>
#include <cstdint>

#include "proto/format/calls.h"
#include "proto/format/copy.h"
#include "proto/format/direct.h"
#include "proto/format/pulse.h"

namespace gpucoll::proto {

inline constexpr uint32_t kPeerMagic = 0x67637038;

// Bits of PeerInfo::facts: what a rank found out about all others.
inline constexpr uint32_t kReachesAll = 1;       // its kernels are not known to be kept from any rank's memory
inline constexpr uint32_t kKeepsLinesWhole = 2;  // its stores of 128 bytes arrive whole at all ranks (LL128)
inline constexpr uint32_t kHasSignals = 4;       // its streams can wait for words in memory
inline constexpr uint32_t kHasVerbs = 8;         // it has an RDMA device for other nodes, and may use it

struct PeerInfo {
  uint32_t magic;
  int32_t rank;
  char version[16];
  uint64_t tuning_hash;  // of the tuning file, 0 without one
  uint8_t node[16];
  char device_kind[8];
  uint8_t device_uuid[16];
  int32_t pid;
  int32_t control_fd;  // the page: a descriptor of `pid`
  uint64_t control_inode;
  uint64_t control_bytes;
  uint32_t fault;            // a gpucoll::Code: this rank cannot take part, for the reason in `said`
  uint32_t facts;            // kReachesAll, ...
  uint16_t resident_blocks;  // that its device runs at once, of all ranks together; UINT16_MAX: so many or more
  uint8_t min_blocks;        // limits that the program has set to the blocks of a kernel; 0: none
  uint8_t max_blocks;
  char said[212];  // with a fault a text, else the values of parameters that must be equal on all ranks
};
static_assert(sizeof(PeerInfo) == 320);  // as much as a meeting on the arrival board has room for

struct alignas(64) ControlPage {
  uint32_t magic;
  int32_t rank;
  uint64_t entered;
  uint32_t closing;
  uint32_t fault;
  uint32_t left;
  uint32_t held;
  uint64_t begun;
  gc_pulse pulse;
  char fault_text[448];
};
static_assert(sizeof(ControlPage) == 512);

// The purposes of lanes. The opposite lane of a sending end's is the receiving end's.
// kLaneSurvivors is for those ranks that leave others behind; there messages go one way, and only the latest counts:
// those before it are of attempts that have failed.
enum MailboxLane : int {
  kLaneCommon,
  kLaneCollectiveSend,
  kLaneCollectiveReceive,
  kLanePairSend,
  kLanePairReceive,
  kLaneMeshSend,
  kLaneMeshReceive,
  kLaneSurvivors
};
inline constexpr int kLanes = 8;
inline constexpr MailboxLane kOppositeLane[kLanes] = {kLaneCommon,      kLaneCollectiveReceive, kLaneCollectiveSend,
                                                      kLanePairReceive, kLanePairSend,          kLaneMeshReceive,
                                                      kLaneMeshSend,    kLaneSurvivors};

inline constexpr size_t kLetterBytes = 312;
struct alignas(64) WireupSlot {
  uint64_t number;
  uint8_t payload[kLetterBytes];
};
static_assert(sizeof(WireupSlot) == 320);
inline constexpr int kLetterSlots = 2;

constexpr size_t wireup_offset(int to_rank, int lane, uint64_t number) {
  return sizeof(ControlPage) +
         ((static_cast<size_t>(to_rank) * kLanes + static_cast<size_t>(lane)) * kLetterSlots + number % kLetterSlots) *
             sizeof(WireupSlot);
}

static_assert(wireup_offset(0, 0, 0) % alignof(CopyPage) == 0 && sizeof(WireupSlot) % alignof(CopyPage) == 0);
constexpr size_t copy_page_offset(int n_ranks) { return wireup_offset(n_ranks, 0, 0); }
constexpr size_t copy_lane_offset(int n_ranks, int to_rank) {
  return copy_page_offset(n_ranks) + sizeof(CopyPage) + static_cast<size_t>(to_rank) * sizeof(CopyLane);
}
constexpr size_t direct_page_offset(int n_ranks) { return copy_lane_offset(n_ranks, n_ranks); }
constexpr size_t direct_lane_offset(int n_ranks, int to_rank) {
  return direct_page_offset(n_ranks) + sizeof(DirectPage) + static_cast<size_t>(to_rank) * sizeof(DirectLane);
}
constexpr size_t calls_page_offset(int n_ranks) { return direct_lane_offset(n_ranks, n_ranks); }
constexpr size_t control_bytes(int n_ranks) { return calls_page_offset(n_ranks) + sizeof(CallsPage); }

}  // namespace gpucoll::proto
