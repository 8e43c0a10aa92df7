// Something of the process that is under way or not, as the test says (core/progress/quiescence.h).
// Thread safety: the caller's. Ownership: none; the Quiescence outlives it.
#pragma once
#include <atomic>

#include "core/progress/quiescence.h"

namespace gpucoll_test {

class FakeInFlight final : public gpucoll::core::InFlight {
 public:
  explicit FakeInFlight(gpucoll::core::Quiescence& quiescence = gpucoll::core::Quiescence::instance())
      : quiescence_(quiescence) {
    quiescence_.add(this);
  }
  ~FakeInFlight() override { quiescence_.remove(this); }
  FakeInFlight(const FakeInFlight&) = delete;
  FakeInFlight& operator=(const FakeInFlight&) = delete;
  bool in_flight() const noexcept override { return busy; }
  bool may_begin() const noexcept override { return graph; }

  std::atomic<bool> busy{false}, graph{false};

 private:
  gpucoll::core::Quiescence& quiescence_;
};

}  // namespace gpucoll_test
