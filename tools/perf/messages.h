// The point-to-point tests, as OSU's benchmarks have them. The ranks i and i + ranks / 2 are a pair; the first of them
// begins, and all pairs exchange messages at once. An exchange is, of
//   latency    a message to the partner and one back;
//   bandwidth  a window of messages to the partner, which acknowledges the last one;
//   bibw       a window of messages each way.
//
// Thread safety: none; every function is for both ranks of a pair.
#pragma once
#include <mpi.h>

#include "base/status.h"
#include "perf/collective.h"

namespace gpucoll::perf {

// Carries messages of a test between this rank and its partner: MPI, NCCL. Each function returns when this rank's
// part is complete.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual Status send(const Call& call) = 0;
  virtual Status recv(const Call& call) = 0;
  // So many messages to the partner and from it, all of them under way at once.
  virtual Status window(const Call& call, int sends, int recvs) = 0;
};

int partner_of(const Call& call);
// Returns whether this rank is the one of its pair that begins, and takes the time.
bool begins(const Call& call);
// Messages of an exchange, both ways.
int messages_of(const Call& call);

Status exchange(const Call& call, Carrier& carrier, MPI_Comm comm);

}  // namespace gpucoll::perf
