#include <vector>

#include "perf/baseline.h"

namespace gpucoll::perf {
namespace {

class HostBaseline final : public Baseline {
 public:
  HostBaseline(size_t send_bytes, size_t recv_bytes, MPI_Comm comm)
      : send_(send_bytes, 1), recv_(recv_bytes, 1), comm_(comm) {}

  const char* name() const override { return "host"; }
  std::string description() const override { return "the same MPI call on host memory"; }
  bool can(const Call&) const override { return true; }
  Status run(const Call& call) override {
    int rc = run_mpi(call, send_.data(), recv_.data(), comm_);
    if (rc == MPI_SUCCESS) return {};
    return Status::error(Code::remote, "MPI %s on host memory failed with MPI error %d", perf::name(call.collective),
                         rc);
  }

 private:
  // Filled with ones: every page is there, and all values are harmless.
  std::vector<char> send_, recv_;
  MPI_Comm comm_;
};

}  // namespace

Result<std::unique_ptr<Baseline>> host_baseline(size_t send_bytes, size_t recv_bytes, MPI_Comm comm) {
  return std::unique_ptr<Baseline>(std::make_unique<HostBaseline>(send_bytes, recv_bytes, comm));
}

}  // namespace gpucoll::perf
