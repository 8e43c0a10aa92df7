// The command line of gpucoll-perf, and the list of measurements it stands for.
//
// Thread safety: pure functions.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "perf/collective.h"
#include "perf/memory.h"

namespace gpucoll::perf {

enum class BaselineChoice { none, nccl, host, staged, contiguous };
enum class OverlapChoice { none, host, kernel };

struct Options {
  Collective collective = Collective::allreduce;
  size_t min_bytes = 8, max_bytes = 64 << 20;
  double factor = 2;
  int iterations = 20, warmup = 5, repeat = 1;
  std::vector<Type> types;  // of these and the operations, what fits together is run
  std::vector<Op> ops;
  int root = 0;
  int window = 64;                                                       // of bandwidth and bibw
  MemoryKind begins = MemoryKind::device, answers = MemoryKind::device;  // the sides of a point-to-point test
  std::vector<std::shared_ptr<const TypeShape>> shapes = {nullptr};      // of its messages; null: contiguous
  bool check = true;
  bool in_place = false;
  bool api = false;          // through the C API instead of MPI
  bool nonblocking = false;  // MPI's nonblocking calls
  bool persistent = false;   // starts of MPI's persistent ones
  bool pipelined = false;    // many calls back to back on a stream
  bool registered = false;   // buffers are known to the communicator before
  bool latency = false;      // the table shows percentiles
  OverlapChoice overlap = OverlapChoice::none;
  int overlap_blocks = 16;  // of the kernel
  BaselineChoice baseline = BaselineChoice::none;
  std::string json, csv, compare;  // "" for none
  double tolerance = 10;           // percent
  std::string text;                // --help or --version: print this and end
};

// Errors: invalid_argument, one sentence.
Result<Options> parse_options(int argc, char** argv);

// The kinds of memory as --memory takes them.
std::string memory_text(const Options& options);

// Every measurement in the order of the table, for this rank. Sizes that round to the same count appear once.
// Errors: invalid_argument where the root is no rank, a count is beyond what MPI's int can say, or a rank has no
// partner.
Result<std::vector<Call>> plan(const Options& options, int rank, int ranks);

}  // namespace gpucoll::perf
