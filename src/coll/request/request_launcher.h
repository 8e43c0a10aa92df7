// Runs calls on one runtime communicator, one after another or several in one launch, and waits for none of them.
//
// The life of a call: prepare() until it says more than `waiting`, launch() until it is launched; next_ended() gives it
// back. Making connections waits for other ranks, so a thread of its own does it, when nothing else runs: the failure
// of a running call could not be told from a failure to connect.
//
// Thread safety: one caller at a time. Ownership: borrows runtime and calls.
#pragma once
#include <deque>
#include <optional>
#include <span>

#include "coll/request/request.h"
#include "coll/runtime/background_task.h"

namespace gpucoll::coll {

class RequestLauncher {
 public:
  enum class Readiness { waiting, ready, impossible };
  struct Ended {
    Request* call;
    Status status;
  };

  explicit RequestLauncher(MpiRuntime& runtime) : runtime_(runtime) {}
  ~RequestLauncher() { stop(); }
  RequestLauncher(const RequestLauncher&) = delete;
  RequestLauncher& operator=(const RequestLauncher&) = delete;

  // Makes what is missing for a call; `impossible`: on all ranks alike. REQUIRES: fits(); until this is done, the
  // caller prepares no other call.
  Result<Readiness> prepare(Request& call);
  // Puts the first call on the stream, together with as many of those behind it as can go with it, and returns how
  // many. 0: not all of them are there yet; then call it again with the same ones. Equal on all ranks where `calls`
  // are, if no rank lacks links for their messages. REQUIRES: fits(); the first is ready.
  Result<size_t> launch(std::span<Request* const> calls);
  // Returns the first of the running calls, if it has ended: they end in the order in which they were launched.
  std::optional<Ended> next_ended();
  // Returns about how many launches run.
  uint64_t launches() const noexcept {
    return running_.empty() ? 0 : running_.back()->launches - running_.front()->launches + 1;
  }
  // Returns whether a running call is more than small (GC_LINE_SMALL).
  bool runs_large() const noexcept;
  // Returns whether no call runs.
  bool settled() const noexcept { return running_.empty(); }
  // Waits for the thread that still prepares a call that has failed meanwhile, before the call is used for something
  // else.
  void let_go(const Request& call);
  // Waits for the thread that prepares. Then the caller takes the running calls back, one by one.
  void stop();
  // Returns a running call; null: none is left.
  Request* take_running();

 private:
  Result<size_t> begin(std::span<Request* const> calls);
  Result<size_t> put_together(std::span<Request* const> calls);

  MpiRuntime& runtime_;
  std::deque<Request*> running_;
  size_t launching_ = 0;      // calls of the launch that is not complete yet
  core::TaskQueue together_;  // begin()'s
  BackgroundTask preparation_;
  const Request* prepared_ = nullptr;  // what preparation_ prepares
};

}  // namespace gpucoll::coll
