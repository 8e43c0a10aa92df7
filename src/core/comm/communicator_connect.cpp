// How a communicator prepares what its facts call for, and connects and launches for the first time.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/observe/trace.h"
#include "base/params.h"
#include "core/comm/communicator.h"
#include "core/plan/copy_engine_limits.h"

namespace gpucoll::core {
namespace {

// Large enough to hide what starting a copy costs.
constexpr uint64_t kBouncePiece = uint64_t{16} << 20, kBouncePieceEmulated = uint64_t{256} << 10;
// From where on direct stores save more than they cost before they begin.
constexpr uint64_t kDirectBytes = uint64_t{1} << 20, kDirectBytesEmulated = uint64_t{16} << 10;

// How long kernels may stay.
std::chrono::microseconds linger_bound(gpu::Device& device) {
  return std::chrono::microseconds(param_or(params().resident_us, device.defaults().linger_us));
}

}  // namespace

// Fails where there is no memory for it, or no thread: by an exception.
void Communicator::prepare(const TuningTable* table) {
  if (params().transport == kTransportAuto && peers_.on_several_nodes() &&
      !(peers_.common_capabilities() & proto::kHasVerbs))
    causes_->tell(Cause::no_rdma, "a connection");
  connections_ = std::make_unique<Connections>(
      ConnectionsContext{device_, peers_, calls_, *causes_, [this] { return activity(); }}, table, options_);
  ids_.emplace(connections_->mailbox(), peers_);
  exports_ = std::make_unique<Exports>(device_, peers_.copy_page(rank()).live);
  const Links& links = connections_->links();
  if (const CopyEngineLimits& limits = connections_->copies(); limits != CopyEngineLimits())
    copies_ = std::make_unique<CopyEngines>(CopyContext{device_, fault_, peers_, links, *exports_, limits,
                                                        device_.is_emulated() ? kBouncePieceEmulated : kBouncePiece,
                                                        device_state_.get()});
  const uint64_t least = param_or(params().direct_bytes, device_.is_emulated() ? kDirectBytesEmulated : kDirectBytes);
  if (least != 0 && size() > 1 && !connections_->properties().network)
    user_buffers_ = std::make_unique<UserBuffers>(
        DirectContext{device_, peers_, links, *exports_, least, launched_, [this] { return words_.done(); }, *causes_});
}

// Returns whether kernels of this communicator may have steps under way. Any thread.
KernelActivity Communicator::activity() const noexcept {
  if (device_failed()) return KernelActivity::none;
  if (launching_.load(std::memory_order_acquire)) return KernelActivity::launched;
  const uint64_t launched = launched_.load(std::memory_order_acquire);
  if (words_.done() < launched) return KernelActivity::launched;
  return in_graphs() ? KernelActivity::in_graphs : KernelActivity::none;
}

CommProperties Communicator::plain_shape() const {
  CommProperties shape = connections_->properties();
  if (workspace_.exchange()) shape.exchange_bytes = most_exchanged_bytes(size(), nodes().size());
  shape.algorithm = params().algorithm;
  shape.protocol = params().protocol;
  return shape;
}

Result<CommProperties> Communicator::shape(const std::vector<gpu::Stream>& streams) {
  if (closing_) return Status::error(Code::invalid_usage, "the communicator has been finalised");
  CommProperties shape = plain_shape();
  GC_TRY_AS(const uint64_t capture, Launcher::capture_of(device_, streams));
  shape.capturing = capture != 0;
  if (shape.capturing) shape.copies = {.piece = shape.copies.piece};
  return shape;
}

// The tables that every launch needs, and the launcher over them.
Status Communicator::make_launcher() {
  if (!resident_) GC_TRY(connections_->make_tables(&words_.in_kernels()->latch, &words_.in_kernels()->doorbell));
  if (!resident_) resident_.emplace(words_->doorbell, linger_bound(device_));
  if (most_exchanged_bytes(size(), nodes().size()) && !connections_->properties().mesh)
    GC_TRY(workspace_.make_exchange(exchange_memory_bytes(size())));
  LaunchContext context = {device_,
                           fault_,
                           rank(),
                           kernels_.move,
                           connections_->tables(),
                           &words_->done,
                           &words_.in_kernels()->done,
                           &peers_.own_page().entered,
                           user_buffers_.get(),
                           &*resident_,
                           &words_.in_kernels()->in_graphs,
                           &graphs_.hold(),
                           this,
                           causes_.get(),
                           &words_->in_graphs,
                           device_state_.get(),
                           nullptr};
  // Between nodes kernels store into memory of the host anyway, and the proxy asks for their end all the time.
  if (options_.stream_ordered && !connections_->properties().network) context.seldom = &words_;
  GC_TRY_AS(launcher_, Launcher::create(context));
  return {};
}

Status Communicator::connect(const Requirements& required, void (*idle)()) {
  const trace::Span span(trace::What::connect);
  const Callers::Inside inside(callers_);
  if (fault().raised()) return fault_.status();
  PeerWait wait(fault_, peers_, idle);
  const CommProperties before = plain_shape();
  Status status = contained([&]() -> Status {
    if (!launcher_) GC_TRY(make_launcher());
    Status made = contained([&] { return connections_->make(required, wait); });
    // Also after a failure: the copies of peers that have succeeded may come.
    if (std::vector<void*> landing = connections_->landing(); !landing.empty() && !copies_->lands())
      copies_->carry_reductions(std::move(landing));
    return made;
  });
  if (launcher_ && plain_shape() != before) launcher_->shape_changes();
  if (!status) fault_.raise(status);
  return status;
}

}  // namespace gpucoll::core
