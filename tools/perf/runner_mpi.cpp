#include <fmt/format.h>

#include <vector>

#include "perf/runner.h"

namespace gpucoll::perf {
namespace {

Status blocking_call(const Call& call, void* send, void* recv, MPI_Comm comm, const char* where) {
  const int rc = run_mpi(call, send, recv, comm);
  if (rc == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(rc, text, &length);
  return Status(Code::remote, fmt::format("rank {}: MPI {} of {} bytes of {} on {} memory failed: {}", call.rank,
                                          name(call.collective), table_bytes(call), info(call.type).name, where, text));
}

class MpiRunner final : public Runner {
 public:
  MpiRunner(const Buffers& buffers, MPI_Comm comm) : buffers_(buffers), comm_(comm) {}
  const char* name() const override { return "MPI"; }
  std::string description() const override { return "MPI on device memory"; }
  // Point-to-point of MPI would touch device memory on the host.
  bool can(const Call& call) const override { return !is_pairwise(call.collective); }
  Status start(const Call& call) override {
    return blocking_call(call, buffers_.send.at(0), buffers_.recv.at(0), comm_, "device");
  }

 private:
  const Buffers& buffers_;
  MPI_Comm comm_;
};

class HostRunner final : public Runner {
 public:
  HostRunner(size_t send_bytes, size_t recv_bytes, MPI_Comm comm)
      : send_(send_bytes, 1), recv_(recv_bytes, 1), comm_(comm) {}
  const char* name() const override { return "host"; }
  std::string description() const override { return "the same MPI call on host memory"; }
  bool can(const Call&) const override { return true; }
  Status start(const Call& call) override { return blocking_call(call, send_.data(), recv_.data(), comm_, "host"); }

 private:
  // Filled with ones: every page is there, and all values are harmless.
  std::vector<char> send_, recv_;
  MPI_Comm comm_;
};

}  // namespace

std::unique_ptr<Runner> mpi_runner(const Buffers& buffers, MPI_Comm comm) {
  return std::make_unique<MpiRunner>(buffers, comm);
}

std::unique_ptr<Runner> host_runner(size_t send_bytes, size_t recv_bytes, MPI_Comm comm) {
  return std::make_unique<HostRunner>(send_bytes, recv_bytes, comm);
}

}  // namespace gpucoll::perf
