// Direct stores of collectives in rings and of messages (proto/direct.h): what this rank grants, and whose grants it
// looks for.
//
// A grant is the address of an output as the kernels of the rank that sends to it know it. Ranks of one process have
// one address space, so there it is the address itself, where the link between them is over P2P and the memory is of a
// kind that the peer is let into with it. No two ranks need agree: a rank whose grants are not looked for, or that
// finds none, uses the connection's slots.
//
// Thread safety: one caller at a time. Ownership: the context outlives it.
#pragma once
#include "core/links.h"
#include "core/peers.h"
#include "core/planner.h"
#include "gpu/device.h"

namespace gpucoll::core {

struct DirectContext {
  const gpu::Device& device;
  const Peers& peers;
  const Links& links;
  uint64_t least_bytes;  // of an output, for direct stores to be worth what they cost before they begin
};

class DirectPath final : public DirectMarker {
 public:
  explicit DirectPath(const DirectContext& context) : context_(context) {}

  void mark(proto::CollectiveItem& item, uint64_t output_bytes) override;
  void mark(proto::PairItem& item) override;

 private:
  // Whether a link between the two sides' kernels and memory is over P2P within this process.
  bool reaches(proto::LinkKind kind, int peer, net::Side side) const;
  // The address of this rank's memory in kernels of the peer; null where they do not reach it.
  uint8_t* address_for(proto::LinkKind kind, int peer, void* output) const;

  const DirectContext context_;
};

}  // namespace gpucoll::core
