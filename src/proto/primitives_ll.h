// Primitives over LL: lowest latency, a half of the bandwidth.
//
// Everything is in line_primitives.h (operations, threads, faults) and ll.h (lines).
#pragma once
#include "proto/line_primitives.h"
#include "proto/ll.h"

namespace gpucoll::proto {

template <class Family, class Coop, class F>
class Primitives<Family, Coop, Ll, F> : public LinePrimitives<Family, Coop, LlLines, F> {
 public:
  using LinePrimitives<Family, Coop, LlLines, F>::LinePrimitives;
};

}  // namespace gpucoll::proto
