// Format: what ranks of a communicator tell each other when it is made, and the page each keeps for the others.
//
// PeerInfo travels once, by the bootstrap's allgather. ControlPage lies in shared host memory of its rank (memfd,
// opened through /proc by the others of the node) and is written by that rank only, read by all:
//   entered   number of plans launched; stored with release after the launch
//   closing   1 once this rank will launch nothing more and all its kernels have ended; a peer that reads it (acquire)
//             knows that nobody writes into the peer's memory on behalf of this rank any more
//   fault     0, or a gpucoll::Code stored with release after fault_text
#pragma once
#include <cstdint>

namespace gpucoll::proto {

inline constexpr uint32_t kPeerMagic = 0x67637031;

struct PeerInfo {
  uint32_t magic;
  int32_t rank;
  char version[16];
  uint64_t params_hash;  // of the parameters that must be equal on all ranks
  uint8_t node[16];
  char device_kind[8];
  uint8_t device_uuid[16];
  int32_t pid;
  int32_t control_fd;  // the ControlPage: a descriptor of `pid`
  uint64_t control_inode;
  uint64_t control_bytes;
  uint32_t fault;  // a gpucoll::Code: this rank cannot take part, for the reason in `text`
  char text[172];
};
static_assert(sizeof(PeerInfo) == 272);

struct ControlPage {
  uint32_t magic;
  int32_t rank;
  uint64_t entered;
  uint32_t closing;
  uint32_t fault;
  char fault_text[240];
};
static_assert(sizeof(ControlPage) == 264);

}  // namespace gpucoll::proto
