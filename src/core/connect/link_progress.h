// Lets the proxy thread move the steps of the links that need it (net::LinkEnd::needs_progress), while kernels may have
// steps under way.
//
// Thread safety: any thread; progress() by the proxy. Ownership: borrows the ends, which outlive it.
#pragma once
#include <functional>
#include <mutex>
#include <vector>

#include "core/progress/proxy.h"
#include "net/transport.h"

namespace gpucoll::core {

// Whether kernels of a communicator may have steps under way: nobody knows when a graph runs.
enum class KernelActivity { none, in_graphs, launched };

class LinkProgress final : public ProxyWork {
 public:
  explicit LinkProgress(std::function<KernelActivity()> activity) : activity_(std::move(activity)) {
    Proxy::instance().add(this);
  }
  ~LinkProgress() override { Proxy::instance().remove(this); }

  // REQUIRES: the end is established.
  void add(int peer, net::LinkEnd& end);
  void wake() const { Proxy::instance().wake(); }
  // Returns why the first link that broke did, and whose it was; ok while all are well.
  Status failure(int* peer) const;

  Progress progress() noexcept override;
  void tidy() noexcept override {}

 private:
  struct Moved {
    int peer;
    net::LinkEnd* end;
    bool broken;
  };
  net::StepProgress move(Moved& link) noexcept;
  net::StepProgress move_all() noexcept;

  const std::function<KernelActivity()> activity_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Moved> links_;
  Status failure_;
  int broken_peer_ = -1;
  bool rests_ = false;  // nothing is left of what kernels have stored, and none run
};

}  // namespace gpucoll::core
