// The other ranks of a communicator: who they are, whether they live, how far they are.
//
// exchange() is collective and fails on every rank alike, with a sentence that names the rank at fault. Each rank keeps
// a page for the others; see proto/format/peer.h.
// Thread safety: after exchange() everything is read-only but the pages' own atomics.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/observe/causes.h"
#include "base/shared_memory.h"
#include "base/status.h"
#include "core/peer/liveness.h"
#include "core/peer/remote_pages.h"
#include "gpu/device.h"
#include "net/bootstrap/bootstrap.h"
#include "proto/format/peer.h"

namespace gpucoll::core {

// Returns the identity of a rank's device.
gpu::Identity identity_of(const proto::PeerInfo& info);

// Returns whether two ranks are on one node, where each can open the other's memory, or even use one device.
bool on_one_node(const proto::PeerInfo& a, const proto::PeerInfo& b);
bool on_one_device(const proto::PeerInfo& a, const proto::PeerInfo& b);

// Returns how many blocks the kernels of each rank may have, so that the kernels of all ranks that share a device run
// there at once, with room for as many again of another communicator. A rank alone on its device gets all blocks that
// run there. 0: some device has no block for each of its ranks.
int blocks_for_each(const std::vector<proto::PeerInfo>& infos);

// Holds what a program says of a communicator when it makes it.
struct CommOptions {
  std::string name;    // for messages and traces; empty: it has none
  int min_blocks = 0;  // large operations get so many blocks at least, where that is possible; 0: no wish
  int max_blocks = 0;  // no kernel has more blocks; 0: there is no limit
  // Waits for other ranks have no end, unless the user has set the parameter timeout.
  bool waits_without_end = false;
  // Calls return while the program's streams wait for what they began. Copies that the host starts then are off unless
  // the user has asked for them: it cannot start any while the program is in cudaFree, which waits for these streams.
  bool stream_ordered = false;
};

// Returns how many seconds a communicator waits for other ranks; 0: without end.
int64_t timeout_of(const CommOptions& options);

// Names the ranks of a communicator as its maker knows them, and the processes that they may have to wait for besides.
struct Surroundings {
  struct Bystander {
    std::string name;
    const gc_pulse* pulse;  // outlives the communicator
  };
  std::vector<int> numbers;  // of the ranks, for messages; empty: as they are
  std::vector<Bystander> bystanders;
  std::shared_ptr<CauseLog> causes;  // null: the communicator has one of its own
  CommOptions options = {};
};

// Returns whether the parameter transport leaves a way to ranks of other nodes.
bool reaches_other_nodes();

class Peers {
 public:
  // Exchanges what ranks tell each other. `mine` tells whether this rank can take part at all: a failure goes to the
  // others.
  static Result<Peers> exchange(net::Bootstrap& bootstrap, const gpu::Device& device, const Status& mine,
                                const Surroundings& surroundings = {});

  // Returns ok where `mine` is ok on every rank, else the first failure on every rank. Collective. *facts, where given,
  // holds this rank's facts, and then those that all ranks have.
  Status agree(net::Bootstrap& bootstrap, const Status& mine, uint32_t* facts = nullptr) const;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(infos_.size()); }
  const proto::PeerInfo& info(int rank) const { return infos_[static_cast<size_t>(rank)]; }
  proto::ControlPage& own_page() const { return *page(rank_); }
  // Returns a rank's whole page, for messages; a rank may write only its own.
  uint8_t* page_bytes(int rank) const { return static_cast<uint8_t*>(pages_[static_cast<size_t>(rank)].data()); }
  // Return the part of a rank's page that is about copies, and what it tells one other rank there
  // (proto/format/copy.h).
  proto::CopyPage& copy_page(int rank) const {
    return *reinterpret_cast<proto::CopyPage*>(page_bytes(rank) + proto::copy_page_offset(size()));
  }
  proto::CopyLane& copy_lane(int rank, int towards) const {
    return *reinterpret_cast<proto::CopyLane*>(page_bytes(rank) + proto::copy_lane_offset(size(), towards));
  }
  // Return the parts for registered memory (proto/format/direct.h).
  proto::DirectPage& direct_page(int rank) const {
    return *reinterpret_cast<proto::DirectPage*>(page_bytes(rank) + proto::direct_page_offset(size()));
  }
  proto::DirectLane& direct_lane(int rank, int towards) const {
    return *reinterpret_cast<proto::DirectLane*>(page_bytes(rank) + proto::direct_lane_offset(size(), towards));
  }
  // Returns the page on which a rank writes what it calls (proto/format/calls.h).
  proto::CallsPage& calls_page(int rank) const {
    return *reinterpret_cast<proto::CallsPage*>(page_bytes(rank) + proto::calls_page_offset(size()));
  }
  // Returns what every rank found out about all others (proto/format/peer.h); equal on all ranks.
  uint32_t common_capabilities() const { return common_facts_; }

  // Returns the most blocks of any rank's kernels; equal on all ranks.
  int most_blocks() const { return blocks_for_each(infos_); }
  // Return the limits that the programs of all ranks have set (CommOptions): the largest of the
  // one, the smallest of the other (INT_MAX: no limit), which counts where they contradict each other. Equal on all
  // ranks.
  int min_blocks() const;
  int max_blocks() const;

  bool closing(int rank) const noexcept;
  // Returns whether kernels of `rank` store into others' memory no more: it is closing, has left after a fault, or is
  // dead.
  bool left(int rank) const noexcept;
  // Returns a gpucoll::Code, 0 while all is well there.
  uint32_t fault(int rank) const noexcept;
  uint64_t entered(int rank) const noexcept;
  bool dead(int rank) const noexcept { return !alive(rank); }
  // Returns whether `rank` writes into others' memory no more: it is closing, has failed, or is dead.
  bool gone(int rank) const noexcept;
  // Returns whether a graph with operations of `rank` has been launched. Exact where it is closing.
  bool has_launched_graphs(int rank) const noexcept;
  // Returns whether graphs hold launches of `rank`, while it lives.
  bool held(int rank) const noexcept;
  // Returns what is wrong with any peer: dead without having closed, or else a fault on its page. Ok while all is well.
  Status check() const;
  // Names the ranks that have launched fewer than `plans` plans: "rank 1 (process 4711), rank 3 (process 4713)".
  std::string missing(uint64_t plans) const;
  // Returns the same of those whose graphs have begun fewer than `launches`.
  std::string missing_in_graphs(uint64_t launches) const;
  bool in_this_process(int rank) const noexcept { return !remote(rank) && info(rank).pid == info(rank_).pid; }
  // Returns whether a rank is on another node than this one; whether any two ranks are on different ones.
  bool remote(int rank) const noexcept { return remote_ && !on_one_node(info(rank), info(rank_)); }
  bool on_several_nodes() const noexcept { return remote_ != nullptr; }
  // Returns for each rank a number that the ranks of its node have in common; equal on all ranks.
  std::vector<int> node_numbers() const;
  // Tells the ranks of other nodes what is new on this rank's page. Those of this node see it anyway.
  void publish() const noexcept {
    if (remote_) remote_->publish();
  }
  // Tells `rank`, where it is remote, of a message that has just been written on this rank's page for it.
  Status tell_of_letter(int rank, proto::MailboxLane lane, uint64_t number) const {
    return remote(rank) ? remote_->send_letter(rank, lane, number) : Status();
  }
  // "rank 1 (process 4711)", with " on host node7" where ranks are on several nodes
  std::string name(int rank) const;
  // Returns timeout_of() the communicator.
  int64_t timeout() const { return timeout_; }
  // The number by which messages know a rank.
  int number(int rank) const { return numbers_.empty() ? rank : numbers_[static_cast<size_t>(rank)]; }
  // Returns whether the process of `rank` is stopped, as far as its pulse tells.
  bool silent(int rank) const noexcept;
  // Returns what is to be said after `waited_s` in vain since about `since`, where some rank, or a bystander, does not
  // run, or did not run for a part of that time: the longest. Ok where all run.
  Status stopped(std::chrono::steady_clock::time_point since, long long waited_s) const;

 private:
  Status may_meet(net::Bootstrap& bootstrap) const;
  Status cause_of(const Status& failure) const;
  Status fault_of(int rank, Code as) const;
  Status open_pages();
  Status open_page(const proto::PeerInfo& info);
  bool alive(int rank) const noexcept {
    return liveness_[static_cast<size_t>(rank)].alive() && (!remote_ || remote_->alive(rank));
  }
  proto::ControlPage* page(int rank) const {
    return static_cast<proto::ControlPage*>(pages_[static_cast<size_t>(rank)].data());
  }
  int rank_ = 0;
  int64_t timeout_ = 0;
  uint32_t common_facts_ = 0;
  std::vector<proto::PeerInfo> infos_;
  std::vector<SharedMemory> pages_;
  std::vector<Liveness> liveness_;       // of remote ranks: of nobody
  std::unique_ptr<RemotePages> remote_;  // null where all are on one node
  std::vector<int> numbers_;
  std::vector<Surroundings::Bystander> bystanders_;
};

}  // namespace gpucoll::core
