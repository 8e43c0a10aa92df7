// Lets collectives in rings and messages store directly into outputs (proto/direct.h): this rank grants its own
// outputs, and looks for grants of its peers.
//
// A grant is the address of an output as the kernels of the sending rank know it. Ranks of one process have one address
// space: there the grant is the address itself, where their link is over P2P and the peer's device may access that kind
// of memory. Ranks of several processes open what the owner has published (proto/format/direct.h). A rank publishes
// memory that is registered, and memory that is asked for a second time; publishing memory that is used once would not
// pay.
// Ranks need not agree: a rank that finds no grants, or whose grants nobody looks for, uses the connection's slots.
//
// There are places for kDirectMemory published allocations. A registered allocation keeps its place. One that was
// published on its own initiative gives up its place when nobody has asked for it for long, and no operation that may
// use it is under way: when all launches of this rank are done, the peers are done with its buffers, too.
//
// Thread safety: mark(), open() and publish() by one caller at a time, the rest from any thread. Ownership: closes what
// it opened; the context outlives it. Destroy it when this rank's kernels have ended.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/observe/causes.h"
#include "core/connect/links.h"
#include "core/memory/registration.h"
#include "core/peer/peers.h"
#include "core/plan/planner.h"
#include "core/progress/proxy.h"
#include "gpu/device.h"
#include "proto/format/direct.h"

namespace gpucoll::core {

struct DirectContext {
  gpu::Device& device;
  const Peers& peers;
  const Links& links;
  Exports& exports;
  uint64_t least_bytes;  // outputs below this do not repay what direct stores cost before they begin
  // Count this rank's launches outside of graphs, and those of them that are done.
  const std::atomic<uint64_t>& launched;
  std::function<uint64_t()> done;
  CauseLog& causes;
};

class UserBuffers final : public UserBufferMarker, public ProxyWork {
 public:
  explicit UserBuffers(const DirectContext& context) : context_(context) {}
  ~UserBuffers() override;
  UserBuffers(const UserBuffers&) = delete;
  UserBuffers& operator=(const UserBuffers&) = delete;

  bool mark(proto::CollectiveItem& item, uint64_t output_bytes, bool capturing) override;
  bool mark(proto::SendRecvItem& item, bool capturing) override;
  bool open(const void* buffer, bool capturing, proto::BufferAddresses& addresses) override;

  // Returns whether any peer may ever have stored into this rank's buffers.
  bool has_granted() const noexcept { return has_granted_.load(std::memory_order_relaxed); }
  // Lets the peers open the allocation around a kernel address, until withdraw() is called as often, or the memory is
  // freed. Returns false where no place is left: then there is nothing to withdraw. `place`: as Exports says.
  bool publish(const uint8_t* kernel_address, const ExportedPlace& place);
  void withdraw(const ExportedPlace& place);
  // Withdraws memory that has been freed, and releases what peers have withdrawn. Called now and then.
  void look_for_freed() noexcept;

  Progress progress() noexcept override { return Progress::none_pending; }
  void tidy() noexcept override;

 private:
  struct Published {
    const uint8_t* base;
    uint64_t buffer_id, number;  // number 0: a free place
    uint32_t slot, serial;
    int uses;
    bool by_itself;            // one of its uses is this class's own
    uint64_t asked;            // value of asks_ at the last request
    uint64_t launched_before;  // launches of this rank up to the last operation that asked for it
  };
  // Memory of a peer that this rank has open.
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
  // Returns whether kernels of this rank may find grants of the peer.
  bool looks(proto::LinkKind kind, int peer);
  // Returns the address of this rank's memory in kernels of the peer; null where they do not know it.
  uint8_t* address_for(proto::LinkKind kind, int peer, void* output, bool capturing);
  uint8_t* mapped_address(int peer, const gpu::PointerInfo& info, const uint8_t* output);
  bool has_open(int peer);
  // Reads what the peer has published, and has the proxy close what is withdrawn. Returns whether any of it is open.
  bool opens(int peer);
  // Returns whether others can open this memory, and tells where they cannot, once a call.
  bool is_open(const gpu::PointerInfo& info);
  void publish_again(const gpu::PointerInfo& info);
  bool publish(const uint8_t* kernel_address, const ExportedPlace& place, bool by_itself);
  // Called with the lock held.
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
  uint64_t slow_call_ = 0;    // mark()'s: the last call of which it has told, by the number of its first launch
  bool told_ = false;         // mark()'s: it has logged that other ranks reach this rank's buffers
  bool told_grant_ = false;   // mark()'s: it has logged that other ranks store into them
  mutable std::mutex mutex_;  // guards what follows
  std::array<Published, proto::kDirectMemory> published_ = {};
  uint64_t last_number_ = 0, asks_ = 0;
  std::array<Seen, proto::kDirectMemory> seen_ = {};  // mark()'s
  size_t n_seen_ = 0;                                 // mark()'s
  std::map<int, View> views_;
  std::vector<void*> dropped_;
};

}  // namespace gpucoll::core
