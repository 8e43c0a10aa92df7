// A communicator of the runtime: ranks, channels, connections, and the launches on them.
//
// Life: create() or split() (collective) → connect() what operations need, then begin() and advance(), any number of
// times → finish() → reclaim() (see reclaim.h); of several at once: closing.h. reclaim() destroys it once
// peers_closed(): peers write into its memory until then. A communicator allocates no device memory before it needs it.
// Thread safety: one caller at a time; fault(), raise_fault() and the watchdog's check() at any time. Another thread
// may raise a fault, finish() and reclaim() it while a caller still waits in here: it is destroyed after that caller
// has left.
// Invariants: launches are ordered on the device in the order of their begin(), whatever streams they use (launcher.h).
// Ownership: owns connections and device memory; the device outlives it.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/comm/connections.h"
#include "core/comm/end_notices.h"
#include "core/comm/handed_ids.h"
#include "core/comm/stall_watch.h"
#include "core/connect/requirements.h"
#include "core/copy_engine/copy_engines.h"
#include "core/launch/graph_launches.h"
#include "core/launch/host_words.h"
#include "core/launch/launcher.h"
#include "core/memory/user_buffers.h"
#include "core/memory/workspace.h"
#include "core/peer/call_records.h"
#include "core/peer/fault.h"
#include "core/peer/peers.h"
#include "core/plan/collective_send_recv.h"
#include "core/progress/callers.h"
#include "core/progress/device_watch.h"
#include "core/progress/watchdog.h"
#include "gpu/device.h"
#include "proto/format/bootstrap.h"

namespace gpucoll::core {

// The kernels of a communicator's tasks. All of them are loaded when it is made. Loading one later, while work on the
// device waits for a peer, may wait for all that work, and may hold up the very thing that the peer waits for.
struct Kernels {
  std::span<const gpu::Kernel> all;
  const gpu::Kernel* move;  // the one for plans without a reduction (planner.h)
  const gpu::Kernel* packing;
};

class Communicator final : public Watched, public GraphUser {
 public:
  // Makes a communicator, and uses `bootstrap` until it returns.
  static Result<std::unique_ptr<Communicator>> create(gpu::Device& device, const Kernels& kernels,
                                                      net::Bootstrap& bootstrap, const Surroundings& surroundings = {});
  // The part of a split that this rank gets: a communicator of its own, or the number of one more share of this one
  // (comm_share.h), or neither where color is negative.
  struct Part {
    std::unique_ptr<Communicator> own;
    uint64_t share_number = 0;
  };
  // Makes a communicator of the ranks that pass the same color, ordered by key, then by rank here, on the same device.
  // Collective over this communicator. Makes a share where all ranks share and keep their places. What keeps the ranks
  // of one color from working does no harm here. options: of a communicator of its own; the ranks that share have equal
  // limits.
  Result<Part> split(int color, int key, bool share, const CommOptions& options);
  // Hands out an id as HandedIds does. after_fault: it works after a fault, too. Errors: those of can_meet(), too.
  Result<uint64_t> hand_out(const std::vector<int>& some, proto::UniqueId* id, bool after_fault,
                            const std::function<Status()>& watch);
  // Returns ok while there is reason to wait for the ranks `some`. Errors: aborted, after give_up(); unless
  // after_fault, the communicator's fault; remote where one of the ranks is dead.
  Status can_meet(const std::vector<int>& some, bool after_fault);
  HandedIds& handed_ids() noexcept { return *ids_; }
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  const Nodes& nodes() const { return connections_->nodes(); }
  const CommOptions& options() const noexcept { return options_; }
  // Returns a number that is equal on all ranks, and unlike that of every other communicator of a rank's.
  uint64_t key() const;
  gpu::Device& device() const { return device_; }
  bool has_peers_in_this_process() const noexcept;
  // Returns the fault, after a look at what kernels may have reported.
  const Fault& fault() noexcept {
    if (!fault_.raised() && words_ && words_.has_report()) look_at_report();
    return fault_;
  }
  // Raises the fault. Where `status` only says that another rank gave up (Code::remote) while a peer's page tells of a
  // truncated message, raises that instead.
  void raise_fault(const Status& status) noexcept;
  // Raises the fault that tells all ranks which one has revoked the communicator.
  void revoke();
  // Raises the fault, and ends what goes on after one.
  void give_up(const Status& status) noexcept {
    given_up_.store(true, std::memory_order_relaxed);
    raise_fault(status);
  }

  // Returns what tuner and planner go by for operations on these streams: equal on all ranks. Errors: invalid_usage
  // where some streams are capturing and others are not, and after finish(); the device's.
  Result<CommProperties> shape(const std::vector<gpu::Stream>& streams);
  bool connected(const Requirements& required) const noexcept { return connections_->has(required); }
  // Make each all-to-all in place one with two buffers, whose input is put aside before. reserve_aside() comes first,
  // for all queues that are begun together. Its failure latches.
  Status reserve_aside(const TaskQueue& queue);
  void put_aside(TaskQueue* queue) const;
  // Puts messages, and reductions of what they bring, in the place of some collectives (collective_send_recv.h).
  void replace_by_messages(TaskQueue* queue, const CommProperties& shape) const {
    core::replace_by_messages(queue, rank(), shape, workspace_.exchange());
  }
  // Returns what is kept of an equal queue that has been begun before. Then all that the queue needs is connected, and
  // replace_by_messages() leaves it as it is.
  PlanCache::Hit kept(const TaskQueue& queue, const CommProperties& shape) const;
  // Returns whether kept() would return the hit again, for the same queue and its shape now. REQUIRES: no stream of the
  // queue is capturing.
  bool is_kept(const PlanCache::Hit& hit) const noexcept { return hit && !closing_ && launcher_->is_kept(hit); }
  // Makes the connections that are missing; the two sides of a connection may come in any order. Ring, tree, mesh and
  // what reductions by copy engines need are collective, and succeed or fail on all ranks alike. Where a mesh or those
  // reductions turn out to be impossible, connect() makes ring and tree instead, and shape() is another from then on.
  // It calls idle() between looks. A failure latches: the peers learn of it.
  Status connect(const Requirements& required, void (*idle)() = nullptr);

  // Writes down collective calls that this rank is about to make, outside of captures, for the other ranks to compare.
  void announce(std::span<const Call> calls) noexcept { calls_.publish(calls); }
  // Raises the fault where ranks are known to have called differently.
  void compare_calls() noexcept;

  // Plans, then puts plans on their streams as long as there is room for them, without waiting: see Launcher. A failed
  // advance() latches. REQUIRES: connected(required_by(queue, rank(), shape)).
  // waits: the caller calls wait() next, and nothing in between. The kernel of this launch may then stay for the next
  // call.
  // kept: the hit that kept() returned; other queues may have been begun since.
  Status begin(const TaskQueue& queue, const CommProperties& shape, bool waits = false,
               const PlanCache::Hit& kept = {}) {
    if (kept) {
      GC_TRY_AS(const bool begun, begin_again(kept, waits));
      if (begun) return {};
    }
    return begin_anew(queue, shape, waits);
  }
  Result<bool> advance(bool holds_end = false);  // as Launcher::advance
  // Begins and launches once more what `kept` was begun for. REQUIRES: may_repeat(), and nothing else since.
  // may_repeat() returns whether a queue that holds this stream alone would be begun with this hit now.
  bool may_repeat(const PlanCache::Hit& kept, gpu::Stream stream) const {
    if (!is_kept(kept)) return false;
    if (!stream) return true;  // the default stream is never captured
    const auto capture = device_.capture_of(stream);
    return capture && *capture == 0;
  }
  Status repeat(const PlanCache::Hit& kept);
  // Connects, plans and launches for this communicator alone. Waits only for connections and for room.
  Status run(const TaskQueue& queue, void (*idle)() = nullptr);

  // Returns this rank's memory that others may open.
  Exports& exports() noexcept { return *exports_; }
  // Returns null where direct stores are turned off.
  UserBuffers* user_buffers() noexcept { return user_buffers_.get(); }
  Workspace& workspace() noexcept { return workspace_; }
  // launched() returns how many launches the done word counts. done() returns whether so many are done, and all
  // messages by copy.
  uint64_t launched() const noexcept { return launched_.load(std::memory_order_relaxed); }
  bool done(uint64_t launches) const noexcept;
  // Waits until `launches` launches have finished or the fault latch is set; calls idle() between looks. Only the
  // caller of begin() may call it.
  Status wait(uint64_t launches, void (*idle)());

  // Returns whether nothing runs any more that this rank has launched, as far as it tells.
  bool ended() const noexcept { return device_failed() || (done(launched()) && words_.running_in_graphs() == 0); }
  // Returns whether it has failed while launches have not left, which may never begin. REQUIRES: finish().
  bool is_stuck() const noexcept { return fault_.raised() && !ended(); }
  // Returns whether the peers are done with this rank's memory: each connected peer is closing, has failed, or is dead,
  // and no graph of the peers may be launched any more.
  bool peers_closed() const noexcept;
  // Returns whether the peers rest, for a caller that ends with all its memory. It asks less than peers_closed():
  // graphs that are not under way do not count. Nor, after a fault, does a peer that is stopped, perhaps for ever: its
  // kernels have come to where they wait.
  bool peers_rest() const noexcept;
  // Waits for outstanding launches, those of graphs as well, and after a fault a little for launches of peers that
  // store directly. Returns the first failure of the communicator.
  Status settle(void (*idle)());
  // Settles, launches nothing more, and tells the peers so: after a fault the watchdog does, once all kernels have
  // left. The second call has no effect. since_ns: where a fault is older, kernels and peers get their time to leave
  // from then on (monotonic_ns()). Returns the first failure of the communicator.
  Status begin_close(void (*idle)(), int64_t since_ns);
  // Returns whether this process may end as far as the peers' hosts go: they have taken what it has sent them, or are
  // waited for no longer. REQUIRES: begin_close().
  bool are_ends_taken() noexcept { return connections_->links().are_ends_taken(); }
  // Begins to close, and waits until the ends are taken. The second call has no effect.
  Status finish(void (*idle)());

  // Returns whether no caller is inside any more, and no stream waits for its words.
  bool unused() const noexcept { return callers_.none() && (copies_passed() || device_failed()); }
  // Returns whether graphs hold some of its launches: then all that these launches use must stay.
  bool in_graphs() const noexcept { return graphs_.any(); }

  void check() noexcept override;
  // Errors: the communicator's fault, or invalid_usage once it is finished.
  Status may_launch() noexcept override;

 private:
  Status begin_anew(const TaskQueue& queue, const CommProperties& shape, bool waits);
  // Begins once more what `kept` was begun for. Returns false where that has made room since.
  Result<bool> begin_again(const PlanCache::Hit& kept, bool waits);
  Communicator(gpu::Device& device, const Kernels& kernels, const CommOptions& options)
      : device_(device), kernels_(kernels), options_(options), words_(device), workspace_(device) {}
  KernelActivity activity() const noexcept;
  Status allocate();
  void prepare(const TuningTable* table);
  CommProperties plain_shape() const;
  Status make_launcher();
  void begin_launching() noexcept;
  bool copies_passed() const noexcept { return !copies_ || copies_->have_passed(); }
  bool lands() const noexcept { return copies_ && copies_->lands(); }
  // looks: the calling thread is the caller of begin().
  // since_ns: where a fault is older, kernels get their time to leave from then on.
  Status await(uint64_t launches, void (*idle)(), bool looks, int64_t since_ns);
  Status await_graphs(void (*idle)(), int64_t since_ns);
  Status settle(void (*idle)(), int64_t since_ns);
  // Returns whether this rank's device runs nothing any more: then what was launched has ended, whatever it has told.
  bool device_failed() const noexcept { return device_state_ && device_state_->failed(); }
  void tell_that_all_have_left() noexcept;
  bool has_left() const noexcept;
  void await_callers(int64_t since_ns) const noexcept;
  void launch_nothing_more() noexcept;
  int64_t grace_ns(bool looks) const noexcept;
  void look_at_report() noexcept;
  void look_at_device() noexcept;

  gpu::Device& device_;
  const Kernels kernels_;
  const CommOptions options_;
  std::shared_ptr<const DeviceState> device_state_;
  HostWords words_;
  Peers peers_;
  std::shared_ptr<CauseLog> causes_;
  std::atomic<bool> watchable_{false};  // peers_ is there
  CallRecords calls_{peers_};
  Workspace workspace_;
  GraphLaunches graphs_{words_};
  Fault fault_;
  EndNotices notices_{peers_, fault_};
  std::unique_ptr<Connections> connections_;
  std::optional<HandedIds> ids_;
  std::unique_ptr<Exports> exports_;
  std::unique_ptr<CopyEngines> copies_;        // null where nothing goes by copy engine
  std::unique_ptr<UserBuffers> user_buffers_;  // null: turned off
  std::optional<ResidentKernel> resident_;
  std::unique_ptr<Launcher> launcher_;
  uint64_t last_share_ = 0;  // the highest number given
  std::atomic<bool> closing_{false}, given_up_{false};
  Callers callers_;
  std::atomic<uint64_t> launched_{0};   // the launcher writes it, the watchdog reads it
  std::atomic<bool> launching_{false};  // advance() may have launched more than launched_
  StallWatch stall_{peers_, words_};
};

}  // namespace gpucoll::core
