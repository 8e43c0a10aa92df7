// Runs calls on one runtime communicator, one after another or several in one launch, and waits for none of them.
//
// A call: prepare() until it says more than `waiting`, launch() until it is launched; next_ended() gives it back.
// Making connections waits for other ranks, so it is done on a thread of its own, when nothing else runs: what runs
// before could not be told from a failure to connect.
//
// Thread safety: one caller at a time. Ownership: borrows runtime and calls.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <thread>

#include "coll/pending_call.h"

namespace gpucoll::coll {

class CallRunner {
 public:
  enum class Readiness { waiting, ready, impossible };
  struct Ended {
    PendingCall* call;
    Status status;
  };

  explicit CallRunner(MpiRuntime& runtime) : runtime_(runtime) {}
  ~CallRunner() { stop(); }
  CallRunner(const CallRunner&) = delete;
  CallRunner& operator=(const CallRunner&) = delete;

  // Makes what is missing for it; `impossible`: on all ranks alike. REQUIRES: fits(), and until this is done, none but
  // this call.
  Result<Readiness> prepare(PendingCall& call);
  // Puts the first one on the stream, together with as many of those behind it as can go with it; how many: 0 while
  // not all of them are there yet, and then again with the same ones. Equal on all ranks where `calls` are, if no rank
  // lacks links for their messages. REQUIRES: fits(); the first is ready.
  Result<size_t> launch(std::span<PendingCall* const> calls);
  // The first of those that run, if it has ended: they end in the order in which they were launched.
  std::optional<Ended> next_ended();
  // About how many launches run.
  uint64_t launches() const noexcept {
    return running_.empty() ? 0 : running_.back()->launches - running_.front()->launches + 1;
  }
  // Returns whether a running call is more than small (GC_LINE_SMALL).
  bool runs_large() const noexcept;
  // Returns whether no call runs.
  bool settled() const noexcept { return running_.empty(); }
  // Waits for what still prepares a call that has failed meanwhile: before that is used for something else.
  void let_go(const PendingCall& call);
  // Waits for what prepares. Then what runs is the caller's again, one by one.
  void stop();
  // Null: none is left.
  PendingCall* take_running();

 private:
  struct Preparation {
    const PendingCall* of;
    std::thread thread;
    std::atomic<bool> ended{false};
    Result<bool> result = false;
  };

  Result<size_t> begin(std::span<PendingCall* const> calls);
  Result<size_t> put_together(std::span<PendingCall* const> calls);

  MpiRuntime& runtime_;
  std::deque<PendingCall*> running_;
  size_t launching_ = 0;      // calls that are not all there yet
  core::TaskQueue together_;  // begin()'s
  std::optional<Preparation> preparation_;
  std::chrono::steady_clock::time_point fault_seen_ = {};
};

}  // namespace gpucoll::coll
