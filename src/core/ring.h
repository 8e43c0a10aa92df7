// Connects a ring: every rank sends to the next and receives from the previous one, on every channel.
//
// Collective; succeeds or fails on all ranks alike. Each link is tried over P2P first and falls back to SHM when the
// devices on its two ends cannot reach each other. Ownership: the Ring owns both ends; destroy it only when the
// neighbours are done with this rank's memory.
#pragma once
#include <memory>

#include "core/peers.h"
#include "net/bootstrap.h"
#include "net/transport.h"

namespace gpucoll::core {

struct Ring {
  int next, previous;
  std::unique_ptr<net::LinkEnd> to_next, from_previous;
  const char* to_next_transport;
};

struct RingRequest {
  net::LinkShape shape;
  bool force_shm, force_p2p;
};

Result<Ring> connect_ring(net::Bootstrap& bootstrap, const Peers& peers, net::MemoryPort& memory,
                          const gpu::Device& device, const RingRequest& request);

}  // namespace gpucoll::core
