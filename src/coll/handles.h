// What the handles of the C API point to.
//
// Thread safety: any thread; a handle itself is its communicator's caller's. Ownership: handles that were destroyed are
// never given back to the allocator but used again, so that a stale one can be told from a live one.
#pragma once
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "coll/red_op.h"
#include "coll/registrations.h"
#include "core/tenant.h"
#include "gpucoll/gpucoll.h"

struct gpucollComm {
  static constexpr uint64_t kAlive = 0x6c6c6f6375706731ull;
  uint64_t alive = kAlive;
  gpucoll::core::Tenant tenant;  // none until the group that makes it ends
  gpucoll::coll::RedOps red_ops;
  gpucoll::coll::Registrations registrations;
  size_t barriers = 0;  // so far: those of one group use different scratch memory
};

namespace gpucoll::coll {

inline gpucollResult_t to_c(Code code) { return static_cast<gpucollResult_t>(static_cast<int>(code)); }

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
    handle->red_ops.clear();
    free_.push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::vector<gpucollComm_t> free_;
};

// The communicator behind a handle that a program passes. Errors: invalid_argument for what is none, invalid_usage
// where it is still to be made by the end of a group.
inline Result<core::Communicator*> checked(gpucollComm_t comm) {
  if (!comm || comm->alive != gpucollComm::kAlive)
    return Status::error(Code::invalid_argument, "the communicator is NULL, was destroyed, or is no communicator");
  if (!comm->tenant.communicator())
    return Status::error(Code::invalid_usage, "the communicator is not ready before gpucollGroupEnd");
  return comm->tenant.communicator();
}

}  // namespace gpucoll::coll
