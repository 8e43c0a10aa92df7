#include "core/communicator.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "base/params.h"

namespace gpucoll::core {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

size_t slot_bytes_for(size_t buffer_bytes) {
  size_t per_step = (buffer_bytes + proto::kSteps - 1) / proto::kSteps;
  return std::max<size_t>((per_step + 127) / 128 * 128, 128);
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(gpu::Device& device,
                                                           std::unique_ptr<net::Bootstrap> bootstrap) {
  std::unique_ptr<Communicator> self(new Communicator(device, std::move(bootstrap)));
  // All that can fail on this rank alone comes before the exchange, where the others learn of it.
  Status mine = contained([&]() -> Status {
    GC_TRY(params_status());
    GC_TRY(self->allocate());
    Watchdog::instance().add(self.get());
    return {};
  });
  GC_TRY_AS(self->peers_, Peers::exchange(*self->bootstrap_, &device, mine));
  self->fault_.attach(&self->words()->latch, &self->peers_.own_page());
  self->watchable_.store(true, std::memory_order_release);  // partner: check()
  return self;
}

Status Communicator::allocate() {
  gpu::Device::Defaults defaults = device_.defaults();
  n_channels_ = params().channels ? static_cast<int>(params().channels) : defaults.channels;
  n_channels_ = std::min(n_channels_, proto::kMaxChannels);
  threads_ = params().threads ? static_cast<int>(params().threads) : defaults.threads;
  slot_bytes_ =
      slot_bytes_for(params().buffer_bytes ? static_cast<size_t>(params().buffer_bytes) : defaults.buffer_bytes);
  one_shot_bytes_ = params().one_shot_bytes ? static_cast<uint64_t>(params().one_shot_bytes) : defaults.one_shot_bytes;
  GC_TRY_AS(host_, device_.allocate_host(sizeof(HostWords)));
  GC_TRY_AS(order_, device_.create_stream());
  return {};
}

Communicator::~Communicator() {
  Watchdog::instance().remove(this);
  fault_.attach(nullptr, nullptr);
  if (order_) device_.destroy_stream(order_).ignore();
  if (device_comm_) device_.release(device_comm_);
  ring_.reset();
  mesh_.reset();
  if (host_.host) device_.release_host(host_);
}

Status Communicator::connect() {
  if (connected_) return {};
  if (fault_.raised()) return fault_.status();
  Status status = contained([&] { return make_connections(); });
  if (!status) fault_.raise(status);
  connected_ = status.ok();
  return status;
}

Status Communicator::make_connections() {
  if (size() > 1) {
    RingRequest request = {
        {n_channels_, slot_bytes_}, params().transport == kTransportShm, params().transport == kTransportP2p};
    GC_TRY_AS(Ring ring, connect_ring(*bootstrap_, peers_, memory_, device_, request));
    ring_ = std::make_unique<Ring>(std::move(ring));
    if (!request.force_shm && one_shot_bytes_ >= static_cast<uint64_t>(size())) {
      GC_TRY_AS(mesh_, Mesh::connect(*bootstrap_, peers_, memory_));
    }
    log::write(log::Level::info, "rank %d of %d on %s: %d channels of %d threads, %zu bytes a step, to rank %d by %s%s",
               rank(), size(), device_.identity().name, n_channels_, threads_, slot_bytes_, ring_->next,
               ring_->to_next_transport, mesh_ ? ", and a mesh" : "");
  }
  Status built = contained([&] { return build_device_comm(); });
  return size() > 1 ? peers_.agree(*bootstrap_, built) : built;
}

Status Communicator::build_device_comm() {
  size_t n_connectors = static_cast<size_t>(n_channels_) * static_cast<size_t>(size());
  size_t connectors_bytes = n_connectors * sizeof(proto::Connector);
  size_t header = (sizeof(proto::DeviceComm) + 127) / 128 * 128;
  size_t counter = header + 2 * connectors_bytes, mesh = counter + 128;
  std::vector<uint8_t> image(mesh + static_cast<size_t>(size()) * sizeof(void*));
  GC_TRY_AS(device_comm_, device_.allocate(image.size()));
  auto* base = static_cast<uint8_t*>(device_comm_);

  auto* comm = new (image.data()) proto::DeviceComm{};
  comm->rank = rank();
  comm->n_ranks = size();
  comm->slot_bytes = static_cast<uint32_t>(slot_bytes_);
  comm->n_channels = static_cast<uint32_t>(n_channels_);
  comm->latch = &static_cast<HostWords*>(host_.kernel)->latch;
  comm->send = reinterpret_cast<proto::Connector*>(base + header);
  comm->recv = reinterpret_cast<proto::Connector*>(base + header + connectors_bytes);
  comm->blocks_done = reinterpret_cast<uint32_t*>(base + counter);
  if (mesh_) {
    comm->mesh = reinterpret_cast<uint8_t* const*>(base + mesh);
    std::memcpy(image.data() + mesh, mesh_->buffers().data(), mesh_->buffers().size() * sizeof(void*));
  }
  for (int c = 0; c < n_channels_; ++c) {
    comm->ring_next[c] = ring_ ? ring_->next : rank();
    comm->ring_prev[c] = ring_ ? ring_->previous : rank();
    comm->ring_index[c] = rank();
    if (!ring_) continue;
    auto* send = reinterpret_cast<proto::Connector*>(image.data() + header) + c * size();
    auto* recv = reinterpret_cast<proto::Connector*>(image.data() + header + connectors_bytes) + c * size();
    send[ring_->next] = ring_->to_next->connector(c);
    recv[ring_->previous] = ring_->from_previous->connector(c);
  }
  return device_.copy(device_comm_, image.data(), image.size());
}

Status Communicator::launch(const std::vector<Task>& tasks) {
  if (fault_.raised()) return fault_.status();
  if (closing_) return Status::error(Code::invalid_usage, "the communicator is being destroyed");
  Status status = contained([&]() -> Status {
    for (PlannedLaunch& planned : plan(tasks, shape(), &mesh_flag_)) GC_TRY(launch_one(planned));
    return {};
  });
  // The peers have launched their part, or will: they must not wait for this rank's.
  if (!status) fault_.raise(status);
  return status;
}

CommShape Communicator::shape() const { return {size(), n_channels_, threads_, mesh_ != nullptr, one_shot_bytes_}; }

Status Communicator::launch_one(PlannedLaunch& planned) {
  if (std::find(prepared_.begin(), prepared_.end(), planned.kernel) == prepared_.end()) {
    GC_TRY(device_.prepare(*planned.kernel));
    prepared_.push_back(planned.kernel);
  }
  // Launches of one communicator use the same connections: one after another, whatever streams they are on.
  if (any_launch_ && planned.stream != last_stream_ && planned.stream != order_)
    GC_TRY(device_.stream_wait(planned.stream, order_));
  planned.plan.comm = static_cast<const proto::DeviceComm*>(device_comm_);
  planned.plan.done_word = &static_cast<HostWords*>(host_.kernel)->done;
  planned.plan.done_value = launched_ + 1;
  GC_TRY(device_.launch(*planned.kernel, planned.plan, planned.blocks(), planned.threads, planned.stream));
  // Relaxed for the watchdog, which only needs to see it some time.
  __atomic_store_n(&launched_, launched_ + 1, __ATOMIC_RELAXED);
  any_launch_ = true;
  last_stream_ = planned.stream;
  __atomic_store_n(&peers_.own_page().entered, launched_, __ATOMIC_RELEASE);  // partner: Peers::entered
  if (planned.stream != order_) GC_TRY(device_.stream_wait(order_, planned.stream));
  return {};
}

bool Communicator::done(uint64_t launches) const noexcept {
  // Acquire: partner is the release of the done word by the kernel's last block.
  return __atomic_load_n(&words()->done, __ATOMIC_ACQUIRE) >= launches;
}

Status Communicator::wait(uint64_t launches, void (*idle)()) {
  constexpr int kLooksPerIdle = 64;
  constexpr int64_t kGraceNs = 10'000'000'000;  // for kernels to leave once the latch is set
  bool polite = !std::strcmp(device_.identity().kind, "emu");
  int64_t fault_seen = 0;
  for (int look = 0; !done(launches); ++look) {
    if (polite) sched_yield();
    if (look % kLooksPerIdle) continue;
    if (idle) idle();
    if (!fault_.raised()) continue;
    if (!fault_seen) fault_seen = now_ns();
    if (now_ns() - fault_seen > kGraceNs) break;
  }
  return fault_.status();
}

void Communicator::begin_close() noexcept {
  if (closing_) return;
  closing_ = true;
  // Release: all that our kernels wrote into peers' memory has been written. Partner: Peers::closing.
  __atomic_store_n(&peers_.own_page().closing, 1u, __ATOMIC_RELEASE);
}

bool Communicator::peers_closed() const noexcept {
  if (!ring_) return true;
  if (!mesh_) return peers_.gone(ring_->next) && peers_.gone(ring_->previous);
  for (int r = 0; r < size(); ++r)
    if (r != rank() && !peers_.gone(r)) return false;
  return true;
}

Status Communicator::finish(void (*idle)()) {
  Status status = connected_ ? wait(launched_, idle) : Status();
  begin_close();
  return status;
}

void Communicator::check() noexcept {
  if (!watchable_.load(std::memory_order_acquire) || fault_.raised()) return;
  try {
    Status status = peers_.check();
    if (status) return look_for_timeout();
    fault_.raise(status);
  } catch (...) {
    // No memory to look: the next round tries again.
  }
}

void Communicator::look_for_timeout() noexcept {
  uint64_t launched = __atomic_load_n(&launched_, __ATOMIC_RELAXED);
  uint64_t done = __atomic_load_n(&words()->done, __ATOMIC_RELAXED);
  if (done >= launched || done != seen_done_ || !stalled_since_ns_) {
    seen_done_ = done;
    stalled_since_ns_ = done < launched ? now_ns() : 0;
    return;
  }
  if (!params().timeout || now_ns() - stalled_since_ns_ < params().timeout * 1'000'000'000) return;
  std::string missing = peers_.missing(done + 1);
  fault_.raise(Status::error(
      Code::timed_out, "rank %d has waited %lld s in its operation %llu of this communicator (parameter timeout); %s%s",
      rank(), static_cast<long long>(params().timeout), static_cast<unsigned long long>(done + 1),
      missing.empty() ? "all ranks have started it" : "not started by ", missing.c_str()));
}

}  // namespace gpucoll::core
