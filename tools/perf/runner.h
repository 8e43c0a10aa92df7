// What can run a call: MPI, gpucoll's C API, NCCL. One is measured, another may be its baseline in the same run.
//
// Thread safety: none. Creation is collective: every rank gets the runner or every rank an error. Buffers outlive it.
#pragma once
#include <mpi.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "perf/collective.h"
#include "perf/memory.h"
#include "perf/mpi_call.h"

namespace gpucoll::perf {

class Runner {
 public:
  virtual ~Runner() = default;
  virtual const char* name() const = 0;  // heads its columns
  virtual std::string description() const = 0;
  virtual bool can(const Call& call) const = 0;  // the same answer on every rank
  // Starts the call; the result is there after finish(). Calls may be started one after another without finish()
  // between them where streams() says so; the others do all of it in start().
  virtual Status start(const Call& call) = 0;
  virtual Status finish() { return {}; }
  virtual bool streams() const { return false; }
};

Status run_once(Runner& runner, const Call& call);

// MPI on the given buffers, by its blocking calls, or by nonblocking ones or starts, which finish() waits for.
std::unique_ptr<Runner> mpi_runner(const Buffers& buffers, Form form, MPI_Comm comm);
// The same MPI call on host memory of its own.
std::unique_ptr<Runner> host_runner(size_t send_bytes, size_t recv_bytes, Form form, MPI_Comm comm);
// MPI's messages, for point-to-point tests, of the given buffers.
std::unique_ptr<Runner> message_runner(const Buffers& buffers, MPI_Comm comm);
// Carries the same messages without gaps.
std::unique_ptr<Runner> contiguous_message_runner(const Buffers& buffers, MPI_Comm comm);
// Carry the same messages of `host` buffers; and of `host` ones that data of device buffers are copied from and to.
std::unique_ptr<Runner> host_message_runner(Buffers host, MPI_Comm comm);
std::unique_ptr<Runner> staged_message_runner(const Buffers& buffers, Buffers host, MPI_Comm comm);
// gpucoll's C API on the given buffers and a stream of its own. The calling thread's device must have been chosen.
Result<std::unique_ptr<Runner>> api_runner(const Buffers& buffers, bool registered, MPI_Comm comm);
// libnccl, loaded at run time, likewise. Errors: unsupported where libnccl is missing or too old.
Result<std::unique_ptr<Runner>> nccl_runner(const Buffers& buffers, MPI_Comm comm);

// What calls of the C API and of NCCL take as buffers.
const void* send_address(const Buffers& buffers, const Call& call);
void* recv_address(const Buffers& buffers, const Call& call);

}  // namespace gpucoll::perf
