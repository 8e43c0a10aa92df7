#include "coll/mpi_communicator.h"

#include <atomic>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "base/params.h"
#include "coll/kernels.h"
#include "coll/types.h"
#include "core/retired.h"

namespace gpucoll::coll {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

// Bootstrap over the collective module that was there before.
class MpiBootstrap final : public net::Bootstrap {
 public:
  explicit MpiBootstrap(const gc_comm_description& d) : d_(d) {}
  int rank() const override { return d_.rank; }
  int size() const override { return d_.size; }
  Status allgather(const void* mine, void* all, size_t bytes) override {
    int rc = d_.calls->allgather(d_.ctx, mine, all, bytes);
    if (rc == 0) return {};
    return Status::error(Code::remote, "MPI's own allgather on %s failed with error class %d", d_.name, rc);
  }

 private:
  const gc_comm_description& d_;
};

}  // namespace

MpiCommunicator::MpiCommunicator(const gc_comm_description& description) : gc_comm{}, description_(description) {}

core::BoardKey MpiCommunicator::key() const {
  uint64_t members = static_cast<uint64_t>(description_.size);
  for (int r = 0; r < description_.size; ++r)
    members = mix(members, description_.calls->process_name(description_.ctx, r));
  uint64_t incarnation = MpiProcess::instance().incarnation(description_.context_id, members);
  uint64_t a = mix(mix(members, description_.context_id), incarnation);
  return {{a, mix(a, 0x5bd1e995) | 1}};  // never 0: that marks a free entry
}

Result<std::unique_ptr<MpiCommunicator>> MpiCommunicator::create(const gc_comm_description& description) {
  std::unique_ptr<MpiCommunicator> self(new MpiCommunicator(description));
  self->key_ = self->key();
  self->entry_ = MpiProcess::instance().board().claim(self->key_);
  if (!self->entry_)
    return Status::error(Code::out_of_memory,
                         "no room on the arrival board for communicator %s: free communicators "
                         "that are no longer used",
                         description.name);
  self->lines = self->entry_->lines;
  return self;
}

MpiCommunicator::~MpiCommunicator() {
  finish();
  if (entry_) MpiProcess::instance().board().release(entry_);
}

void MpiCommunicator::finish() {
  if (!runtime_) return;
  runtime_->finish(nullptr).ignore();  // a failure was reported by the collective that met it
  core::retire(std::move(runtime_), 0);
  staging_only_ = true;
}

std::string MpiCommunicator::rank_name(int rank) const {
  const PeerProcess* peer = peers_[static_cast<size_t>(rank)];
  return "rank " + std::to_string(rank) + (peer ? " (process " + std::to_string(peer->pid) + ")" : "");
}

// What the user can mend is told once, by one rank where all see it; the rest only where choices are asked for.
void MpiCommunicator::stage_for_ever(int because_of, const Status& why) {
  static std::atomic<bool> told{false};
  staging_only_ = true;
  bool here_only = why.code() != Code::invalid_usage;
  bool warn = why.code() != Code::unsupported && (here_only || description_.rank == 0) && !told.exchange(true);
  log::write(warn ? log::Level::warn : log::Level::info,
             "collectives on device memory of %s are slow, through the host: rank %d %s", description_.name, because_of,
             why.what());
}

void MpiCommunicator::find_peers() {
  if (peers_found_) return;
  peers_found_ = true;
  auto n = static_cast<size_t>(description_.size);
  peers_.assign(n, nullptr);
  peer_entries_.assign(n, nullptr);
  lines_.resize(n);
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    auto peer = MpiProcess::instance().peer(description_.calls->peer(description_.ctx, r));
    if (!peer) return stage_for_ever(r, peer.status());
    peers_[static_cast<size_t>(r)] = *peer;
  }
}

// The device that can run the call, with its task; null when this rank's share must go through the host.
gpu::Device* MpiCommunicator::usable_device(const CollectiveCall& call, core::CollectiveTask* task) {
  if (staging_only_ || description_.size < 2) return nullptr;
  auto platform = gpu::platform();
  if (!platform) return nullptr;
  gpu::PointerInfo send = (*platform)->classify(call.send), recv = (*platform)->classify(call.recv);
  if (send.kind != gpu::MemoryKind::device || recv.kind != gpu::MemoryKind::device || send.device != recv.device)
    return nullptr;
  auto device = (*platform)->open(recv.device);
  if (!device) return nullptr;
  auto made = make_task(Caller{**device, description_.rank, description_.size, nullptr}, call);
  if (!made) {
    log::write(log::Level::info, "an allreduce on %s goes through the host: %s", description_.name,
               made.status().what());
    return nullptr;
  }
  *task = *made;
  return *device;
}

void MpiCommunicator::publish(const gpu::Device* device, size_t count, int type, int op) {
  gc_board_line& line = lines[++sequence % GC_BOARD_LINES];
  line.kind = device ? GC_KIND_DEVICE : GC_KIND_STAGED;
  line.function = GC_FUNCTION_ALLREDUCE;
  line.count = count;
  line.type = static_cast<uint32_t>(type);
  line.op = static_cast<uint32_t>(op);
  line.flags = 0;
  if (device) {
    std::memcpy(line.device, device->identity().uuid, sizeof line.device);
    line.flags = device->shares_between_processes() ? GC_DEVICE_SHARES : 0;
  }
  if (!lines_.empty()) lines_[static_cast<size_t>(description_.rank)] = line;
  __atomic_store_n(&line.sequence, sequence, __ATOMIC_RELEASE);  // partner: look_at_line of the peers
}

// *line stays null while the rank has not arrived.
Status MpiCommunicator::look_at_line(int rank, const gc_board_line** line) {
  auto r = static_cast<size_t>(rank);
  if (!peer_entries_[r]) peer_entries_[r] = peers_[r]->board.find(key_);
  if (!peer_entries_[r]) return {};
  const gc_board_line* candidate = &peer_entries_[r]->lines[sequence % GC_BOARD_LINES];
  uint64_t arrived = __atomic_load_n(&candidate->sequence, __ATOMIC_ACQUIRE);  // partners: publish, gc_publish_host
  if (arrived == sequence) *line = candidate;
  if (arrived > sequence)
    return Status::error(Code::invalid_usage,
                         "%s is at allreduce number %llu of %s while this rank %d is at number %llu: the ranks call "
                         "different collectives",
                         rank_name(rank).c_str(), static_cast<unsigned long long>(arrived), description_.name,
                         description_.rank, static_cast<unsigned long long>(sequence));
  return {};
}

// Whether every rank has arrived with device memory; false as soon as one has not got it.
Result<bool> MpiCommunicator::all_on_device() {
  constexpr int kLooksPerCheck = 4096;
  auto start = Clock::now();
  for (int r = 0; r < description_.size; ++r) {
    if (r == description_.rank) continue;
    const gc_board_line* line = nullptr;
    for (int look = 1;; ++look) {
      GC_TRY(look_at_line(r, &line));
      if (line) break;
      description_.calls->progress();
      if (look % kLooksPerCheck) continue;
      if (runtime_ && runtime_->fault().raised()) return runtime_->fault().status();
      if (!peers_[static_cast<size_t>(r)]->liveness.alive())
        return Status::error(Code::remote, "%s died before it came to an allreduce on %s", rank_name(r).c_str(),
                             description_.name);
      if (params().timeout && Clock::now() - start > std::chrono::seconds(params().timeout))
        return Status::error(Code::timed_out,
                             "rank %d waited %lld s (parameter timeout) in an allreduce on %s: %s has "
                             "not come",
                             description_.rank, static_cast<long long>(params().timeout), description_.name,
                             rank_name(r).c_str());
    }
    uint32_t kind = __atomic_load_n(&line->kind, __ATOMIC_RELAXED);  // partner: give_up(), which publishes no more
    if (kind == GC_KIND_FAILED)
      return Status::error(Code::remote, "%s has failed in a collective on %s; its own message says why",
                           rank_name(r).c_str(), description_.name);
    if (kind != GC_KIND_DEVICE) return false;
    lines_[static_cast<size_t>(r)] = *line;
  }
  return true;
}

Status MpiCommunicator::check_same_call() const {
  const gc_board_line& mine = lines_[static_cast<size_t>(description_.rank)];
  for (int r = 0; r < description_.size; ++r) {
    const gc_board_line& other = lines_[static_cast<size_t>(r)];
    if (other.count == mine.count && other.type == mine.type && other.op == mine.op) continue;
    auto text = [](const gc_board_line& l) {
      return std::to_string(l.count) + " x " + type_name(static_cast<gpucollDataType_t>(l.type)) + ", " +
             op_name(static_cast<gpucollRedOp_t>(l.op));
    };
    return Status::error(Code::invalid_usage, "allreduce on %s: rank %d calls it with %s, but rank %d with %s",
                         description_.name, description_.rank, text(mine).c_str(), r, text(other).c_str());
  }
  return {};
}

// Whether two ranks use one device on which their kernels cannot run side by side: then they would wait for each
// other's time slices.
bool MpiCommunicator::device_shared() const {
  for (size_t a = 0; a < lines_.size(); ++a)
    for (size_t b = a + 1; b < lines_.size(); ++b)
      if (!std::memcmp(lines_[a].device, lines_[b].device, sizeof lines_[a].device) &&
          !(lines_[a].flags & lines_[b].flags & GC_DEVICE_SHARES))
        return true;
  return false;
}

bool MpiCommunicator::same_devices() const {
  for (size_t r = 0; r < lines_.size(); ++r)
    if (std::memcmp(lines_[r].device, bound_[r].device, sizeof lines_[r].device)) return false;
  return true;
}

Status MpiCommunicator::make_runtime(gpu::Device& device) {
  MpiBootstrap bootstrap(description_);
  GC_TRY_AS(runtime_, core::Communicator::create(device, move_kernel(), bootstrap));
  bound_ = lines_;
  return {};
}

// After a failure to connect, which all ranks see alike.
MpiCommunicator::Answer MpiCommunicator::stage_from_now_on(const Status& why) {
  log::write(log::Level::warn, "allreduce on device memory of %s is slow, through the host: %s", description_.name,
             why.what());
  finish();
  staging_only_ = true;
  return Answer::stage;
}

Result<core::CommShape> MpiCommunicator::queue_up(core::CollectiveTask task) {
  GC_TRY_AS(task.stream, runtime_->stream());
  queue_.clear();
  queue_.add(task);
  return runtime_->shape(queue_.streams);
}

Result<bool> MpiCommunicator::enter(const void* send, void* recv, size_t count, int type, int op, Run* run) {
  find_peers();
  if (type >= 0 && op >= 0)
    run->device = usable_device({proto::Function::all_reduce, send, recv, count, static_cast<gpucollDataType_t>(type),
                                 static_cast<gpucollRedOp_t>(op), 0, nullptr},
                                &run->task);
  publish(run->device, count, type, op);
  if (!run->device) return false;
  return all_on_device();
}

Status MpiCommunicator::launch(const core::CommShape& shape) {
  GC_TRY(runtime_->begin(queue_, shape));
  for (;;) {
    GC_TRY_AS(const bool all, runtime_->advance());
    if (all) return {};
    description_.calls->progress();
  }
}

Result<MpiCommunicator::Answer> MpiCommunicator::execute(const Run& run) {
  // A runtime communicator exists only on devices that are not shared.
  if (runtime_ ? !same_devices() : device_shared()) return Answer::stage;
  if (!runtime_) {
    if (Status made = make_runtime(*run.device); !made) return stage_from_now_on(made);
  }
  if (runtime_->fault().raised()) return runtime_->fault().status();
  GC_TRY_AS(core::CommShape shape, queue_up(run.task));
  const core::Needs needs = core::needs_of(queue_, description_.rank, shape);
  if (!runtime_->connected(needs)) {
    if (Status connected = runtime_->connect(needs, description_.calls->progress); !connected)
      return stage_from_now_on(connected);
    GC_TRY_AS(shape, runtime_->shape(queue_.streams));
  }
  GC_TRY(launch(shape));
  GC_TRY(runtime_->wait(runtime_->launched(), description_.calls->progress));
  return Answer::done;
}

// This rank can no longer agree with the others on what to do: whoever looks at its lines must not wait for it.
Status MpiCommunicator::give_up(uint64_t number, Status status) noexcept {
  sequence = number;
  gc_board_line& line = lines[number % GC_BOARD_LINES];
  __atomic_store_n(&line.kind, uint32_t{GC_KIND_FAILED}, __ATOMIC_RELAXED);  // partner: all_on_device of the peers
  __atomic_store_n(&line.sequence, number, __ATOMIC_RELEASE);                // partner: look_at_line of the peers
  failed_ = true;
  return status;
}

Result<MpiCommunicator::Answer> MpiCommunicator::all_reduce(const void* send, void* recv, size_t count, int type,
                                                            int op) {
  uint64_t number = sequence + 1;
  if (failed_)
    return give_up(number, Status::error(Code::remote, "%s cannot be used any more: an allreduce on it has failed",
                                         description_.name));
  Run run;
  auto on_device = contained([&] { return enter(send, recv, count, type, op, &run); });
  if (!on_device) return give_up(number, std::move(on_device).status());
  if (!*on_device) return Answer::stage;
  GC_TRY(check_same_call());  // fails on all ranks alike: the communicator stays as good as it was
  auto answer = contained([&] { return execute(run); });
  if (!answer) return give_up(number, std::move(answer).status());
  return answer;
}

}  // namespace gpucoll::coll
