// Direct stores of collectives in rings and of messages (proto/direct.h): what this rank grants, and whose grants it
// looks for.
//
// A grant is the address of an output as the kernels of the rank that sends to it know it. Ranks of one process have
// one address space, so there it is the address itself, where the link between them is over P2P and the memory is of a
// kind that the peer is let into with it. Ranks of several processes have opened what the owner published
// (proto/format/direct.h): what is registered, and what is asked for a second time, as what is used once would not be
// worth it.
// No two ranks need agree: a rank whose grants are not looked for, or that finds none, uses the connection's slots.
//
// There are places for kDirectMemory published allocations. What programs register keeps its own; what was published by
// itself makes room when it has not been asked for long and no operation that may use it is under way: then this rank
// has launched nothing that is not done, and so the peers are done with its buffers, too.
//
// Thread safety: mark(), open() and publish() by one caller at a time, the rest from any thread. Ownership: closes what
// it opened; the context outlives it. Destroy it when this rank's kernels have ended.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "core/links.h"
#include "core/peers.h"
#include "core/planner.h"
#include "core/proxy.h"
#include "core/registration.h"
#include "gpu/device.h"
#include "proto/format/direct.h"

namespace gpucoll::core {

struct DirectContext {
  gpu::Device& device;
  const Peers& peers;
  const Links& links;
  Exports& exports;
  uint64_t least_bytes;  // of an output, for direct stores to be worth what they cost before they begin
  // How many of this rank's launches there are, outside of graphs, and how many are done.
  const std::atomic<uint64_t>& launched;
  const uint64_t& done;
};

class DirectPath final : public DirectMarker, public ProxyWork {
 public:
  explicit DirectPath(const DirectContext& context) : context_(context) {}
  ~DirectPath() override;
  DirectPath(const DirectPath&) = delete;
  DirectPath& operator=(const DirectPath&) = delete;

  bool mark(proto::CollectiveItem& item, uint64_t output_bytes, bool capturing) override;
  bool mark(proto::PairItem& item, bool capturing) override;
  bool open(const void* buffer, bool capturing, proto::BufferAddresses& addresses) override;

  // Whether any peer may ever have stored into this rank's buffers.
  bool has_granted() const noexcept { return has_granted_.load(std::memory_order_relaxed); }
  // Lets the peers open the allocation around a kernel address, until it is withdrawn as often, or the memory is freed.
  // False where no place is left: then there is nothing to withdraw. `place`: as Exports says.
  bool publish(const uint8_t* kernel_address, const ExportedPlace& place);
  void withdraw(const ExportedPlace& place);
  // Now and then: withdraws what has been freed, and lets go what peers have withdrawn.
  void look_for_freed() noexcept;

  Progress progress() noexcept override { return Progress::none_pending; }
  void tidy() noexcept override;

 private:
  struct Published {
    const uint8_t* base;
    uint64_t buffer_id, number;  // number 0: a free place
    uint32_t slot, serial;
    int uses;
    bool by_itself;            // one of its uses is this class's
    uint64_t asked;            // when, by asks_
    uint64_t launched_before;  // the operations that it was last asked for
  };
  // What this rank has open of a peer's memory.
  struct Opened {
    uint64_t number;
    uint8_t* base;
  };
  // An allocation that was asked for once.
  struct Seen {
    const void* base;
    uint64_t buffer_id;
  };
  struct View {
    uint64_t version;
    std::array<Opened, proto::kDirectMemory> memory;
  };

  bool over_p2p(proto::LinkKind kind, int peer, net::Side side) const;
  // Whether kernels of this rank may find grants of the peer.
  bool looks(proto::LinkKind kind, int peer);
  // The address of this rank's memory in kernels of the peer; null where they do not know it.
  uint8_t* address_for(proto::LinkKind kind, int peer, void* output, bool capturing);
  uint8_t* mapped_address(int peer, const gpu::PointerInfo& info, const uint8_t* output);
  bool has_open(int peer);
  // Looks at what the peer has published, and has the proxy close what is withdrawn. Whether any of it is open.
  bool opens(int peer);
  void publish_again(const gpu::PointerInfo& info);
  bool publish(const uint8_t* kernel_address, const ExportedPlace& place, bool by_itself);
  // With the lock held.
  Published* published(const gpu::PointerInfo& info);
  Published* place_to_take(bool by_itself);
  Published* free_place(bool by_itself);
  View& look_at(int peer);
  void open(int peer, uint32_t place, Opened& opened);
  void let_go(int peer, uint32_t place, Opened& opened);
  void let_go_withdrawn(int peer, View& view);
  void take_back(uint32_t place);
  uint64_t published_by(int peer, uint32_t place) const;

  const DirectContext context_;
  std::atomic<bool> has_granted_{false};
  bool has_proxy_ = false;    // mark()'s
  bool told_ = false;         // the same: that others reach this rank's buffers
  bool told_grant_ = false;   // the same: that others store into them
  mutable std::mutex mutex_;  // of what follows
  std::array<Published, proto::kDirectMemory> published_ = {};
  uint64_t last_number_ = 0, asks_ = 0;
  std::array<Seen, proto::kDirectMemory> seen_ = {};  // mark()'s
  size_t n_seen_ = 0;                                 // the same
  std::map<int, View> views_;
  std::vector<void*> dropped_;
};

}  // namespace gpucoll::core
