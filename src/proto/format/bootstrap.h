// Format: what ranks say over the bootstrap sockets. All ranks of a job run on machines of one byte order.
//
// Rendezvous. The maker of a unique id listens. Each rank connects and sends a Hello of level -1, and keeps the
// connection until it needs the others no more. Then both sides say Words:
//   kAllCome    to each rank, once all have said Hello: from now on a rank may listen for the others
//   kReady      by a rank: where it listens
//   kAddresses  to each rank, once all are ready; the BootstrapAddress of every rank follows, in rank order
//   kDone       by a rank, which hangs up next: it needs the others no more
//   kFailed     by a rank that fails, or cannot begin; to all others, who hang up. Whoever hangs up without kDone has
//               failed as well, and so have all where the time of a rank runs out: they are told who is missing
// Between ranks. A rank connects to another's listener and sends a Hello whose `level` says which step of the
// allgather the connection serves. The listener answers kAdmitted; where it hangs up instead, the connection is made
// again, unless it has answered kNoDescriptor. Payloads follow without further framing: both sides know the sizes.
// Before a rank hangs up it says a Farewell over each connection that it accepted. Whoever sends a wrong magic or nonce
// is hung up on: other programs may knock on the port.
#pragma once
#include <cstdint>

#include "proto/format/listen_address.h"

namespace gpucoll::proto {

// The last digit is the version of this format.
inline constexpr uint64_t kBootstrapMagic = 0x6770756f636f6c35ull;
inline constexpr int32_t kMostRanks = 1 << 16;
// A listener answers a Hello with one of these: to one that it lets in, and, before it hangs up, to one for which its
// process has had no descriptor for 2 s.
inline constexpr uint8_t kAdmitted = 6, kNoDescriptor = 21;

struct BootstrapAddress {
  ListenAddress at;
  int32_t pid;    // the process that listens there
  char host[40];  // the name of its host, for messages; zero-terminated unless it is longer
};
static_assert(sizeof(BootstrapAddress) == 68);

struct UniqueId {
  uint64_t magic;
  uint64_t nonce;
  BootstrapAddress root;
  uint8_t reserved[44];
};
static_assert(sizeof(UniqueId) == 128);

struct BootstrapHello {
  uint64_t magic;
  uint64_t nonce;
  int32_t rank;
  int32_t size;
  int32_t level;      // -1 to the rendezvous, else the step of the allgather
  int32_t timeout_s;  // to the rendezvous: how long this rank waits for the others; 0: for ever
  uint64_t host;      // equal for two ranks that reach each other over the loopback; 0: not known
  int32_t pid;
  int32_t reserved;
};
static_assert(sizeof(BootstrapHello) == 48);

enum class WordKind : uint32_t { kAllCome, kReady, kAddresses, kDone, kFailed };
struct BootstrapWord {
  WordKind kind;
  uint32_t one_host;          // kAllCome: whether all ranks reach each other over the loopback
  BootstrapAddress listener;  // kReady
  uint32_t code;              // kFailed: gpucoll::Code
  int32_t maker;              // kAllCome: the rank whose process made the unique id; -1: no rank's
  char text[428];             // kFailed: a sentence, zero-terminated
};
static_assert(sizeof(BootstrapWord) == 512);

struct BootstrapFarewell {
  uint32_t rounds;  // allgathers that this rank is through with
  uint32_t code;    // why it gave up, if it did: as in kFailed
  char text[496];
};
static_assert(sizeof(BootstrapFarewell) == 504);

}  // namespace gpucoll::proto
