#include "core/launch/launcher.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/mutant.h"
#include "base/observe/counters.h"
#include "base/params.h"

namespace gpucoll::core {
namespace {

// 256 KiB. A plan uses at most a quarter, so that the next ones can be written while it runs.
constexpr size_t kFifoItems = 4096;
constexpr PlanBudget kBudget = {kFifoItems / 4};
// Devices queue only so many launches, then launching waits for them, and so for those of other ranks.
constexpr int kLaunchesAtOnce = 16, kLaunchesPerStep = 4;
// Captures of one communicator that may go on side by side; the oldest is forgotten when there are more.
constexpr size_t kOpenCaptures = 8;

}  // namespace

Launcher::Launcher(const LaunchContext& context)
    : context_(context),
      kept_(context.device, static_cast<size_t>(params().plan_cache), params().plan_cache_graphs, context.causes) {}

Result<std::unique_ptr<Launcher>> Launcher::create(const LaunchContext& context) {
  std::unique_ptr<Launcher> self(new Launcher(context));
  for (std::shared_ptr<GraphMemory>* const held : {&self->end_, &self->order_}) {
    GC_TRY_AS(const gpu::Event event, context.device.create_event());
    *held = share_with_graphs({&context.device, {}, event});
  }
  Quiescence::instance().add(self.get());
  return self;
}

Launcher::~Launcher() {
  Quiescence::instance().remove(this);
  if (context_.seldom) context_.seldom->end_is_behind(nullptr, 0);
  end_.reset();
  order_.reset();
  release_unused();
}

Result<uint64_t> Launcher::capture_of(gpu::Device& device, const std::vector<gpu::Stream>& streams) {
  uint64_t capture = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    uint64_t id = 0;
    // The default stream cannot be captured.
    if (streams[i]) {
      GC_TRY_AS(id, device.capture_of(streams[i]));
    }
    if (i > 0 && id != capture)
      return Status::error(Code::invalid_usage,
                           "the streams of a group's operations on one communicator do not take part in one capture: "
                           "either all of them must be captured into one graph, or none");
    capture = id;
  }
  return capture;
}

uint64_t Launcher::done() const noexcept {
  if (context_.seldom) return context_.seldom->done();
  // Acquire: partner is the release of the done word by the kernel's last block, which has read its items.
  return __atomic_load_n(context_.done, __ATOMIC_ACQUIRE);
}

void Launcher::forget_plans() noexcept {
  plans_.clear();
  planned_ = {};
  again_ = nullptr;
}

Status Launcher::begin(const TaskQueue& queue, const CommProperties& shape, StreamOps* copies,
                       std::vector<PlannedLaunch> steps, bool waits) {
  GC_TRY_AS(const uint64_t capture, capture_of(context_.device, queue.streams));
  forget_plans();
  const bool may_be_kept = !capture && !copies && queue.streams.size() == 1;
  PlanCache::Entry* const entry = may_be_kept ? kept_.look_up(queue, shape) : nullptr;
  bool has_plan = entry && entry->is_certain();
  if (has_plan) {
    count(Counter::plans_kept);
  } else {
    GC_TRY(plan(queue, shape, capture, std::move(steps)));
    has_plan = entry && kept_.keep(*entry, queue, shape, &plans_);
  }
  if (!has_plan) own_streams_ = queue.streams;
  take_up(has_plan ? entry : nullptr, capture, copies, waits);
  return {};
}

const TaskQueue* Launcher::begin_kept(const PlanCache::Hit& kept, bool waits) {
  PlanCache::Entry* const entry = kept_.look_up(kept);
  if (!entry) return nullptr;
  count(Counter::plans_kept);
  forget_plans();
  take_up(entry, 0, nullptr, waits);
  return &entry->queue;
}

void Launcher::take_up(PlanCache::Entry* kept, uint64_t capture, StreamOps* copies, bool waits) {
  again_ = kept;
  planned_ = again_ ? again_->plans : plans_;
  streams_ = again_ ? again_->queue.streams : own_streams_;
  if (!gc_mutant(593)) stream_id_ = 0;
  next_ = 0;
  copies_ = copies;
  copies_put_ = Stage::pack;
  step_ = 0;
  capture_ = capture;
  waits_ = waits;
}

Status Launcher::plan(const TaskQueue& queue, const CommProperties& shape, uint64_t capture,
                      std::vector<PlannedLaunch> steps) {
  count(Counter::plans_made);
  std::vector<PlannedLaunch> plans = make_plans(queue, context_.rank, shape, kBudget, context_.move, context_.direct);
  GC_TRY(prepare(plans, capture));
  if (plans.empty()) {
    plans = std::move(steps);  // as a rule: a launch has 4 KiB
  } else {
    const auto behind =
        std::find_if(plans.begin(), plans.end(), [](const auto& p) { return p.stage == Stage::unpack; });
    plans.insert(behind, std::make_move_iterator(steps.begin()), std::make_move_iterator(steps.end()));
  }
  for (PlannedLaunch& planned : plans) {
    planned.plan.comm = context_.comm;
    planned.plan.in_graph = capture && context_.in_graphs ? 1 : 0;
    // The next launches may need the room of its items before any event is behind it.
    planned.plan.tells_seldom = context_.seldom && planned.overflow.empty() ? 1 : 0;
    if (planned.plan.in_graph)
      planned.plan.done_word = &context_.in_graphs->ended;
    else if (!capture)
      planned.plan.done_word = context_.done_kernel;
  }
  plans_ = std::move(plans);
  return {};
}

Status Launcher::prepare(const std::vector<PlannedLaunch>& plans, uint64_t capture) {
  size_t overflow = 0;
  for (const PlannedLaunch& planned : plans) overflow += planned.overflow.size();
  if (!overflow) return {};
  if (capture) return prepare_graph(overflow);
  if (fifo_) return {};
  GC_TRY_AS(fifo_, WorkFifo::create(context_.device, kFifoItems));
  return {};
}

Status Launcher::prepare_graph(size_t n_items) {
  // Takes memory of earlier graphs, whose launches have ended when they let it go, and frees the rest of that. The
  // driver may hold up who frees until the device rests; where it does not, a later capture tries again.
  const size_t bytes = n_items * sizeof(proto::WorkItem);
  graph_items_used_ = 0;
  graph_items_ = take_unused(context_.device, bytes);
  if (gc_mutant(423))
    release_unused();
  else
    Quiescence::instance().run_at_rest(release_unused);
  if (graph_items_) return {};
  GC_TRY_AS(gpu::HostBlock block, context_.device.allocate_host(bytes));
  graph_items_ = share_with_graphs({&context_.device, block});
  return {};
}

Result<bool> Launcher::advance(bool holds_end) {
  bool all = false;
  Status status = contained([&] { return launch_rest(holds_end, &all); });
  if (status && !all) return false;
  if (!status && copies_put_ != Stage::pack && copies_put_ != Stage::unpack)
    copies_->put_end(streams_.front()).ignore();  // who waits for it must see the end of what has been put
  if (!status && !capture_ && next_ != 0) record_end(streams_.front()).ignore();  // who waits must see it, too
  if (!waits_) forget_plans();                                                    // else look() may need them
  copies_ = nullptr;
  graph_items_.reset();
  if (!status) return status;
  return true;
}

Status Launcher::launch_rest(bool holds_end, bool* all) {
  if (context_.fault.raised()) return context_.fault.status();
  const auto launching = Quiescence::instance().launching();
  const bool any = copies_ || !planned_.empty();
  if (next_ == 0 && any) {
    *all = post();
    if (*all) return {};
    GC_TRY(fan_in());
    if (launch_kept()) next_ = planned_.size();
  }
  for (int n = 0; next_ < planned_.size(); ++next_) {
    if (n >= kLaunchesAtOnce) return {};
    n += planned_[next_].stage == Stage::step ? kLaunchesPerStep : 1;
    GC_TRY_AS(const bool put, put_copies(planned_[next_].stage, holds_end));
    if (!put) return {};
    GC_TRY_AS(const bool launched, put_plan(planned_[next_]));
    if (!launched) return {};
  }
  if (any) {
    GC_TRY_AS(const bool put, put_copies(Stage::unpack, holds_end));
    if (!put) return {};
    GC_TRY(fan_out());
  }
  *all = true;
  return {};
}

bool Launcher::any_graph_runs() const noexcept {
  return context_.graphs_told && running_launches(*context_.graphs_told) != 0;
}

bool Launcher::in_flight() const noexcept {
  if (gc_mutant(429)) return done() < launched() && !context_.fault.raised();
  if (context_.device_state && context_.device_state->failed()) return false;
  return done() < launched() || any_graph_runs();
}

bool Launcher::may_begin() const noexcept {
  if (!context_.hold || !context_.hold->may_begin() || context_.fault.raised()) return false;
  return !(context_.device_state && context_.device_state->failed());
}

bool Launcher::rests() const noexcept {
  if (done() < launched()) return false;
  if (!ever_captured_) return true;
  const auto reached = context_.device.reached(order_->event);
  return !reached || *reached;  // a device that has failed runs nothing
}

bool Launcher::may_stay() const noexcept {
  return waits_ && context_.resident && !capture_ && !copies_ && planned_.size() == 1 && streams_.size() == 1 &&
         ResidentKernel::suits(planned_.front());
}

// Lets a kernel that is still there run the launch. Returns false where none can, and dismisses the one that stays.
bool Launcher::post() {
  if (!context_.resident) return false;
  if (may_stay() && streams_.front() == last_stream_ && context_.resident->takes(planned_.front())) {
    context_.resident->post(planned_.front(), launched() + 1);
    count(Counter::launches_resident);
    count_launch();
    return true;
  }
  context_.resident->dismiss(launched() + 1);
  return false;
}

Status Launcher::look() {
  if (!context_.resident || !context_.resident->missed()) return {};
  if (Status status = launch_kernel(planned_.front(), 0); !status) {
    const uint64_t count = launched() - 1;  // nothing runs what was counted when it was posted
    launched_.store(count, std::memory_order_relaxed);
    __atomic_store_n(context_.entered, count, __ATOMIC_RELEASE);
    return status;
  }
  return record_end(last_stream_);
}

Status Launcher::fan_in() {
  const gpu::Stream stream = streams_.front();
  for (size_t i = 1; i < streams_.size(); ++i) GC_TRY(context_.device.stream_wait(stream, streams_[i]));
  GC_TRY(wait_for_earlier(stream));
  return graph_items_ ? keep_with_graph(stream, graph_items_) : Status();
}

std::vector<Launcher::Capture>::iterator Launcher::find_capture() {
  return std::find_if(captures_.begin(), captures_.end(), [&](const Capture& c) { return c.id == capture_; });
}

// Once there are graphs, nobody knows where they are launched: their event tells. In a stream that the last launch was
// in, the stream's own order does for launches outside of captures.
Status Launcher::wait_for_earlier(gpu::Stream stream) {
  if (!capture_) {
    if (!any_) return {};
    if (gpu::is_stream_of_each_thread(stream) || !is_last(stream))
      GC_TRY(context_.device.wait_event(stream, end_->event));
    return ever_captured_ ? context_.device.wait_event(stream, order_->event) : Status();
  }
  if (auto known = find_capture(); known != captures_.end())
    return known->last == stream ? Status() : context_.device.stream_wait(stream, known->last);
  if (!is_ordered_ && !gc_mutant(623)) {
    GC_TRY(keep_with_graph(stream, end_));
    GC_TRY(context_.device.wait_event(stream, end_->event));
  }
  GC_TRY(keep_with_graph(stream, order_));
  if (context_.hold) GC_TRY(context_.hold->add(context_.device, stream, capture_, context_.user));
  return context_.device.wait_event(stream, order_->event);
}

// Returns whether nothing that this launch must wait for is outside of the stream: the program may have destroyed the
// last launch's stream, which then still runs, and made another one that has got its handle.
bool Launcher::is_last(gpu::Stream stream) noexcept {
  if (stream != last_stream_) return false;
  if (last_stream_id_ == 0 || gc_mutant(466)) return done() >= launched() || gc_mutant(466);
  return stream_id() == last_stream_id_;
}

uint64_t Launcher::stream_id() noexcept {
  if (!stream_id_) stream_id_ = context_.device.stream_id(streams_.front());
  return stream_id_;
}

// Messages by copy begin once what they send is packed, and end before what they receive is unpacked. Returns false
// where the end is held until the copies have ended.
Result<bool> Launcher::put_copies(Stage stage, bool holds_end) {
  if (!copies_ || stage <= copies_put_) return true;
  const bool begun = copies_put_ != Stage::pack, ends = stage == Stage::unpack;
  copies_put_ = ends ? Stage::step : stage;  // the last one before the end
  if (!begun) GC_TRY(copies_->put_ready(streams_.front(), 0));
  if (!ends) return true;
  if (holds_end && !copies_->has_ended() && !gc_mutant(611)) return false;
  copies_put_ = Stage::unpack;
  GC_TRY(copies_->put_end(streams_.front()));
  return true;
}

Result<bool> Launcher::put_plan(PlannedLaunch& planned) {
  if (planned.stage != Stage::step) return place_and_launch(planned);
  GC_TRY(copies_->put_waits(streams_.front(), step_));
  if (planned.kernel) GC_TRY(place_and_launch(planned).status());
  GC_TRY(copies_->put_ready(streams_.front(), ++step_));
  return true;
}

Status Launcher::fan_out() {
  const gpu::Stream stream = streams_.front();
  GC_TRY(capture_ ? context_.device.record(order_->event, stream) : record_end(stream));
  for (size_t i = 1; i < streams_.size(); ++i) GC_TRY(context_.device.stream_wait(streams_[i], stream));
  remember(stream);
  return {};
}

// Records, behind the launches outside of captures that are in the stream, what later ones and graphs wait for.
Status Launcher::record_end(gpu::Stream stream) {
  GC_TRY(context_.device.record(end_->event, stream));
  if (context_.seldom) context_.seldom->end_is_behind(end_->event, launched());
  is_ordered_ = ever_captured_;
  return ever_captured_ ? context_.device.record(order_->event, stream) : Status();
}

void Launcher::remember(gpu::Stream stream) {
  if (!capture_) {
    any_ = true;
    last_stream_ = stream;
    last_stream_id_ = waits_ ? 0 : stream_id();  // who waits launches nothing before the end
    return;
  }
  ever_captured_ = any_ = true;
  if (auto known = find_capture(); known != captures_.end()) captures_.erase(known);
  if (captures_.size() == kOpenCaptures) captures_.erase(captures_.begin());
  captures_.push_back({capture_, stream});
}

// False while there is no room for the plan's items.
Result<bool> Launcher::place_and_launch(PlannedLaunch& planned) {
  if (!planned.overflow.empty() && !place_items(planned)) return false;
  const uint32_t resident_ns = may_stay() ? context_.resident->stay_ns() : 0;
  GC_TRY(launch_kernel(planned, resident_ns));
  if (!capture_) count_launch();
  if (resident_ns) context_.resident->stays(planned, launched());
  return true;
}

// Launches what is kept on the device. Returns false where not all of it is, or a kernel is to stay.
bool Launcher::launch_kept() {
  if (!again_ || (may_stay() && context_.resident->stay_ns())) return false;
  if (!kept_.launch(*again_, streams_.front())) return false;
  count(Counter::launches_kept, planned_.size());
  for (size_t i = 0; i < planned_.size(); ++i) count_launch();
  return true;
}

Status Launcher::launch_kernel(PlannedLaunch& planned, uint32_t resident_ns) {
  count(Counter::launches_new);
  planned.plan.resident_ns = resident_ns;
  Status status =
      context_.device.launch(*planned.kernel, planned.plan, planned.blocks(), planned.threads, streams_.front());
  planned.plan.resident_ns = 0;  // what is kept is good for any time
  return status;
}

bool Launcher::place_items(PlannedLaunch& planned) {
  const size_t n = planned.overflow.size();
  proto::WorkItem* items;
  if (capture_) {
    const gpu::HostBlock& block = graph_items_->block;
    items = static_cast<proto::WorkItem*>(block.host) + graph_items_used_;
    planned.plan.items = static_cast<const proto::WorkItem*>(block.kernel) + graph_items_used_;
    graph_items_used_ += n;
  } else {
    items = fifo_->reserve(n, launched() + 1, done());
    if (!items) return false;
    planned.plan.items = fifo_->kernel_address(items);
  }
  std::memcpy(items, planned.overflow.data(), n * sizeof(proto::WorkItem));
  return true;
}

void Launcher::count_launch() noexcept {
  const uint64_t count = launched() + 1;
  launched_.store(count, std::memory_order_relaxed);            // the watchdog only needs to see it some time
  __atomic_store_n(context_.entered, count, __ATOMIC_RELEASE);  // partner: Peers::entered
}

}  // namespace gpucoll::core
