// Holds all that the ranks of a communicator have connected: links for rings, chains, trees and messages, and memory
// that every rank reaches, for meshes and for what copy engines bring. Nothing is connected before an operation
// requires it.
//
// Thread safety: make_tables(), make() and count() by one caller at a time; links(), look_at_links() by the watchdog as
// well; the rest as Links says. Ownership: owns links and memory, borrows the context. Destroy it when this rank's
// kernels have ended, and the peers are done with this rank's memory.
// Invariant: properties() are equal on all ranks. What turns out to be impossible they lose on all ranks at once.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/connect/capabilities.h"
#include "core/connect/channel_links.h"
#include "core/connect/device_tables.h"
#include "core/connect/link_breaks.h"
#include "core/connect/links.h"
#include "core/connect/mesh.h"
#include "core/connect/network_mesh.h"
#include "core/connect/nodes.h"
#include "core/connect/requirements.h"
#include "core/peer/call_records.h"
#include "core/peer/mailbox.h"
#include "core/peer/memory_port.h"
#include "core/peer/peers.h"

namespace gpucoll::core {

struct ConnectionsContext {
  gpu::Device& device;
  const Peers& peers;
  CallRecords& calls;
  CauseLog& causes;
  std::function<KernelActivity()> activity;  // of this rank; from any thread
};

class Connections {
 public:
  Connections(const ConnectionsContext& context, const TuningTable* table, const CommOptions& options);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  const Nodes& nodes() const noexcept { return nodes_; }
  // Returns what tuner and planner go by for operations outside of captures, but for the parameters algorithm and
  // protocol.
  const CommProperties& properties() const noexcept { return capabilities_.properties; }
  const CopyEngineLimits& copies() const noexcept { return capabilities_.copies; }
  Mailbox& mailbox() noexcept { return *mailbox_; }
  Links& links() noexcept { return *links_; }
  const Links& links() const noexcept { return *links_; }

  // Makes the tables that every launch needs. latch, doorbell: kernel addresses.
  Status make_tables(proto::FaultLatch* latch, proto::Doorbell* doorbell);
  // Returns the kernel address of the tables. REQUIRES: make_tables().
  proto::DeviceComm* tables() const noexcept { return tables_->comm(); }

  bool has(const Requirements& required) const noexcept;
  // Makes what is missing. Ring, tree, mesh and landing memory are collective, and succeed or fail on all ranks alike.
  // Where a mesh or landing memory turns out to be impossible, make() makes ring and tree instead. On failure the
  // communicator must fail. REQUIRES: make_tables().
  Status make(const Requirements& required, PeerWait& wait);
  // Returns each rank's landing memory, as this rank's device reaches it; empty before make() has made it.
  std::vector<void*> landing() const { return lands_ ? landing_->buffers() : std::vector<void*>(); }
  // Returns whether the peer may have memory of this rank open.
  bool reach(int peer) const noexcept { return peer != rank() && (mesh_tried_ || links_->reaches(peer)); }

  // Counts the messages of a launch that is to come, so that what waits for peers on other nodes is counted.
  void count(const TaskQueue& queue, bool captured) noexcept {
    if (message_counts_) message_counts_->count(queue, captured);
  }
  // Looks whether a link has broken. launches: how many have been made, and how many have ended.
  Status look_at_links(bool launched, uint64_t launches);

 private:
  int rank() const { return context_.peers.rank(); }
  int size() const { return context_.peers.size(); }
  bool needs_mesh(const Requirements& required) const noexcept {
    return required.mesh && properties().mesh && !mesh_ && !network_mesh_;
  }
  bool needs_line_mesh(const Requirements& required) const noexcept {
    return required.line_mesh && properties().line_mesh && !line_mesh_;
  }
  bool needs_landing(const Requirements& required) const noexcept {
    return required.copy_reductions && properties().copies.reductions && !landing_;
  }
  ChannelNeeds channel_needs(const Requirements& required) const noexcept;
  Status compare(const Requirements& required, PeerWait& wait);
  Status make_mesh(PeerWait& wait);
  Status make_network_mesh(PeerWait& wait);
  Status open_network_mesh(net::Bootstrap& bootstrap);
  Status make_line_mesh(PeerWait& wait);
  Status make_landing(PeerWait& wait);
  Result<bool> connect_mesh(std::unique_ptr<Mesh>* mesh, PeerWait& wait);
  Status agree_on_links(const Status& mine, PeerWait& wait);

  const ConnectionsContext context_;
  const Nodes nodes_;
  Capabilities capabilities_;  // some of their properties may turn false in make()
  DeviceMemoryPort memory_;
  const std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<Mesh> mesh_, line_mesh_, landing_;
  std::unique_ptr<NetworkMesh> network_mesh_;  // in the place of mesh_
  bool mesh_tried_ = false, lands_ = false;
  std::unique_ptr<MessageCounts> message_counts_;  // null: no link goes over a network
  std::unique_ptr<Links> links_;
  std::unique_ptr<ChannelLinks> channel_links_;
  LinkBreaks link_breaks_;
  std::unique_ptr<DeviceTables> tables_;
};

}  // namespace gpucoll::core
