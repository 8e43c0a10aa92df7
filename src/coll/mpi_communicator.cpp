#include "coll/mpi_communicator.h"

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"
#include "coll/call_line.h"
#include "coll/kernels.h"
#include "core/retired.h"

namespace gpucoll::coll {
namespace {

std::atomic<uint64_t> runs_on_device{0};

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

uint64_t MpiCommunicator::runs() noexcept { return runs_on_device.load(std::memory_order_relaxed); }

MpiCommunicator::MpiCommunicator(const gc_comm_description& description)
    : gc_comm{}, description_(description), arrivals_(description_) {}

Result<std::unique_ptr<MpiCommunicator>> MpiCommunicator::create(const gc_comm_description& description) {
  std::unique_ptr<MpiCommunicator> self(new MpiCommunicator(description));
  GC_TRY(self->arrivals_.open());
  self->lines = self->arrivals_.own_lines();
  return self;
}

MpiCommunicator::~MpiCommunicator() { finish(); }

void MpiCommunicator::finish() {
  if (runtime_) {
    runtime_->finish(nullptr).ignore();  // a failure was reported by the collective that met it
    core::retire(std::move(runtime_), 0);
    staging_only_ = true;
  }
  scratch_.release();
}

// What the user can mend is told once, by one rank where all see it; the rest only where choices are asked for.
void MpiCommunicator::stage_for_ever(int because_of, const Status& why) {
  static std::atomic<bool> told{false};
  staging_only_ = true;
  bool here_only = why.code() != Code::invalid_usage;
  bool warn = why.code() != Code::unsupported && (here_only || description_.rank == 0) && !told.exchange(true);
  tell_staged(warn ? log::Level::warn : log::Level::info,
              ("rank " + std::to_string(because_of) + " " + why.what()).c_str());
}

void MpiCommunicator::find_peers() {
  if (peers_found_) return;
  peers_found_ = true;
  int rank = 0;
  if (Status found = arrivals_.find_peers(&rank); !found) stage_for_ever(rank, found);
}

// Whether this rank's share can run on its device.
bool MpiCommunicator::has_part(const gc_call& call) {
  if (staging_only_) return false;
  gpu::Device* usual = runtime_ ? &runtime_->device() : nullptr;
  Status made = make_part(call, description_.rank, description_.size, usual, scratch_, &part_);
  if (!made)
    log::write(log::Level::info, "%s on %s goes through the host: %s", function_name(call.function), description_.name,
               made.what());
  return made.ok();
}

Result<bool> MpiCommunicator::enter(const gc_call& call) {
  find_peers();
  if (!has_part(call)) {
    arrivals_.publish(sequence, call.function, GC_KIND_HOST, {});
    return false;
  }
  arrivals_.publish(sequence, call.function, GC_KIND_DEVICE,
                    line_of(call, description_.rank, description_.size, *part_.device));
  return arrivals_.all_on_device(sequence, call.function, runtime_.get());
}

Status MpiCommunicator::check_same_call() const {
  const auto& lines = arrivals_.lines();
  const gc_board_line& mine = lines[static_cast<size_t>(description_.rank)];
  for (size_t r = 0; r < lines.size(); ++r) {
    if (same_call(mine, lines[r])) continue;
    std::string here = describe_line(mine), there = describe_line(lines[r]);
    if (here == there) there = "other counts for some ranks";
    return Status::error(Code::invalid_usage, "on %s rank %d calls it with %s, but rank %zu with %s", description_.name,
                         description_.rank, here.c_str(), r, there.c_str());
  }
  return {};
}

// Whether two ranks use one device on which their kernels cannot run side by side: then they would wait for each
// other's time slices.
bool MpiCommunicator::device_shared() const {
  const auto& lines = arrivals_.lines();
  for (size_t a = 0; a < lines.size(); ++a)
    for (size_t b = a + 1; b < lines.size(); ++b)
      if (!std::memcmp(lines[a].device, lines[b].device, sizeof lines[a].device) &&
          !(lines[a].flags & lines[b].flags & GC_DEVICE_SHARES))
        return true;
  return false;
}

bool MpiCommunicator::same_devices() const {
  const auto& lines = arrivals_.lines();
  for (size_t r = 0; r < lines.size(); ++r)
    if (std::memcmp(lines[r].device, bound_[r].device, sizeof lines[r].device)) return false;
  return true;
}

Status MpiCommunicator::make_runtime() {
  MpiBootstrap bootstrap(description_);
  GC_TRY_AS(runtime_, core::Communicator::create(*part_.device, move_kernel(), bootstrap));
  bound_ = arrivals_.lines();
  return {};
}

void MpiCommunicator::tell_staged(log::Level level, const char* why) const {
  log::write(level, "collectives on device memory of %s are slow, through the host: %s", description_.name, why);
}

// After a failure to connect, which all ranks see alike.
MpiCommunicator::Answer MpiCommunicator::stage_from_now_on(const Status& why) {
  tell_staged(log::Level::warn, why.what());
  finish();
  staging_only_ = true;
  return Answer::stage;
}

Status MpiCommunicator::put_on_stream() {
  GC_TRY_AS(const gpu::Stream stream, runtime_->stream());
  part_.queue.streams.assign(1, stream);
  for (core::CollectiveTask& task : part_.queue.collectives) task.stream = stream;
  return {};
}

Status MpiCommunicator::copy(const std::vector<Copy>& copies) {
  for (const Copy& c : copies) GC_TRY(part_.device->copy_async(c.to, c.from, c.bytes, part_.queue.streams.front()));
  return {};
}

Status MpiCommunicator::launch(const core::CommShape& shape) {
  GC_TRY(runtime_->begin(part_.queue, shape));
  for (;;) {
    GC_TRY_AS(const bool all, runtime_->advance());
    if (all) return {};
    description_.calls->progress();
  }
}

Status MpiCommunicator::end() {
  GC_TRY(runtime_->wait(runtime_->launched(), description_.calls->progress));
  if (part_.after.empty()) return {};
  GC_TRY(copy(part_.after));
  return part_.device->synchronize(part_.queue.streams.front());
}

Result<MpiCommunicator::Answer> MpiCommunicator::run_on_device() {
  // A runtime communicator exists only on devices that are not shared.
  if (runtime_ ? !same_devices() : device_shared()) {
    const char* why = runtime_ ? "its ranks use other devices than when they first used any"
                               : "two of its ranks use one device, on which their kernels do not run side by side";
    if (!std::exchange(told_staged_, true)) tell_staged(log::Level::info, why);
    return Answer::stage;
  }
  if (!runtime_) {
    if (Status made = make_runtime(); !made) return stage_from_now_on(made);
  }
  if (runtime_->fault().raised()) return runtime_->fault().status();
  GC_TRY(put_on_stream());
  const core::TaskQueue& queue = part_.queue;
  GC_TRY_AS(core::CommShape shape, runtime_->shape(queue.streams));
  const core::Needs needs = core::needs_of(queue, description_.rank, shape);
  if (!runtime_->connected(needs)) {
    Status connected = runtime_->connect(needs, description_.calls->progress);
    // Links for messages are a matter of two ranks.
    const bool alike = queue.sends.empty() && queue.recvs.empty();
    if (!connected && alike) return stage_from_now_on(connected);
    GC_TRY(std::move(connected));
    GC_TRY_AS(shape, runtime_->shape(queue.streams));
  }
  GC_TRY(copy(part_.before));
  GC_TRY(launch(shape));
  GC_TRY(end());
  return Answer::done;
}

// REQUIRES: every rank has come with device memory. `same`: whether they call the same, on all ranks alike.
Result<MpiCommunicator::Answer> MpiCommunicator::execute(const gc_call& call, uint64_t number, bool same) {
  Result<Answer> answer = Answer::stage;
  if (same) answer = run_on_device();
  if (!answer) return answer;
  const bool done = *answer == Answer::done;
  if (!done || !holds_everybody(call.function))
    GC_TRY(arrivals_.await_decisions(number, call.function, runtime_.get()));
  if (done) runs_on_device.fetch_add(1, std::memory_order_relaxed);
  return answer;
}

// This rank can no longer agree with the others on what to do: nobody must wait for it.
Status MpiCommunicator::give_up(uint64_t number, Status status) noexcept {
  arrivals_.fail(number);
  failed_ = true;
  return status;
}

Result<MpiCommunicator::Answer> MpiCommunicator::run(const gc_call& call) {
  const uint64_t number = ++sequence;
  if (failed_)
    return Status::error(Code::remote, "%s cannot be used any more: a collective on it has failed", description_.name);
  auto on_device = contained([&] { return enter(call); });
  if (!on_device) return give_up(number, std::move(on_device).status());
  if (!*on_device) return Answer::stage;
  Status same = check_same_call();
  auto answer = contained([&] { return execute(call, number, same.ok()); });
  if (!answer) {
    if (runtime_) runtime_->raise_fault(answer.status());  // the others count on this rank
    return give_up(number, std::move(answer).status());
  }
  if (!same) return same;  // the communicator stays as good as it was
  return answer;
}

}  // namespace gpucoll::coll
