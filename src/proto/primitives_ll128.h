// Primitives over LL128: nearly all of the bandwidth at nearly the latency of LL, where a link keeps lines whole.
//
// Everything is in line_primitives.h (operations, threads, faults) and ll128.h (lines).
#pragma once
#include "proto/line_primitives.h"
#include "proto/ll128.h"

namespace gpucoll::proto {

template <class Family, class Coop, class F>
class Primitives<Family, Coop, Ll128, F>
    : public LinePrimitives<Family, Coop, Ll128Lines<(sizeof(typename Family::Element) <= 8)>, F> {
 public:
  using LinePrimitives<Family, Coop, Ll128Lines<(sizeof(typename Family::Element) <= 8)>, F>::LinePrimitives;
};

}  // namespace gpucoll::proto
