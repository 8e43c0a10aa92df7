// The C API: communicators, groups, collectives. Each body is one call of guarded().
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "base/params.h"
#include "base/status.h"
#include "coll/all_reduce.h"
#include "core/communicator.h"
#include "core/group.h"
#include "core/retired.h"
#include "gpucoll/gpucoll.h"
#include "net/socket_bootstrap.h"

using namespace gpucoll;

// What a handle points to. The number tells a live handle from garbage and from one destroyed before; for the latter,
// handles are never given back to the allocator but used again (Handles).
struct gpucollComm {
  static constexpr uint64_t kAlive = 0x6c6c6f6375706731ull;
  uint64_t alive = kAlive;
  std::unique_ptr<core::Communicator> communicator;  // null until the group that makes it ends
};

namespace {

gpucollResult_t to_c(Code code) { return static_cast<gpucollResult_t>(static_cast<int>(code)); }

// Handles that were destroyed, for the next communicators. Thread safety: any thread.
class Handles {
 public:
  static Handles& instance() {
    static Handles* handles = new Handles;
    return *handles;
  }
  gpucollComm_t take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return new gpucollComm;
    gpucollComm_t handle = free_.back();
    free_.pop_back();
    handle->alive = gpucollComm::kAlive;
    return handle;
  }
  void give_back(gpucollComm_t handle) {
    std::lock_guard lock(mutex_);
    handle->alive = 0;
    free_.push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::vector<gpucollComm_t> free_;
};

Result<core::Communicator*> checked(gpucollComm_t comm) {
  if (!comm || comm->alive != gpucollComm::kAlive)
    return Status::error(Code::invalid_argument, "the communicator is NULL, was destroyed, or is no communicator");
  if (!comm->communicator)
    return Status::error(Code::invalid_usage, "the communicator is not ready before gpucollGroupEnd");
  return comm->communicator.get();
}

Status make_communicator(gpucollComm* handle, gpu::Device* device, const proto::UniqueId& id, int n, int rank) {
  GC_TRY_AS(auto bootstrap, net::SocketBootstrap::create(id, rank, n, params().timeout));
  GC_TRY_AS(handle->communicator, core::Communicator::create(*device, std::move(bootstrap)));
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

gpucollResult_t gpucollGetVersion(int* version) {
  return to_c(guarded("gpucollGetVersion", [&]() -> Status {
    if (!version) return Status::error(Code::invalid_argument, "version is NULL");
    *version = GPUCOLL_VERSION_CODE;
    return {};
  }));
}

const char* gpucollGetErrorString(gpucollResult_t result) { return describe(static_cast<Code>(result)); }

const char* gpucollGetLastError(gpucollComm_t comm) {
  thread_local char text[1024];
  auto communicator = checked(comm);
  if (!communicator || !(*communicator)->fault().raised()) return last_error();
  try {
    std::snprintf(text, sizeof text, "%s", (*communicator)->fault().status().what());
  } catch (...) {
    return last_error();
  }
  return text;
}

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

gpucollResult_t gpucollGroupStart(void) {
  return to_c(guarded("gpucollGroupStart", []() -> Status {
    core::group_start();
    return {};
  }));
}

gpucollResult_t gpucollGroupEnd(void) {
  return to_c(guarded("gpucollGroupEnd", [] { return core::group_end(); }));
}

gpucollResult_t gpucollAllReduce(const void* sendbuff, void* recvbuff, size_t count, gpucollDataType_t datatype,
                                 gpucollRedOp_t op, gpucollComm_t comm, gpucollStream_t stream) {
  auto body = [&]() -> Status {
    GC_TRY_AS(core::Communicator * communicator, checked(comm));
    GC_TRY_AS(core::Task task,
              coll::make_task(communicator->device(), {sendbuff, recvbuff, count, datatype, op, stream}));
    return core::enqueue(*communicator, task);
  };
  return to_c(guarded("gpucollAllReduce", [&] { return core::fail_group(body()); }));
}

size_t gpucollTypeSize(gpucollDataType_t datatype) { return coll::type_size(datatype); }

}  // extern "C"
