// Lets the proxy thread move the steps of the links that need it (net::LinkEnd::needs_progress), while kernels may have
// steps under way.
//
// Thread safety: any thread; progress() by the proxy. Ownership: borrows the ends, which outlive it.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "core/connect/message_counts.h"
#include "core/progress/proxy.h"
#include "net/transport.h"

namespace gpucoll::core {

// Tells whether kernels of a communicator may have steps under way. Nobody knows when a graph runs.
enum class KernelActivity { none, in_graphs, launched };

class LinkProgress final : public ProxyWork {
 public:
  LinkProgress(std::function<KernelActivity()> activity, const MessageCounts* counts)
      : activity_(std::move(activity)), counts_(counts) {
    Proxy::instance().add(this);
  }
  ~LinkProgress() override { Proxy::instance().remove(this); }

  // messages: which messages go over the link; of collectives: none. REQUIRES: the end is established.
  void add(int peer, net::LinkEnd& end, std::optional<net::Side> messages);
  // Tells the proxy that kernels have been launched, or are about to use a new link.
  void wake();
  // Has the ends tell the other ones that nothing follows, once all steps of this rank's kernels are moved.
  void finish();
  // Returns how many bytes are left that would be lost if this process ended now; 0 only once the ends have been told.
  size_t unacknowledged() const;
  // Has the proxy look once more, also while no kernel runs, at the links of peers that are closing, unless these ends
  // have told it: what such a peer has sent is lost where its process ends before it is received; and from finish() on
  // at those that have more to send. By the watchdog, at each look.
  void expect_ends(const std::function<bool(int peer)>& is_closing);
  // A link that is broken: why, and whose it is.
  struct Failure {
    Status why;
    int peer = -1;
    bool certain = true;  // else the peer may have ended in order, and what it has sent may be here
  };
  // Returns a failure that counts, one that is certain before others; ok while all is well. A link of a peer that is
  // closing counts where launches are outstanding, or where the peer has told that it does not take or send what this
  // rank's program wants.
  Failure failure(const std::function<bool(int peer)>& is_closing, bool outstanding) const;

  Progress progress() noexcept override;
  void tidy() noexcept override {}

 private:
  struct Moved {
    int peer;
    net::LinkEnd* end;
    std::optional<net::Side> messages;
    Status failure = {};
    bool closing = false;   // the peer is
    bool told = false;      // the failure is what the other end has told
    bool rests = false;     // the last look found nothing left to move
    bool finished = false;  // the other end is told that nothing follows
  };
  net::StepProgress move(Moved& link) noexcept;
  net::StepProgress move_all() noexcept;
  Status compare_end(const Moved& link) const;
  bool expects_end(const Moved& link) const noexcept;
  bool is_unsent(const Moved& link) const noexcept;
  bool finish_rested() noexcept;
  bool goes_on_soon(net::StepProgress moved, bool closes) noexcept;

  const std::function<KernelActivity()> activity_;
  const MessageCounts* const counts_;  // null: nobody counts
  std::atomic<uint64_t> wakes_{1};
  std::atomic<bool> finishes_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Moved> links_;
  std::chrono::steady_clock::time_point moved_at_ = {};  // last, while this rank closes or expects ends of peers
  uint64_t rested_at_ = 0;  // by wakes_: then nothing was left of what kernels had stored, and none ran
};

}  // namespace gpucoll::core
