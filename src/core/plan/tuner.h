// Which algorithm, protocol, how many channels and threads: time = bytes / bandwidth + latency, for every function,
// algorithm and protocol. Pure functions of facts that are equal on all ranks.
//
// Sources of the numbers: tables for a kind of device (tuner.cpp, measured, docs/measurements), corrected by a tuning
// file (core/plan/tuning_file.h, parameter tuning_file), overridden by the parameters algorithm, protocol, channels,
// threads.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "core/plan/copy_engine_limits.h"
#include "proto/format/plan.h"

namespace gpucoll::core {

using proto::Algorithm;
using proto::Function;
using proto::Protocol;

struct TuningTable;  // tuning_file.h

// The facts about a communicator that decide.
struct CommProperties {
  static constexpr int kNoLimit = std::numeric_limits<int>::max();
  int n_ranks = 1;
  int n_channels = 1;                     // of collectives, at most
  int n_pair_channels = 1;                // of send and receive: a power of two
  int most_blocks = proto::kMaxChannels;  // of any kernel that waits for other ranks
  int max_blocks = kNoLimit;              // of any kernel: the program's limit
  int threads = 1;                        // of a block, at most
  int warp = 1;                           // threads that work in step: 32 on GPUs, 1 on the emulated device
  bool emulated = false;                  // which table
  bool mesh = false;                      // whether every rank can store into every other's memory
  bool line_mesh = false;                 // the same in lines of LL128
  bool ll128 = false;                     // whether every link keeps stores of 128 bytes whole
  bool network = false;                   // whether some link is one between nodes: these carry Simple alone
  bool capturing = false;                 // the operations become part of a graph
  uint64_t one_shot_bytes = 0;            // the parameter
  uint64_t all_pairs_bytes = 0;           // the parameter
  uint64_t exchange_bytes = 0;            // allreduces of at most so many bytes may be exchanged; 0: none
  uint64_t zero_copy_bytes = 0;           // reductions of so many bytes work on all ranks' buffers; 0: none does
  CopyEngineLimits copies;                // what goes by copy engines
  const TuningTable* table = nullptr;     // a tuning file's; null: none
  int64_t algorithm = 0, protocol = 0;    // the parameters; here only so that what is kept for others is not the same
  bool operator==(const CommProperties&) const = default;
};

struct Choice {
  Algorithm algorithm;
  Protocol protocol;
  int channels;
  int threads;
  uint32_t chunk_bytes;  // of proto::CollectiveItem; 0: as the protocol allows
  double us;             // predicted time
  bool zero_copy;        // first tried on the buffers of all ranks (kernels/zero_copy.h): us is the time without
};

// Collectives of blocks between pairs of ranks: in a mesh, or as messages (collective_send_recv.h).
constexpr bool is_exchange(Function function) {
  return function == Function::all_to_all || function == Function::gather || function == Function::scatter;
}

// Returns whether there is such a kernel, as the switch of kernels/run_plan.h has it.
constexpr bool supported(Function function, Algorithm algorithm, Protocol protocol) {
  switch (algorithm) {
    case Algorithm::ring: return function != Function::send_recv && !is_exchange(function);
    case Algorithm::tree: return function == Function::all_reduce;
    case Algorithm::one_shot: return function != Function::send_recv && protocol == Protocol::ll;
    case Algorithm::pairwise: return function == Function::send_recv && protocol != Protocol::ll128;
    case Algorithm::all_pairs:
      return protocol == Protocol::ll128 && function != Function::send_recv && function != Function::scan &&
             function != Function::exscan;
  }
  return false;
}

// Why it cannot run the operation, as the end of a sentence; null where it can. Leaves out what parameters force.
const char* obstacle(Function function, Algorithm algorithm, Protocol protocol, uint64_t bytes,
                     const CommProperties& shape, bool has_one_shot);

// All that can run it, the fastest first; never empty, but for an exchange that must be messages. bytes: count x
// element size of the task (so of one rank's part in all_gather and reduce_scatter). Parameters that force a choice
// leave only those that obey; where none does, the parameter is ignored. has_one_shot: the reduction has a one-shot
// kernel.
std::vector<Choice> candidates(Function function, uint64_t bytes, const CommProperties& shape, bool has_one_shot);
// The first of them, without making the list: on the hot path.
Choice choose(Function function, uint64_t bytes, const CommProperties& shape, bool has_one_shot);

// How a message between two ranks travels: in how many parts (a power of two, at most n_pair_channels), over LL or
// Simple. Of `bytes` alone (and parameters), so that sender and receiver agree.
struct PairChoice {
  int parts;
  Protocol protocol;
  int threads;  // of a block
};
PairChoice choose_pair(uint64_t bytes, const CommProperties& shape);

const char* name(Function function);
const char* name(Algorithm algorithm);
const char* name(Protocol protocol);

}  // namespace gpucoll::core
