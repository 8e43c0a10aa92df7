// The connections of a communicator: links for collectives (rings and trees) and for send and receive, each made when
// it is first needed, with its peer alone.
//
// Thread safety: one caller at a time. Ownership: owns this rank's ends; destroy it only when the peers are done with
// this rank's memory. Borrows mailbox and memory.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/observe/causes.h"
#include "core/connect/end_wait.h"
#include "core/connect/link_progress.h"
#include "core/peer/peers.h"
#include "core/peer/wireup.h"
#include "gpu/device.h"

namespace gpucoll::core {

struct LinksOptions {
  proto::ConnectionShape slots[proto::kLinkKinds];
  int64_t transport;                         // the parameter
  std::function<KernelActivity()> activity;  // from any thread
  const MessageCounts* counts = nullptr;     // outlives the links
};

// A link and how many lanes it should have.
struct LinkWish {
  LinkName name;
  int lanes;
  std::vector<int> channels = {};  // of collectives, to which the new lanes go
  net::MeshMemory mesh = {};       // of links of a mesh
};

class Links {
 public:
  Links(Mailbox& mailbox, const Peers& peers, net::MemoryPort& memory, const gpu::Device& device,
        const LinksOptions& options, CauseLog& causes)
      : mailbox_(mailbox), peers_(peers), memory_(memory), device_(device), options_(options), causes_(causes) {}

  // Returns 0 where there is no link.
  int lanes(const LinkName& name) const;
  // Makes links and lanes that are not there yet; a name comes at most once. Both ends of a link make it with the same
  // number of lanes, at any time, together with other links. Afterwards all are there; on failure, those that could be
  // made.
  Status make(const std::vector<LinkWish>& wishes, PeerWait& wait);
  // REQUIRES: lane < lanes(name); not of a mesh.
  proto::Connector connector(const LinkName& name, int lane) const;
  // Returns whether the link is there, and its memory is the peer's device memory.
  bool over_p2p(const LinkName& name) const;
  // Returns whether every link for collectives lies in device memory.
  bool all_p2p() const { return all_p2p_; }
  // Returns by what links go between nodes: "over tcp between nodes".
  const char* over_network() const;
  // Tells the host's thread that kernels have been launched whose steps it may have to move.
  void wake() noexcept {
    if (progress_) progress_->wake();
  }
  // Tells the peers' ends that this rank closes in order, once all steps are moved. REQUIRES: this rank's launches have
  // ended, and none follows.
  void finish() noexcept;
  // Returns whether that has come to the peers' systems, or need not be waited for any longer (EndWait): not after a
  // fault. It looks by system calls, and has this process's system answer the peers, which may wait likewise.
  bool are_ends_taken() noexcept;
  // Receives what peers that are closing send, until their ends have told that they do. From any thread.
  void expect_ends() {
    LinkProgress* const progress = watched_.load(std::memory_order_acquire);
    if (progress) progress->expect_ends([this](int peer) { return peers_.closing(peer); });
  }
  // Returns what has broken a connection; ok while all is well. Connections of peers that are closing break anyway, and
  // count only where launches of this rank are outstanding. Over tcp a peer that closes in order says so before; over
  // verbs it does not: then *certain is false, as launches may still take what has come. From any thread.
  Status check(bool outstanding, bool* certain) const;
  // Returns whether that rank may have memory of this rank open.
  bool reaches(int peer) const { return linked_.contains(peer); }

 private:
  std::vector<Attempt> attempts(const LinkName& name) const;
  net::LinkShape shape_of(const LinkWish& wish) const;
  Status wireup_all(std::vector<Wireup>& wireups, PeerWait& wait);
  Status advance_all(std::vector<Wireup>& wireups, PeerWait& wait);
  Status keep(Wireup& wireup);

  Mailbox& mailbox_;
  const Peers& peers_;
  net::MemoryPort& memory_;
  const gpu::Device& device_;
  const LinksOptions options_;
  CauseLog& causes_;
  std::map<LinkName, std::vector<Link>> links_;  // piece by piece
  std::vector<Link> half_made_;                  // of wireups that were broken off: peers may use them
  std::set<int> linked_;
  std::unique_ptr<LinkProgress> progress_;       // null while no link needs it
  std::optional<EndWait> end_wait_;              // from finish() on, until the ends are taken
  std::atomic<LinkProgress*> watched_{nullptr};  // progress_, for check() and expect_ends()
  bool all_p2p_ = true, any_tcp_ = false, any_verbs_ = false;
};

}  // namespace gpucoll::core
