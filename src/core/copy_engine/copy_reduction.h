// Carries large reductions: puts the copies, words, waits and kernels that core/plan/copy_engine_reduction.h plans on
// streams. Pieces go by copy engine into the next rank's landing memory, so whose buffers they are need not be known
// to anybody else, and nobody has to be asked before a copy starts: streams wait by themselves, for words on the ranks'
// pages (proto/format/copy.h), and neither a kernel nor a thread ever does.
//
// Streams may share a queue of the hardware, in which what waits holds up what was put behind it. So a rank puts what
// it sends in a round before it waits for anything of that round: whoever waits, waits for what has been put before by
// ranks that wait for earlier rounds at most. Other streams of the runtime, on which the proxy puts copies later, are
// of another priority, and so in other queues.
//
// Thread safety: begin() and what puts something on a stream by one caller at a time; the rest from any thread.
// Ownership: the context outlives it; it owns its streams. Destroy it when passed() == groups().
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "core/launch/stream_ops.h"
#include "core/peer/fault.h"
#include "core/peer/peer_pages.h"
#include "core/peer/peers.h"
#include "core/plan/copy_engine_reduction.h"
#include "core/progress/quiescence.h"
#include "gpu/device.h"
#include "proto/format/copy.h"

namespace gpucoll::core {

struct CopyReductionContext {
  gpu::Device& device;
  Fault& fault;
  const Peers& peers;
  PeerPages& pages;
};

class CopyReduction final : public StreamOps, public InFlight {
 public:
  // landing: each rank's landing memory, as this rank's device reaches it.
  CopyReduction(const CopyReductionContext& context, std::vector<void*> landing);
  ~CopyReduction() override;
  CopyReduction(const CopyReduction&) = delete;
  CopyReduction& operator=(const CopyReduction&) = delete;

  // Takes the reductions of a group that go by copy engine, and returns whether there are any; then *launches becomes
  // one for each of their steps.
  // REQUIRES: no stream is capturing. Errors: invalid_usage, where another rank has called something else. On failure
  // the communicator must fail.
  Result<bool> begin(const TaskQueue& queue, const CommProperties& shape, std::vector<PlannedLaunch>* launches);
  Status put_ready(gpu::Stream stream, uint32_t step) override;
  Status put_waits(gpu::Stream stream, uint32_t step) override;
  Status put_end(gpu::Stream stream) override;

  // Groups whose end has been put, and those whose streams have come to it.
  uint64_t groups() const noexcept { return groups_.load(std::memory_order_relaxed); }
  uint64_t passed() const noexcept;
  // From the first that is put of a group on.
  bool in_flight() const noexcept override { return (putting() || passed() < groups()) && !context_.fault.raised(); }
  // Some of a group has been put, but not its end.
  bool putting() const noexcept { return putting_.load(std::memory_order_relaxed); }
  // For reports: what is waited for; "" for nothing.
  std::string waiting_for() const;
  // After a fault, now and then until passed() == groups(): lets go the streams that wait, also of what is put partly.
  void give_up() noexcept;

 private:
  Status prepare();
  Status compare(const TaskQueue& queue, const CommProperties& shape);
  Status put_sends(gpu::Stream stream, uint32_t step);
  Status send(const CopyReductionPlan::Send& send);
  Status tell_consumed();
  Status order_words_behind(gpu::Stream stream, uint32_t steps);
  int last_peer() const;
  proto::CopyLane& own_lane(int peer) const { return context_.peers.copy_lane(context_.peers.rank(), peer); }

  const CopyReductionContext context_;
  const std::vector<void*> landing_;
  const int previous_, next_;
  proto::CopyPage& page_;  // of this rank
  // This rank's words towards its neighbours, and theirs towards it. Kernel addresses; null until prepare().
  proto::CopyLane *to_previous_ = nullptr, *to_next_ = nullptr, *from_previous_ = nullptr, *from_next_ = nullptr;
  gpu::Stream copies_ = nullptr, words_ = nullptr;
  uint64_t calls_ = 0;  // so far
  uint64_t rounds_ = 0;
  uint64_t room_for_ = 0;  // the stream of copies has waited for the next rank to have used so many rounds
  std::atomic<uint64_t> groups_{0};
  std::atomic<bool> putting_{false};
  // The group that was begun last.
  CopyReductionPlan plan_;
  size_t next_send_ = 0, next_consumed_ = 0;
  uint32_t words_behind_ = 0;  // how many steps have ended when the stream of words goes on
};

}  // namespace gpucoll::core
