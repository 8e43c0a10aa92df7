// From tasks to launches: pure functions, no device needed.
//
// Collectives come first and are cut into plans from facts that are equal on all ranks, so identically everywhere;
// sends and receives are local matters and fill up the last plan, then further ones. A plan has one kernel: that of the
// family of its reductions (moving data works with any), so tasks of two families are in two plans.
//
// Sends and receives are taken in rounds: in round d of pass k the k-th send to the rank d places on and the k-th
// receive from the rank d places back, as one item. Every rank walks passes and rounds in this order, wherever its
// plans are cut, so the earliest unfinished round can always go on: no deadlock.
//
// Packing is a matter of this rank and waits for nobody: plans of its own, before and after all others; and so are
// reductions on this device alone, before all others but packing.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/task.h"
#include "core/plan/tuner.h"

namespace gpucoll::core {

// step: between stream operations of its own (stream_ops.h).
enum class Stage : uint8_t { pack, run, step, unpack };

struct PlannedLaunch {
  const gpu::Kernel* kernel = nullptr;  // null: a step without a launch
  int threads = 1;
  proto::Plan plan = {};  // comm, items and done_word are filled in by the launcher
  // Items that do not fit into the plan; then it has none of its own. At most PlanBudget::fifo_items.
  std::vector<proto::WorkItem> overflow;
  Stage stage = Stage::run;
  int plain_blocks = 0;  // but in Stage::run, where each block has a channel
  bool varies = false;   // equal tasks may be planned otherwise at another time
  int blocks() const { return stage == Stage::run ? __builtin_popcountll(plan.channel_mask) : plain_blocks; }
};

struct PlanBudget {
  size_t fifo_items;  // most items of one plan in the work FIFO
};

// Marks what items have to do with direct stores (proto/direct.h): a local matter. The planner asks only for items that
// may use direct stores. mark() returns true where the answer may be another one at another time.
class UserBufferMarker {
 public:
  virtual ~UserBufferMarker() = default;
  // Marks a broadcast, all_gather or all_reduce in a ring over Simple. REQUIRES: argument_high is not used.
  virtual bool mark(proto::CollectiveItem& item, uint64_t output_bytes, bool capturing) = 0;
  // Marks messages over any protocol.
  virtual bool mark(proto::SendRecvItem& item, bool capturing) = 0;
  // Fills in where the kernels of each rank find a buffer of this rank. Returns false where not every rank can be told.
  virtual bool open(const void* buffer, bool capturing, proto::BufferAddresses& addresses) = 0;
};

// move: the kernel for plans without a reduction. direct may be null: no direct stores. Tasks of 0 elements vanish,
// messages of 0 bytes do not.
std::vector<PlannedLaunch> make_plans(const TaskQueue& queue, int rank, const CommProperties& shape,
                                      const PlanBudget& budget, const gpu::Kernel* move,
                                      UserBufferMarker* direct = nullptr);

// Puts items where a packing kernel of so many blocks finds them, with what tells each block its part.
void put_pack_items(proto::PackItem* where, std::span<const proto::PackItem> items, int threads, int blocks) noexcept;
// Puts the items of a packing kernel into its plan. REQUIRES: 1 to proto::kPackItems items.
void put_pack_items(proto::Plan& plan, std::span<const proto::PackItem> items, int threads, int blocks) noexcept;
// Does so for as many blocks as there had better be. Returns their number.
int put_pack_items(proto::Plan& plan, std::span<const proto::PackItem> items, int threads) noexcept;

}  // namespace gpucoll::core
