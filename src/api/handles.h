// The objects that the handles of the C API point to.
//
// Thread safety: any thread; a handle itself is its communicator's caller's, but for `alive` and `uses`. Ownership:
// handles that were destroyed are never given back to the allocator but used again, so that a stale one can be told
// from a live one.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "api/kept_operations.h"
#include "api/registrations.h"
#include "base/mutant.h"
#include "base/status.h"
#include "core/comm/comm_share.h"
#include "gpucoll/gpucoll.h"
#include "task/reduction_op.h"

struct gpucollComm {
  static constexpr uint64_t kAlive = 0x6c6c6f6375706731ull;
  // To end a communicator, a thread clears `alive` and then waits for `uses` to end; a call announces its use and then
  // looks at `alive`. Sequentially consistent: one of the two sees the other.
  std::atomic<uint64_t> alive{kAlive};
  std::atomic<int> uses{0};
  std::atomic<bool> in_making{false};  // a group has it to make, and writes to it
  // Why calls are refused: bits of core::Progress, and kRevoked. Calls look here before they look at `share`, to which
  // the background may be writing.
  static constexpr uint8_t kRevoked = 4;
  std::atomic<uint8_t> refuses{0};
  gpucoll::core::CommShare share;  // none until the group that makes it ends
  // Ends the making of the communicator, and all that goes on for one that does not block. Null where it needed no
  // group.
  std::shared_ptr<gpucoll::core::Progress> progress;
  bool made_aside = false;  // in the background, or for a program whose calls do not wait
  gpucoll::coll::ReductionOps red_ops;
  gpucoll::coll::Registrations registrations;
  gpucoll::coll::KeptOperations kept;
  std::atomic<bool> owned{false};  // by an MPI communicator (abi/meeting.h): the program does not destroy it
  size_t barriers = 0;             // so far: those of one group use different scratch memory

  bool revoked() const { return refuses.load() & kRevoked; }
  bool busy() const { return refuses.load() & gpucoll::core::Progress::kBusy; }
};

namespace gpucoll::coll {

inline gpucollResult_t to_c(Code code) {
  if (code == Code::truncated) return gpucollInvalidUsage;
  return static_cast<gpucollResult_t>(static_cast<int>(code));
}

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
    handle->refuses = 0;
    handle->owned = false;
    handle->made_aside = false;
    handle->alive = gpucollComm::kAlive;
    return handle;
  }
  void give_back(gpucollComm_t handle) {
    std::lock_guard lock(mutex_);
    handle->alive = 0;
    if (handle->progress) std::exchange(handle->progress, nullptr)->detach();
    handle->red_ops.clear();
    if (!gc_mutant(397)) handle->kept.forget();
    free_.push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::vector<gpucollComm_t> free_;
};

// A call's use of a communicator, which no other thread takes away meanwhile.
class Use {
 public:
  // False where the communicator was destroyed.
  explicit Use(gpucollComm_t comm) noexcept {
    if (comm->alive.load() != gpucollComm::kAlive) return;
    comm->uses.fetch_add(1);
    comm_ = comm;
    if (comm->alive.load() != gpucollComm::kAlive) end();
  }
  Use(Use&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  ~Use() { end(); }

  explicit operator bool() const { return comm_ != nullptr; }
  // Null until the group that makes it ends.
  core::Communicator* communicator() const { return comm_->share.communicator(); }
  core::Communicator* operator->() const { return communicator(); }
  core::Communicator& operator*() const { return *communicator(); }

 private:
  void end() noexcept {
    if (comm_) comm_->uses.fetch_sub(1);
    comm_ = nullptr;
  }
  gpucollComm_t comm_ = nullptr;
};

// A group's hold on a handle that it is to make: until the job has run, or the group has dropped it.
class Making {
 public:
  explicit Making(gpucollComm_t comm) noexcept : comm_(comm) { comm_->in_making.store(true); }
  ~Making() { comm_->in_making.store(false); }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

 private:
  const gpucollComm_t comm_;
};

inline Status revoked_error() {
  return Status::error(Code::invalid_usage,
                       "the communicator was revoked: it can only be shrunk, destroyed or aborted");
}

// Returns why calls are refused on a communicator that is none yet, or not now.
Status refusal(gpucollComm_t comm);
// Returns why the communicator could not be made in the background; ok where it could, and where it is none.
Status failure_of_making(gpucollComm_t comm);

// The communicator behind a handle that a program passes; `despite` are reasons to refuse a call that do not count.
// Errors: invalid_argument for what is none, invalid_usage where it is still to be made by the end of a group, or
// something goes on for it in the background.
inline Result<Use> checked(gpucollComm_t comm, uint8_t despite = gpucollComm::kRevoked) {
  if (comm) {
    if (Use use(comm); use) {
      // Acquire: partner is Progress::ends().
      if (!(comm->refuses.load(std::memory_order_acquire) & ~despite) && use.communicator())
        return Result<Use>(std::move(use));
      return refusal(comm);
    }
  }
  return Status::error(Code::invalid_argument, "the communicator is NULL, was destroyed, or is no communicator");
}

// Returns what checked() returns. Errors: invalid_usage, too, where the program has revoked the communicator, whatever
// had happened before.
inline Result<Use> usable(gpucollComm_t comm) { return checked(comm, 0); }

// Returns the error of an argument that must not be NULL.
inline Status null_argument(const char* name) { return Status::error(Code::invalid_argument, "%s is NULL", name); }

}  // namespace gpucoll::coll
