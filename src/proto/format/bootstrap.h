// Format: what ranks say over the bootstrap sockets. All ranks of a job run on machines of one byte order.
//
// Rendezvous. The maker of a unique id listens. Each rank connects, sends a Hello and gets a Reply; on success the
// Reply is followed by the Address of every rank's own listener, in rank order. Where the first guest's time runs out,
// all get a Reply that names who is missing. Afterwards the rendezvous is over.
// Between ranks. A rank connects to another's listener and sends a Hello whose `level` says which step of the
// allgather the connection serves; payloads follow without further framing: both sides know the sizes. Before a rank
// hangs up it says over each connection that it accepted how many allgathers it is through with (4 bytes).
// Whoever sends a wrong magic or nonce is hung up on: other programs may knock on the port.
#pragma once
#include <cstdint>

namespace gpucoll::proto {

inline constexpr uint64_t kBootstrapMagic = 0x6770756f636f6c31ull;
inline constexpr int32_t kMostRanks = 1 << 16;

struct BootstrapAddress {
  uint32_t ip;  // network byte order, as is port
  uint16_t port;
  uint16_t reserved;
};

struct UniqueId {
  uint64_t magic;
  uint64_t nonce;
  BootstrapAddress root;
  uint8_t reserved[104];
};
static_assert(sizeof(UniqueId) == 128);

struct BootstrapHello {
  uint64_t magic;
  uint64_t nonce;
  int32_t rank;
  int32_t size;
  int32_t level;      // -1 to the rendezvous, else the step of the allgather
  int32_t timeout_s;  // to the rendezvous: how long this rank waits for the others; 0: for ever
  BootstrapAddress listener;
};
static_assert(sizeof(BootstrapHello) == 40);

struct BootstrapReply {
  uint32_t code;   // gpucoll::Code; 0: addresses follow
  char text[252];  // a sentence where code is not 0, zero-terminated
};
static_assert(sizeof(BootstrapReply) == 256);

}  // namespace gpucoll::proto
