// Lets the proxy thread move the steps of the links that need it (net::LinkEnd::needs_progress), while kernels may have
// steps under way.
//
// Thread safety: any thread; progress() by the proxy. Ownership: borrows the ends, which outlive it.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "core/progress/proxy.h"
#include "net/transport.h"

namespace gpucoll::core {

// Tells whether kernels of a communicator may have steps under way. Nobody knows when a graph runs.
enum class KernelActivity { none, in_graphs, launched };

class LinkProgress final : public ProxyWork {
 public:
  explicit LinkProgress(std::function<KernelActivity()> activity) : activity_(std::move(activity)) {
    Proxy::instance().add(this);
  }
  ~LinkProgress() override { Proxy::instance().remove(this); }

  // REQUIRES: the end is established.
  void add(int peer, net::LinkEnd& end);
  // Tells the proxy that kernels have been launched, or are about to use a new link.
  void wake();
  // Returns why a link that counts is broken, and whose it is; ok while all are well.
  Status failure(const std::function<bool(int peer)>& counts, int* peer) const;

  Progress progress() noexcept override;
  void tidy() noexcept override {}

 private:
  struct Moved {
    int peer;
    net::LinkEnd* end;
    Status failure;
  };
  net::StepProgress move(Moved& link) noexcept;
  net::StepProgress move_all() noexcept;

  const std::function<KernelActivity()> activity_;
  std::atomic<uint64_t> wakes_{1};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Moved> links_;
  uint64_t rested_at_ = 0;  // by wakes_: then nothing was left of what kernels had stored, and none ran
};

}  // namespace gpucoll::core
