// The C API: communicators. Each body is one call of guarded().
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "abi/meeting.h"
#include "abi/nccl.h"
#include "api/configuration.h"
#include "api/handles.h"
#include "api/open_device.h"
#include "base/mutant.h"
#include "base/params.h"
#include "base/status.h"
#include "core/comm/group.h"
#include "core/comm/reclaim.h"
#include "gpucoll/gpucoll.h"
#include "kernels/kernels.h"
#include "net/bootstrap/socket_bootstrap.h"

using namespace gpucoll;
using namespace gpucoll::coll;

namespace {

constexpr timespec kNap = {0, 20'000};

// Another thread's group, or the background, may still be making it; what this thread's own open group holds it will
// not make.
void wait_until_made(gpucollComm_t comm) {
  while (comm->in_making.load() && (comm->busy() || !core::group_open())) nanosleep(&kNap, nullptr);
}

// Waits for the communicator's operations, and frees it and its handle. REQUIRES: the caller took its life.
Status destroy(gpucollComm_t comm) {
  if (comm->made_aside && comm->in_making.load())
    core::interrupt_work(comm->progress,
                         Status::error(Code::aborted, "the communicator was destroyed while it was being made"));
  wait_until_made(comm);
  // An abort, a death or a timeout ends the work that goes on. Uses end by themselves, or by the fault of an abort, and
  // may have begun more work.
  while (comm->busy() || comm->uses.load() > 0) nanosleep(&kNap, nullptr);
  core::forget(comm->share);
  core::CommShare share = std::exchange(comm->share, {});
  Status status;
  if (core::Communicator* communicator = share.communicator()) {
    status = share.finish();
    if (comm->revoked()) status = Status();  // its failure was asked for
    comm->registrations.remove_all(*communicator);
  }
  Handles::instance().give_back(comm);
  return status;
}

// Frees a communicator without the peers' help: they learn why, and so do other threads' calls on it, which end then.
void give_up(gpucollComm_t comm, const Status& why) {
  if (comm->progress) core::interrupt_work(comm->progress, why);
  wait_until_made(comm);
  if (core::Communicator* communicator = comm->share.communicator()) communicator->give_up(why);
  destroy(comm).ignore();  // its failure is `why` itself
}

// How the ranks of a new communicator meet, and what they want of it.
struct Plan {
  proto::UniqueId id;
  int n;
  Configuration configuration;
};

Status meet(gpucollComm* handle, gpu::Device* device, const Plan& plan, int rank,
            const net::SocketBootstrap::Watch& watch) {
  core::drain_reclaimed(0, nullptr);
  GC_TRY_AS(auto bootstrap,
            net::SocketBootstrap::create(plan.id, rank, plan.n, core::timeout_of(plan.configuration.options), watch));
  Status status = contained([&]() -> Status {
    GC_TRY_AS(auto communicator, core::Communicator::create(*device, {all_kernels(), move_kernel(), packing_kernel()},
                                                            *bootstrap, {{}, {}, nullptr, plan.configuration.options}));
    handle->share = core::CommShare(std::move(communicator), plan.configuration.shares,
                                    plan.configuration.blocks ? nullptr : handle->progress);
    return {};
  });
  if (!status) bootstrap->give_up(status);
  return status;
}

Status make_communicator(gpucollComm* handle, gpu::Device* device, const Plan& plan, int rank,
                         const net::SocketBootstrap::Watch& watch = {}) {
  return core::named(meet(handle, device, plan, rank, watch), plan.configuration.options.name);
}

// Returns whether the making that `progress` tells of is interrupted, and why.
Status interruption(const std::shared_ptr<core::Progress>& progress) {
  return progress && !gc_mutant(346) ? progress->interrupted() : Status();
}

// Lets an interruption of `progress` call what ends a job, while it lives.
class Interruptible {
 public:
  Interruptible(std::shared_ptr<core::Progress> progress, std::function<void(const Status&)> end)
      : progress_(std::move(progress)) {
    if (progress_ && !gc_mutant(348)) progress_->on_interrupt(std::move(end));
  }
  ~Interruptible() {
    if (progress_) progress_->on_interrupt({});
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  const std::shared_ptr<core::Progress> progress_;
};

// How a communicator is made, and what it is then.
struct Mode {
  bool in_background;
  bool blocks;
  std::shared_ptr<core::Progress> used = nullptr;  // of the communicator of which it is made
};

// Puts the making of a communicator into the group, or begins it in the background. In a group the handle is the
// caller's from now on; if the group fails, it stays without a communicator.
template <class Make>
Status make_handle(gpucollComm_t* comm, Make make, const void* in_order_with, core::CancelJob cancel, Mode mode) {
  gpucollComm_t handle = Handles::instance().take();
  handle->made_aside = mode.in_background || !mode.blocks;
  if (handle->made_aside || !gc_mutant(427)) handle->progress = std::make_shared<core::Progress>(&handle->refuses);
  core::InBackground in_background;
  if (mode.in_background) in_background = {handle->progress, std::move(mode.used)};
  auto making = std::make_shared<Making>(handle);
  Status status = core::enqueue_job([make, handle, making] { return make(handle); }, in_order_with, std::move(cancel),
                                    std::move(in_background));
  making.reset();
  if (status || status.code() == Code::in_progress)
    *comm = handle;
  else
    Handles::instance().give_back(handle);
  return status;
}

// Tells the others what this rank fails for.
Status decline(const Plan& plan, int rank, Status why) {
  if (!why) net::SocketBootstrap::decline(plan.id, rank, plan.n, why);
  return why;
}

// On the thread's device where no index is given.
Status init_rank_on(gpucollComm_t* comm, const Plan& plan, int rank, std::optional<int> index) {
  auto device = open_device(index);
  if (!device) return decline(plan, rank, device.status());
  const bool blocks = plan.configuration.blocks;
  return make_handle(
      comm,
      [=, device = *device](gpucollComm_t handle) {
        const auto& progress = handle->progress;
        return make_communicator(handle, device, plan, rank, [&progress] { return interruption(progress); });
      },
      nullptr, [=](const Status& why) { net::SocketBootstrap::decline(plan.id, rank, plan.n, why); },
      {!blocks, blocks});
}

Status init_rank(gpucollComm_t* comm, int n, const gpucollUniqueId& id, int rank, const gpucollConfig_t* config) {
  if (!comm) return Status::error(Code::invalid_argument, "the pointer to the communicator is NULL");
  *comm = nullptr;
  if (n < 1 || rank < 0 || rank >= n)
    return Status::error(Code::invalid_argument, "rank %d of %d ranks makes no sense", rank, n);
  Plan plan = {{}, n, {}};
  std::memcpy(&plan.id, &id, sizeof plan.id);
  auto read = read_configuration(config, configuration_of_parameters());
  // Alone the call may be made again with another configuration; a group fails with it.
  if (!read) return core::group_open() ? decline(plan, rank, read.status()) : read.status();
  plan.configuration = *std::move(read);
  return init_rank_on(comm, plan, rank, {});
}

Status check_devices(int n, const int* devices) {
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  GC_TRY_AS(const int count, platform->device_count());
  for (int i = 0; i < n; ++i) {
    const int device = devices ? devices[i] : i;
    if (device < 0 || device >= count)
      return Status::error(Code::invalid_argument, "rank %d is to work on device %d: there are the devices 0 to %d", i,
                           device, count - 1);
  }
  return {};
}

Status init_all(gpucollComm_t* comms, int n, const int* devices) {
  if (!comms) return null_argument("comms");
  if (n < 1) return Status::error(Code::invalid_argument, "%d communicators make no sense", n);
  std::fill_n(comms, n, nullptr);
  GC_TRY(check_devices(n, devices));
  Plan plan = {{}, n, configuration_of_parameters()};
  GC_TRY_AS(plan.id, net::make_unique_id());
  core::group_start();
  Status first;
  for (int i = 0; i < n; ++i) {
    Status made = core::fail_group(init_rank_on(&comms[i], plan, i, devices ? devices[i] : i));
    if (first) first = std::move(made);
  }
  Status status = core::group_end();
  if (status) return {};
  if (!first) status = std::move(first);  // the group takes it for told
  for (int i = 0; i < n; ++i) {
    gpucollComm_t made = std::exchange(comms[i], nullptr);
    if (made && made->alive.exchange(0)) give_up(made, status);
  }
  return status;
}

struct Choice {
  int color, key;
  const gpucollConfig_t* config;
};

Status split(gpucollComm_t comm, const Choice& choice, gpucollComm_t* newcomm) {
  if (!newcomm) return null_argument("newcomm");
  *newcomm = nullptr;
  GC_TRY_AS(const Use communicator, usable(comm));
  const core::CommShare parent = comm->share;
  const int color = choice.color, key = choice.key;
  if (color < 0 && color != GPUCOLL_SPLIT_NOCOLOR)
    return Status::error(Code::invalid_argument, "color %d is negative and not GPUCOLL_SPLIT_NOCOLOR", color);
  GC_TRY_AS(const Configuration wanted, read_configuration(choice.config, configuration_of(parent)));
  const auto cancel = [=](const Status& why) { parent.communicator()->raise_fault(why); };
  const std::shared_ptr<core::Progress> used = parent.progress();
  if (color == GPUCOLL_SPLIT_NOCOLOR) {
    const auto take_part = [=]() -> Status {
      const Interruptible interruptible(used, cancel);
      return parent.split(color, key, wanted.shares, wanted.options).status();
    };
    return core::enqueue_job(take_part, communicator.communicator(), cancel, {nullptr, used});
  }
  const auto make = [=](gpucollComm_t handle) -> Status {
    const Interruptible of_parent(used, cancel), of_child(handle->progress, cancel);
    GC_TRY_AS(handle->share,
              parent.split(color, key, wanted.shares, wanted.options, wanted.blocks ? nullptr : handle->progress));
    return {};
  };
  return make_handle(newcomm, make, communicator.communicator(), cancel, {used != nullptr, wanted.blocks, used});
}

// Returns the ranks that are not excluded. Errors: invalid_argument where the list makes no sense, or has this rank.
Result<std::vector<int>> survivors_of(const core::Communicator& communicator, const int* excluded, int n_excluded) {
  if (n_excluded < 0) return Status::error(Code::invalid_argument, "n_excluded is %d", n_excluded);
  if (n_excluded > 0 && !excluded) return null_argument("excluded");
  std::vector<int> ranks(static_cast<size_t>(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (int i = 0; i < n_excluded; ++i) {
    const int rank = excluded[i];
    if (rank < 0 || rank >= communicator.size())
      return Status::error(Code::invalid_argument, "excluded[%d] is %d, which is none of the %d ranks", i, rank,
                           communicator.size());
    if (rank == communicator.rank())
      return Status::error(Code::invalid_argument, "rank %d excludes itself: only the others call this", rank);
    std::erase(ranks, rank);
  }
  return ranks;
}

// Ends the meeting of survivors where it is in vain. One that has just died may have sent all that the others need.
class MeetingWatch {
 public:
  MeetingWatch(core::Communicator& communicator, const std::vector<int>& ranks, uint64_t number, bool after_fault,
               std::shared_ptr<core::Progress> progress)
      : communicator_(communicator),
        ranks_(ranks),
        number_(number),
        after_fault_(after_fault),
        progress_(std::move(progress)) {}
  Status operator()() {
    GC_TRY(interruption(progress_));
    if (communicator_.handed_ids().handed_anew(ranks_, number_)) {
      handed_anew_ = true;
      return Status::error(Code::remote, "the first of the remaining ranks has begun to shrink the communicator anew");
    }
    Status status = communicator_.can_meet(ranks_, after_fault_);
    if (status || status.code() != Code::remote) return status;
    const auto now = std::chrono::steady_clock::now();
    if (!in_vain_since_) in_vain_since_ = now;
    return now - *in_vain_since_ < std::chrono::seconds(1) ? Status() : status;
  }
  // Returns whether the ranks meet elsewhere by now.
  bool handed_anew() { return handed_anew_ || communicator_.handed_ids().handed_anew(ranks_, number_); }

 private:
  core::Communicator& communicator_;
  const std::vector<int>& ranks_;
  const uint64_t number_;  // of the id by which they meet
  const bool after_fault_;
  const std::shared_ptr<core::Progress> progress_;
  bool handed_anew_ = false;
  std::optional<std::chrono::steady_clock::time_point> in_vain_since_;
};

// The ranks of another communicator, and whether that has failed before.
struct Survivors {
  core::CommShare of;
  std::vector<int> ranks;
  bool after_fault;
};

Status make_of_survivors(gpucollComm* handle, const Survivors& survivors, const Configuration& configuration) {
  core::Communicator& communicator = *survivors.of.communicator();
  const std::vector<int>& ranks = survivors.ranks;
  Plan plan = {{}, static_cast<int>(ranks.size()), configuration};
  const int place = static_cast<int>(std::find(ranks.begin(), ranks.end(), communicator.rank()) - ranks.begin());
  if (place == 0) {
    GC_TRY_AS(plan.id, net::make_unique_id());
  }
  const auto interrupted = [&] { return interruption(handle->progress); };
  for (;;) {
    GC_TRY_AS(const uint64_t number, communicator.hand_out(ranks, &plan.id, survivors.after_fault, interrupted));
    MeetingWatch watch(communicator, ranks, number, survivors.after_fault, handle->progress);
    Status status = make_communicator(handle, &communicator.device(), plan, place, std::ref(watch));
    if (!status && place == 0) communicator.handed_ids().in_vain(number);
    if (status || !watch.handed_anew()) return status;
  }
}

Status shrink(gpucollComm_t comm, const int* excluded, int n_excluded, gpucollComm_t* newcomm,
              const gpucollConfig_t* config, int flags) {
  if (!newcomm) return null_argument("newcomm");
  *newcomm = nullptr;
  if (flags != GPUCOLL_SHRINK_DEFAULT && flags != GPUCOLL_SHRINK_ABORT)
    return Status::error(Code::invalid_argument, "flags are %d: neither GPUCOLL_SHRINK_DEFAULT nor _ABORT", flags);
  GC_TRY_AS(const Use communicator, checked(comm));
  GC_TRY_AS(const std::vector<int> ranks, survivors_of(*communicator, excluded, n_excluded));
  const core::CommShare parent = comm->share;
  GC_TRY_AS(const Configuration wanted, read_configuration(config, configuration_of(parent)));
  if (flags == GPUCOLL_SHRINK_ABORT)
    communicator->raise_fault(Status::error(Code::aborted, "the communicator was aborted to be shrunk"));
  else if (communicator->fault().raised() && !comm->revoked())
    return communicator->fault().status();
  const Survivors survivors = {parent, ranks, communicator->fault().raised()};
  const std::shared_ptr<core::Progress> used = parent.progress();
  const auto make = [=](gpucollComm_t handle) {
    const Interruptible interruptible(used, [=](const Status& why) { parent.communicator()->give_up(why); });
    return make_of_survivors(handle, survivors, wanted);
  };
  return make_handle(newcomm, make, communicator.communicator(), {}, {used != nullptr, wanted.blocks, used});
}

// Returns the communicator, or one with none yet where something goes on in the background or the making has failed.
// Errors: those of checked(). Programs ask for errors again and again, so an invalid handle is reported the first time
// only.
Result<Use> checked_for_polling(gpucollComm_t comm) {
  static std::atomic<gpucollComm_t> told{nullptr};
  constexpr uint8_t kUnready = core::Progress::kBusy | core::Progress::kFailed;
  if (comm)
    if (Use any(comm); any && ((comm->refuses.load() & kUnready) || any.communicator()))
      return Result<Use>(std::move(any));
  auto use = checked(comm);
  if (use || !comm || told.exchange(comm) != comm) return use;
  Status again = std::move(use).status();
  again.mark_told();
  return again;
}

// The group's end would still write to the handle, or use the communicator. What goes on in the background is no part
// of an open group.
bool in_open_group(gpucollComm_t comm, const Use& use) {
  if (comm->busy()) return false;
  return use.communicator() ? core::has_job(use.communicator()) : comm->in_making.load() && core::group_open();
}

Status refuse_owned(gpucollComm_t comm) {
  const Use use(comm);
  if (!use || !comm->owned) return {};
  return Status::error(
      Code::invalid_usage,
      "the communicator belongs to an MPI communicator, whose MPI_Comm_free destroys it; to end what is "
      "under way, call gpucollCommRevoke");
}

// Takes the handle's life; the caller destroys it.
Status end_life_of(gpucollComm_t comm) {
  if (const Use use(comm); use && in_open_group(comm, use))
    return Status::error(
        Code::invalid_usage,
        "the communicator cannot be destroyed before gpucollGroupEnd, which makes, splits or finalises "
        "it");
  if (comm->alive.exchange(0) == gpucollComm::kAlive) return {};
  return Status::error(Code::invalid_argument, "this is no communicator, or it was destroyed before");
}

}  // namespace

extern "C" {

gpucollResult_t gpucollGetUniqueId(gpucollUniqueId* id) {
  return to_c(guarded("gpucollGetUniqueId", [&]() -> Status {
    if (!id) return null_argument("id");
    GC_TRY_AS(proto::UniqueId unique, net::make_unique_id());
    static_assert(sizeof unique == sizeof *id);
    std::memcpy(id, &unique, sizeof unique);
    return {};
  }));
}

gpucollResult_t gpucollCommInitRank(gpucollComm_t* comm, int n_ranks, gpucollUniqueId id, int rank) {
  return gpucollCommInitRankConfig(comm, n_ranks, id, rank, nullptr);
}

gpucollResult_t gpucollCommInitRankConfig(gpucollComm_t* comm, int n_ranks, gpucollUniqueId id, int rank,
                                          const gpucollConfig_t* config) {
  auto body = [&] { return core::fail_group(init_rank(comm, n_ranks, id, rank, config)); };
  return to_c(guarded(config ? "gpucollCommInitRankConfig" : "gpucollCommInitRank", body));
}

gpucollResult_t gpucollCommInitAll(gpucollComm_t* comms, int n_devices, const int* devices) {
  return to_c(guarded("gpucollCommInitAll", [&] { return core::fail_group(init_all(comms, n_devices, devices)); }));
}

gpucollResult_t gpucollCommSplit(gpucollComm_t comm, int color, int key, gpucollComm_t* newcomm) {
  const Choice choice = {color, key, nullptr};
  return to_c(guarded("gpucollCommSplit", [&] { return core::fail_group(split(comm, choice, newcomm)); }));
}

gpucollResult_t gpucollCommSplitConfig(gpucollComm_t comm, int color, int key, gpucollComm_t* newcomm,
                                       const gpucollConfig_t* config) {
  const Choice choice = {color, key, config};
  return to_c(guarded("gpucollCommSplitConfig", [&] { return core::fail_group(split(comm, choice, newcomm)); }));
}

gpucollResult_t gpucollCommShrink(gpucollComm_t comm, const int* excluded, int n_excluded, gpucollComm_t* newcomm,
                                  const gpucollConfig_t* config, int flags) {
  auto body = [&] { return core::fail_group(shrink(comm, excluded, n_excluded, newcomm, config, flags)); };
  return to_c(guarded("gpucollCommShrink", body));
}

gpucollResult_t gpucollCommRevoke(gpucollComm_t comm) {
  return to_c(guarded("gpucollCommRevoke", [&]() -> Status {
    // Once a communicator is made, nothing in the background puts another one behind the handle.
    const bool made = comm && !comm->in_making.load();
    GC_TRY_AS(const Use communicator, checked(comm, made ? gpucollComm::kRevoked | core::Progress::kBusy : 0));
    if (!gc_mutant(225)) comm->refuses.fetch_or(gpucollComm::kRevoked);
    communicator->revoke();
    return {};
  }));
}

gpucollResult_t gpucollCommFinalize(gpucollComm_t comm) {
  auto body = [&]() -> Status {
    GC_TRY_AS(const Use communicator, usable(comm));
    const auto finish = [share = comm->share]() mutable -> Status {
      const Interruptible interruptible(share.progress(),
                                        [share](const Status& why) { share.communicator()->give_up(why); });
      return share.finish();
    };
    return core::enqueue_job(finish, communicator.communicator(), {}, {nullptr, comm->share.progress()});
  };
  return to_c(guarded("gpucollCommFinalize", [&] { return core::fail_group(body()); }));
}

gpucollResult_t gpucollCommDestroy(gpucollComm_t comm) {
  return to_c(guarded("gpucollCommDestroy", [&]() -> Status {
    if (!comm) return {};
    GC_TRY(refuse_owned(comm));
    GC_TRY(end_life_of(comm));
    return destroy(comm);
  }));
}

gpucollResult_t gpucoll_comm_leave(gpucollComm_t comm) {
  return to_c(guarded("the end of an MPI communicator", [&]() -> Status {
    GC_TRY(end_life_of(comm));
    return destroy(comm);
  }));
}

gpucollResult_t gpucollCommAbort(gpucollComm_t comm) {
  return to_c(guarded("gpucollCommAbort", [&]() -> Status {
    if (!comm) return {};
    GC_TRY(refuse_owned(comm));
    GC_TRY(end_life_of(comm));
    give_up(comm, Status::error(Code::aborted, "the communicator was aborted by its program"));
    return {};
  }));
}

void gpucoll_wait_without_end(int yes) { waits_without_end() = yes != 0; }

int64_t gpucoll_comm_timeout(gpucollComm_t comm) {
  auto communicator = checked(comm);
  return communicator ? core::timeout_of((*communicator)->options()) : -1;
}

gpucollResult_t gpucollCommGetAsyncError(gpucollComm_t comm, gpucollResult_t* async_error) {
  return to_c(guarded("gpucollCommGetAsyncError", [&]() -> Status {
    if (!async_error) return null_argument("async_error");
    GC_TRY_AS(const Use communicator, checked_for_polling(comm));
    if (comm->busy()) return *async_error = gpucollInProgress, Status();
    if (comm->refuses.load() & core::Progress::kFailed)
      return *async_error = to_c(failure_of_making(comm).code()), Status();
    if (!communicator.communicator()) return refusal(comm);
    communicator->compare_calls();
    if (comm->revoked()) return *async_error = gpucollSuccess, Status();
    *async_error = communicator->fault().raised() ? to_c(communicator->fault().status().code()) : gpucollSuccess;
    return {};
  }));
}

gpucollResult_t gpucollCommCount(gpucollComm_t comm, int* count) {
  return to_c(guarded("gpucollCommCount", [&]() -> Status {
    if (!count) return null_argument("count");
    GC_TRY_AS(const Use communicator, checked(comm));
    *count = communicator->size();
    return {};
  }));
}

gpucollResult_t gpucollCommCuDevice(gpucollComm_t comm, int* device) {
  return to_c(guarded("gpucollCommCuDevice", [&]() -> Status {
    if (!device) return null_argument("device");
    GC_TRY_AS(const Use communicator, checked(comm));
    *device = communicator->device().index();
    return {};
  }));
}

gpucollResult_t gpucollCommUserRank(gpucollComm_t comm, int* rank) {
  return to_c(guarded("gpucollCommUserRank", [&]() -> Status {
    if (!rank) return null_argument("rank");
    GC_TRY_AS(const Use communicator, checked(comm));
    *rank = communicator->rank();
    return {};
  }));
}

}  // extern "C"
