// A call as MPI's function: blocking, started to be waited for, or made to be started again and again.
//
// Thread safety: as MPI allows. Ownership: counts and places of blocks belong to the MpiCall, which must live until a
// started call is complete, and a persistent one freed.
#pragma once
#include <mpi.h>

#include <vector>

#include "perf/collective.h"

namespace gpucoll::perf {

enum class Form { blocking, nonblocking, persistent };

class MpiCall {
 public:
  static bool has(Type type);           // whether MPI has the type
  static MPI_Datatype type(Type type);  // REQUIRES: has(type)
  explicit MpiCall(const Call& call);
  const Call& call() const { return call_; }
  // Buffers of any kind; MPI's answer.
  int run(void* send, void* recv, MPI_Comm comm) const;
  int start(void* send, void* recv, MPI_Comm comm, MPI_Request* request) const;
  int make(void* send, void* recv, MPI_Comm comm, MPI_Request* request) const;

 private:
  struct Buffers {
    void *send, *recv;
  };
  Buffers in_place(void* send, void* recv) const;
  int run_uneven(Buffers buffers, MPI_Comm comm) const;
  int start_uneven(Buffers buffers, MPI_Comm comm, MPI_Request* request) const;
  int make_uneven(Buffers buffers, MPI_Comm comm, MPI_Request* request) const;

  Call call_;
  MPI_Datatype type_;
  MPI_Op op_;
  int n_, own_;                       // elements of a block; of this rank's own one
  std::vector<int> counts_, places_;  // where blocks differ
};

}  // namespace gpucoll::perf
