// The C API: communicators. Each body is one call of guarded().
#include <cstring>
#include <memory>

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

Status make_communicator(gpucollComm* handle, gpu::Device* device, const proto::UniqueId& id, int n, int rank) {
  GC_TRY_AS(auto bootstrap, net::SocketBootstrap::create(id, rank, n, params().timeout));
  GC_TRY_AS(handle->communicator, core::Communicator::create(*device, move_kernel(), *bootstrap));
  return {};
}

Status init_rank(gpucollComm_t* comm, int n, const gpucollUniqueId& id, int rank) {
  if (!comm) return Status::error(Code::invalid_argument, "the pointer to the communicator is NULL");
  *comm = nullptr;
  if (n < 1 || rank < 0 || rank >= n)
    return Status::error(Code::invalid_argument, "rank %d of %d ranks makes no sense", rank, n);
  GC_TRY(params_status());
  GC_TRY_AS(gpu::Platform * platform, gpu::platform());
  GC_TRY_AS(gpu::Device * device, platform->open(platform->current_device()));
  proto::UniqueId unique;
  std::memcpy(&unique, &id, sizeof unique);
  gpucollComm_t handle = Handles::instance().take();
  // In a group the handle is the caller's from now on; if the group fails it stays without a communicator.
  Status status = core::enqueue_job([=] { return make_communicator(handle, device, unique, n, rank); });
  if (status)
    *comm = handle;
  else
    Handles::instance().give_back(handle);
  return status;
}

Status check_destroyable(gpucollComm_t comm) {
  if (comm->alive != gpucollComm::kAlive)
    return Status::error(Code::invalid_argument, "this is no communicator, or it was destroyed before");
  // The group's end would still write to the handle.
  if (!comm->communicator && core::group_open())
    return Status::error(Code::invalid_usage,
                         "the communicator cannot be destroyed before gpucollGroupEnd has made it");
  return {};
}

// Takes the communicator out of its handle and gives the handle back.
std::unique_ptr<core::Communicator> take(gpucollComm_t comm) {
  auto communicator = std::move(comm->communicator);
  Handles::instance().give_back(comm);
  if (communicator) core::forget(*communicator);
  return communicator;
}

// How long destroying a communicator waits for the peers before it leaves the rest to later.
constexpr int64_t kDestroyPatienceMs = 20;

}  // namespace

extern "C" {

gpucollResult_t gpucollGetUniqueId(gpucollUniqueId* id) {
  return to_c(guarded("gpucollGetUniqueId", [&]() -> Status {
    if (!id) return Status::error(Code::invalid_argument, "id is NULL");
    GC_TRY_AS(proto::UniqueId unique, net::make_unique_id());
    static_assert(sizeof unique == sizeof *id);
    std::memcpy(id, &unique, sizeof unique);
    return {};
  }));
}

gpucollResult_t gpucollCommInitRank(gpucollComm_t* comm, int n_ranks, gpucollUniqueId id, int rank) {
  return to_c(guarded("gpucollCommInitRank", [&] { return core::fail_group(init_rank(comm, n_ranks, id, rank)); }));
}

gpucollResult_t gpucollCommDestroy(gpucollComm_t comm) {
  return to_c(guarded("gpucollCommDestroy", [&]() -> Status {
    if (!comm) return {};
    GC_TRY(check_destroyable(comm));
    auto communicator = take(comm);
    if (!communicator) return {};
    Status status = communicator->finish(nullptr);
    core::retire(std::move(communicator), kDestroyPatienceMs);
    return status;
  }));
}

gpucollResult_t gpucollCommAbort(gpucollComm_t comm) {
  return to_c(guarded("gpucollCommAbort", [&]() -> Status {
    if (!comm) return {};
    GC_TRY(check_destroyable(comm));
    if (comm->communicator)
      comm->communicator->raise_fault(Status::error(Code::aborted, "the communicator was aborted by its program"));
    auto communicator = take(comm);
    if (!communicator) return {};
    communicator->finish(nullptr).ignore();  // its failure is the abort itself
    core::retire(std::move(communicator), kDestroyPatienceMs);
    return {};
  }));
}

gpucollResult_t gpucollCommGetAsyncError(gpucollComm_t comm, gpucollResult_t* async_error) {
  return to_c(guarded("gpucollCommGetAsyncError", [&]() -> Status {
    if (!async_error) return Status::error(Code::invalid_argument, "async_error is NULL");
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    *async_error = communicator->fault().raised() ? to_c(communicator->fault().status().code()) : gpucollSuccess;
    return {};
  }));
}

gpucollResult_t gpucollCommCount(gpucollComm_t comm, int* count) {
  return to_c(guarded("gpucollCommCount", [&]() -> Status {
    if (!count) return Status::error(Code::invalid_argument, "count is NULL");
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    *count = communicator->size();
    return {};
  }));
}

gpucollResult_t gpucollCommUserRank(gpucollComm_t comm, int* rank) {
  return to_c(guarded("gpucollCommUserRank", [&]() -> Status {
    if (!rank) return Status::error(Code::invalid_argument, "rank is NULL");
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    *rank = communicator->rank();
    return {};
  }));
}

}  // extern "C"
