// The C API: communicators. Each body is one call of guarded().
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/params.h"
#include "base/status.h"
#include "coll/handles.h"
#include "coll/kernels.h"
#include "core/communicator.h"
#include "core/group.h"
#include "core/retired.h"
#include "gpucoll/gpucoll.h"
#include "net/socket_bootstrap.h"

using namespace gpucoll;
using namespace gpucoll::coll;

namespace {

Status null_argument(const char* name) { return Status::error(Code::invalid_argument, "%s is NULL", name); }

// Takes the communicator out of its handle and gives the handle back.
std::unique_ptr<core::Communicator> take(gpucollComm_t comm) {
  auto communicator = std::move(comm->communicator);
  Handles::instance().give_back(comm);
  if (communicator) core::forget(*communicator);
  return communicator;
}

// Waits for the peers a little before it leaves the rest to later; not where this very thread may have to destroy
// theirs.
void retire(std::unique_ptr<core::Communicator> communicator) {
  constexpr int64_t kPatienceMs = 20;
  const int64_t patience_ms = communicator->has_peers_in_this_process() ? 0 : kPatienceMs;
  core::retire(std::move(communicator), patience_ms);
}

// Frees a communicator without the peers' help: they learn why.
void give_up(gpucollComm_t comm, const Status& why) {
  if (comm->communicator) comm->communicator->raise_fault(why);
  auto communicator = take(comm);
  if (!communicator) return;
  communicator->finish(nullptr).ignore();  // its failure is `why` itself
  retire(std::move(communicator));
}

Status make_communicator(gpucollComm* handle, gpu::Device* device, const proto::UniqueId& id, int n, int rank) {
  core::drain_retired(0, nullptr);
  GC_TRY_AS(auto bootstrap, net::SocketBootstrap::create(id, rank, n, params().timeout));
  GC_TRY_AS(handle->communicator, core::Communicator::create(*device, move_kernel(), *bootstrap));
  return {};
}

// Puts the making of a communicator into the group. In a group the handle is the caller's from now on; if the group
// fails, it stays without a communicator.
template <class Make>
Status make_handle(gpucollComm_t* comm, Make make, const void* in_order_with = nullptr) {
  gpucollComm_t handle = Handles::instance().take();
  Status status = core::enqueue_job([=] { return make(handle); }, in_order_with);
  if (status)
    *comm = handle;
  else
    Handles::instance().give_back(handle);
  return status;
}

Status init_rank_on(gpucollComm_t* comm, int n, const proto::UniqueId& id, int rank, int index) {
  GC_TRY(params_status());
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  GC_TRY_AS(gpu::Device * device, platform->open(index));
  return make_handle(comm, [=](gpucollComm_t handle) { return make_communicator(handle, device, id, n, rank); });
}

Status init_rank(gpucollComm_t* comm, int n, const gpucollUniqueId& id, int rank) {
  if (!comm) return Status::error(Code::invalid_argument, "the pointer to the communicator is NULL");
  *comm = nullptr;
  if (n < 1 || rank < 0 || rank >= n)
    return Status::error(Code::invalid_argument, "rank %d of %d ranks makes no sense", rank, n);
  proto::UniqueId unique;
  std::memcpy(&unique, &id, sizeof unique);
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  return init_rank_on(comm, n, unique, rank, platform->current_device());
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
  GC_TRY_AS(const proto::UniqueId id, net::make_unique_id());
  core::group_start();
  for (int i = 0; i < n; ++i) core::fail_group(init_rank_on(&comms[i], n, id, i, devices ? devices[i] : i)).ignore();
  Status status = core::group_end();
  if (status) return {};
  for (int i = 0; i < n; ++i)
    if (comms[i]) give_up(std::exchange(comms[i], nullptr), status);
  return status;
}

Status make_part(gpucollComm* handle, core::Communicator* parent, int color, int key) {
  GC_TRY_AS(handle->communicator, parent->split(color, key));
  return {};
}

Status split(gpucollComm_t comm, int color, int key, gpucollComm_t* newcomm) {
  if (!newcomm) return null_argument("newcomm");
  *newcomm = nullptr;
  GC_TRY_AS(core::Communicator * parent, checked(comm));
  if (color < 0 && color != GPUCOLL_SPLIT_NOCOLOR)
    return Status::error(Code::invalid_argument, "color %d is negative and not GPUCOLL_SPLIT_NOCOLOR", color);
  if (color == GPUCOLL_SPLIT_NOCOLOR)
    return core::enqueue_job([=] { return parent->split(color, key).status(); }, parent);
  return make_handle(
      newcomm, [=](gpucollComm_t handle) { return make_part(handle, parent, color, key); }, parent);
}

Status check_destroyable(gpucollComm_t comm) {
  if (comm->alive != gpucollComm::kAlive)
    return Status::error(Code::invalid_argument, "this is no communicator, or it was destroyed before");
  // The group's end would still write to the handle, or use the communicator.
  if (comm->communicator ? core::has_job(comm->communicator.get()) : core::group_open())
    return Status::error(
        Code::invalid_usage,
        "the communicator cannot be destroyed before gpucollGroupEnd, which makes, splits or finalises "
        "it");
  return {};
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
  return to_c(guarded("gpucollCommInitRank", [&] { return core::fail_group(init_rank(comm, n_ranks, id, rank)); }));
}

gpucollResult_t gpucollCommInitAll(gpucollComm_t* comms, int n_devices, const int* devices) {
  return to_c(guarded("gpucollCommInitAll", [&] { return core::fail_group(init_all(comms, n_devices, devices)); }));
}

gpucollResult_t gpucollCommSplit(gpucollComm_t comm, int color, int key, gpucollComm_t* newcomm) {
  return to_c(guarded("gpucollCommSplit", [&] { return core::fail_group(split(comm, color, key, newcomm)); }));
}

gpucollResult_t gpucollCommFinalize(gpucollComm_t comm) {
  auto body = [&]() -> Status {
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    return core::enqueue_job([=] { return communicator->finish(nullptr); }, communicator);
  };
  return to_c(guarded("gpucollCommFinalize", [&] { return core::fail_group(body()); }));
}

gpucollResult_t gpucollCommDestroy(gpucollComm_t comm) {
  return to_c(guarded("gpucollCommDestroy", [&]() -> Status {
    if (!comm) return {};
    GC_TRY(check_destroyable(comm));
    auto communicator = take(comm);
    if (!communicator) return {};
    Status status = communicator->finish(nullptr);
    retire(std::move(communicator));
    return status;
  }));
}

gpucollResult_t gpucollCommAbort(gpucollComm_t comm) {
  return to_c(guarded("gpucollCommAbort", [&]() -> Status {
    if (!comm) return {};
    GC_TRY(check_destroyable(comm));
    give_up(comm, Status::error(Code::aborted, "the communicator was aborted by its program"));
    return {};
  }));
}

gpucollResult_t gpucollCommGetAsyncError(gpucollComm_t comm, gpucollResult_t* async_error) {
  return to_c(guarded("gpucollCommGetAsyncError", [&]() -> Status {
    if (!async_error) return null_argument("async_error");
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    *async_error = communicator->fault().raised() ? to_c(communicator->fault().status().code()) : gpucollSuccess;
    return {};
  }));
}

gpucollResult_t gpucollCommCount(gpucollComm_t comm, int* count) {
  return to_c(guarded("gpucollCommCount", [&]() -> Status {
    if (!count) return null_argument("count");
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    *count = communicator->size();
    return {};
  }));
}

gpucollResult_t gpucollCommCuDevice(gpucollComm_t comm, int* device) {
  return to_c(guarded("gpucollCommCuDevice", [&]() -> Status {
    if (!device) return null_argument("device");
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    *device = communicator->device().index();
    return {};
  }));
}

gpucollResult_t gpucollCommUserRank(gpucollComm_t comm, int* rank) {
  return to_c(guarded("gpucollCommUserRank", [&]() -> Status {
    if (!rank) return null_argument("rank");
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    *rank = communicator->rank();
    return {};
  }));
}

}  // extern "C"
