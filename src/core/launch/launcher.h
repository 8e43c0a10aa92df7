// Puts the tasks of one communicator on streams: plans them, then launches plan after plan.
//
// begin() plans what a group holds; advance() launches some of it, as the work FIFO has room, and never waits: one
// thread may drive many ranks whose launches need each other, so it calls advance() of each in turn until all are out
// (core/comm/group.cpp). In between nothing else may be begun.
//
// Order. Launches of one communicator follow each other on the device, whatever streams they use: the launch stream is
// the first one of the group; it waits for the group's other streams and for the communicator's earlier launches by an
// event; in the end the others wait for it, and the event is recorded in it. In a capture, event waits and records
// become part of the graph and happen at each of its launches, so graphs and eager launches are ordered as well; within
// one capture, the streams wait for each other. Graphs have an event of their own, which eager launches use, too, once
// there are captures: the other one says that the eager launches have ended, whatever graphs wait for.
// A captured launch has no done word: it tells of itself by GraphWords. Its items lie in memory of the graph's.
// A group on one stream that is a few launches, and has come before, is launched as it was kept (plan_cache.h).
//
// Thread safety: one caller at a time; launched() from any thread. Ownership: the device and what LaunchContext points
// to outlive it. Graphs may outlive it, but must not be launched any more then.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/observe/causes.h"
#include "core/launch/graph_memory.h"
#include "core/launch/host_words.h"
#include "core/launch/plan_cache.h"
#include "core/launch/resident_kernel.h"
#include "core/launch/stream_ops.h"
#include "core/launch/work_fifo.h"
#include "core/peer/fault.h"
#include "core/plan/planner.h"
#include "core/progress/device_watch.h"
#include "core/progress/quiescence.h"
#include "gpu/device.h"

namespace gpucoll::core {

struct LaunchContext {
  gpu::Device& device;
  const Fault& fault;
  int rank;
  const gpu::Kernel* move;  // the kernel for plans without a reduction
  proto::DeviceComm* comm;  // kernel address
  const uint64_t* done;     // the done word: host and kernel address
  uint64_t* done_kernel;
  uint64_t* entered;  // on this rank's control page: how many launches have been made, for the peers' reports
  UserBufferMarker* direct = nullptr;
  ResidentKernel* resident = nullptr;      // null: kernels never stay
  proto::GraphWords* in_graphs = nullptr;  // kernel address: where launches of graphs tell of themselves
  GraphHold* hold = nullptr;               // counts the graphs that hold launches of `user`
  GraphUser* user = nullptr;
  CauseLog* causes = nullptr;                      // null: nobody is told of slow launches
  const proto::GraphWords* graphs_told = nullptr;  // in_graphs as the host sees it
  const DeviceState* device_state = nullptr;       // null: nobody watches the device
  HostWords* seldom = nullptr;  // not null: kernels tell seldom of their end, and the words learn of an event
};

class Launcher final : public InFlight {
 public:
  static Result<std::unique_ptr<Launcher>> create(const LaunchContext& context);
  ~Launcher() override;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // The capture that these streams take part in, 0 for none. Errors: invalid_usage, where they do not agree.
  static Result<uint64_t> capture_of(gpu::Device& device, const std::vector<gpu::Stream>& streams);
  // Plans a group, with `shape` and its `capturing` as capture_of() said. On failure nothing has been begun.
  // copies: has begun messages of the same group, null for none. steps: the launches of these messages.
  // REQUIRES: the tasks' kernels are prepared; what required_by(queue, rank, shape) says is connected; the last
  // advance() of the previous begin() returned true or failed.
  // waits: the caller will wait for the end, calling look(), before it does anything else.
  Status begin(const TaskQueue& queue, const CommProperties& shape, StreamOps* copies = nullptr,
               std::vector<PlannedLaunch> steps = {}, bool waits = false);
  // Return a hit for what is kept of an equal group, and begin it; begin_kept() returns the group, or null where it is
  // kept no more. No stream may be capturing.
  PlanCache::Hit kept(const TaskQueue& queue, const CommProperties& shape) const { return kept_.find(queue, shape); }
  const TaskQueue* begin_kept(const PlanCache::Hit& kept, bool waits);
  // Returns whether kept() would return the hit again, as PlanCache::has() and shape_changes() do.
  bool is_kept(const PlanCache::Hit& hit) const noexcept { return kept_.has(hit); }
  void shape_changes() noexcept { kept_.shape_changes(); }
  // Launches what there is room for, and returns whether everything is launched now. Errors: the fault of the
  // communicator, or of the device. It then forgets the rest of what was begun, so the caller should make the
  // communicator fail.
  // holds_end: nothing is put on a stream that waits for copies which the host has still to start, so the caller comes
  // again until these have ended. Else a call that waits for the whole device, as cudaFree does, keeps the host from
  // starting them.
  Result<bool> advance(bool holds_end = false);
  // Launches what was meant for a kernel that had just left. Called while the caller waits.
  Status look();

  // Returns whether all that has been put on streams has ended, in graphs as well, as far as their launch has been
  // asked for.
  bool rests() const noexcept;
  // Returns how many launches the done word counts: not those in captures.
  uint64_t launched() const noexcept { return launched_.load(std::memory_order_relaxed); }
  // Returns how many launches had been kept on the device before.
  uint64_t launched_kept() const noexcept { return kept_.launched(); }
  // Returns whether launches fly as far as they tell: nobody knows of graphs before they begin. After a fault, too,
  // they do until they have left.
  bool in_flight() const noexcept override;
  bool may_begin() const noexcept override;

 private:
  // The last launch stream in a capture that may still be going on.
  struct Capture {
    uint64_t id;
    gpu::Stream last;
  };
  explicit Launcher(const LaunchContext& context);
  // begin() calls these: they do what may take long or wait for the device, before any launch that peers might wait
  // for.
  Status plan(const TaskQueue& queue, const CommProperties& shape, uint64_t capture, std::vector<PlannedLaunch> steps);
  Status prepare(const std::vector<PlannedLaunch>& plans, uint64_t capture);
  Status prepare_graph(size_t n_items);
  void forget_plans() noexcept;
  inline void take_up(PlanCache::Entry* kept, uint64_t capture, StreamOps* copies, bool waits);
  // advance() calls these. launcher.cpp alone calls the inline functions, and each call comes through them.
  inline Status launch_rest(bool holds_end, bool* all);
  inline bool may_stay() const noexcept;
  inline bool post();
  inline Status fan_in();
  Result<bool> put_copies(Stage stage, bool holds_end);
  Result<bool> put_plan(PlannedLaunch& planned);
  inline Status fan_out();
  inline Status wait_for_earlier(gpu::Stream stream);
  Status record_end(gpu::Stream stream);
  inline void remember(gpu::Stream stream);
  inline bool is_last(gpu::Stream stream) noexcept;
  inline uint64_t stream_id() noexcept;
  inline bool launch_kept();
  Result<bool> place_and_launch(PlannedLaunch& planned);
  Status launch_kernel(PlannedLaunch& planned, uint32_t resident_ns);
  bool place_items(PlannedLaunch& planned);
  void count_launch() noexcept;
  uint64_t done() const noexcept;
  bool any_graph_runs() const noexcept;
  std::vector<Capture>::iterator find_capture();

  LaunchContext context_;
  // Events, which graphs hold, too: behind the last launch outside of captures; and, where there have been captures,
  // behind the last launch of all.
  std::shared_ptr<GraphMemory> end_, order_;
  std::unique_ptr<WorkFifo> fifo_;  // made when first needed
  PlanCache kept_;
  std::atomic<uint64_t> launched_{0};

  // The group that was begun.
  std::vector<PlannedLaunch> plans_;
  PlanCache::Entry* again_ = nullptr;  // has the plans, instead of plans_
  std::span<PlannedLaunch> planned_;   // either of them
  size_t next_ = 0;                    // of planned_
  StreamOps* copies_ = nullptr;
  Stage copies_put_ = Stage::pack;  // how far they are
  uint32_t step_ = 0;               // the next step of copies_
  bool waits_ = false;
  std::vector<gpu::Stream> own_streams_;
  std::span<const gpu::Stream> streams_;  // those of again_, or own_streams_
  uint64_t stream_id_ = 0;                // of the first of them; 0: nobody has asked, or nobody knows
  uint64_t capture_ = 0;
  std::shared_ptr<GraphMemory> graph_items_;  // for all the overflow of a captured group
  size_t graph_items_used_ = 0;

  // About the last launches. The next launch compares streams with these, and waits for those in captures that go on.
  bool any_ = false, ever_captured_ = false;
  bool is_ordered_ = true;             // order_ is behind all launches outside of captures
  gpu::Stream last_stream_ = nullptr;  // outside of captures
  uint64_t last_stream_id_ = 0;        // 0: nobody knows
  std::vector<Capture> captures_;      // the latest one last
};

}  // namespace gpucoll::core
