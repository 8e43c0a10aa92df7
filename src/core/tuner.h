// Which algorithm, how many channels and threads: pure functions of facts that are equal on all ranks.
#pragma once
#include <cstdint>

namespace gpucoll::core {

enum class Algorithm {
  ring,      // coll/device/ring_all_reduce.h
  one_shot,  // coll/device/one_shot_all_reduce.h: for communicators with a mesh
};

// What of a communicator decides.
struct CommShape {
  int n_ranks;
  int n_channels;           // of the ring
  int threads;              // of a block, at most
  bool mesh;                // whether every rank can store into every other's memory
  uint64_t one_shot_bytes;  // the parameter
};

struct Choice {
  Algorithm algorithm;
  int channels;
  int threads;
};

// For an allreduce of `bytes`.
Choice choose(uint64_t bytes, const CommShape& shape);

}  // namespace gpucoll::core
