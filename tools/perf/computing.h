// Work of a chosen length, to be done while a call is under way.
//
// The amount of work is fixed by a calibration, not by the clock: who takes the processor away from it is seen.
// Thread safety: none.
#pragma once
#include <memory>

#include "base/status.h"

namespace gpucoll::perf {

class Computation {
 public:
  virtual ~Computation() = default;
  virtual const char* description() const = 0;
  // Starts work that takes about so long where nothing else runs; it is done after finish().
  virtual Status start(double length_us) = 0;
  virtual Status finish() = 0;
};

// Arithmetic on the calling thread: start() does all of it.
std::unique_ptr<Computation> host_computation();
// A kernel of `blocks` blocks on a stream of its own, on this GPU. Errors: unsupported where the CUDA driver is
// missing.
Result<std::unique_ptr<Computation>> kernel_computation(int gpu, int blocks);

}  // namespace gpucoll::perf
