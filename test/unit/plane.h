// Something of the process that is under way or not, as the test says (core/progress/flights.h).
// Thread safety: the caller's. Ownership: none; the flights outlive it.
#pragma once
#include "core/progress/flights.h"

namespace gpucoll_test {

class Plane final : public gpucoll::core::Flying {
 public:
  explicit Plane(gpucoll::core::Flights& flights = gpucoll::core::Flights::instance()) : flights_(flights) {
    flights_.add(this);
  }
  ~Plane() override { flights_.remove(this); }
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;
  bool flies() const noexcept override { return in_the_air; }

  bool in_the_air = false;

 private:
  gpucoll::core::Flights& flights_;
};

}  // namespace gpucoll_test
