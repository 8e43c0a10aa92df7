#include <fmt/format.h>

#include <optional>
#include <vector>

#include "perf/mpi_call.h"
#include "perf/runner.h"

namespace gpucoll::perf {
namespace {

// What both have in common: where the buffers lie is all that differs.
class MpiCallRunner : public Runner {
 public:
  MpiCallRunner(const char* where, Form form, MPI_Comm comm) : where_(where), form_(form), comm_(comm) {}
  ~MpiCallRunner() override { forget(); }
  MpiCallRunner(const MpiCallRunner&) = delete;
  MpiCallRunner& operator=(const MpiCallRunner&) = delete;
  Status start(const Call& call) override {
    // Counts and places are made once for all calls alike, and persistent calls.
    if (!call_ || !(call_->call() == call)) {
      forget();
      call_.emplace(call);
      if (form_ == Form::persistent) GC_TRY(check(call_->make(send(), recv(), comm_, &request_)));
    }
    switch (form_) {
      case Form::blocking: return check(call_->run(send(), recv(), comm_));
      case Form::nonblocking: return check(call_->start(send(), recv(), comm_, &request_));
      default: return check(MPI_Start(&request_));
    }
  }
  Status finish() override {
    return form_ == Form::blocking ? Status() : check(MPI_Wait(&request_, MPI_STATUS_IGNORE));
  }

 protected:
  virtual void* send() = 0;
  virtual void* recv() = 0;

 private:
  void forget() {
    if (request_ != MPI_REQUEST_NULL) MPI_Request_free(&request_);
  }
  Status check(int rc) const {
    if (rc == MPI_SUCCESS) return {};
    const Call& call = call_->call();
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(rc, text, &length);
    return Status(Code::remote,
                  fmt::format("rank {}: MPI {} of {} bytes of {} on {} memory failed: {}", call.rank,
                              perf::name(call.collective), table_bytes(call), info(call.type).name, where_, text));
  }

  const char* where_;
  Form form_;
  MPI_Comm comm_;
  std::optional<MpiCall> call_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class MpiRunner final : public MpiCallRunner {
 public:
  MpiRunner(const Buffers& buffers, Form form, MPI_Comm comm)
      : MpiCallRunner("device", form, comm), buffers_(buffers) {}
  const char* name() const override { return "MPI"; }
  std::string description() const override { return "MPI on device memory"; }
  bool can(const Call& call) const override { return MpiCall::has(call.type); }

 private:
  void* send() override { return buffers_.send.at(0); }
  void* recv() override { return buffers_.recv.at(0); }

  const Buffers& buffers_;
};

class HostRunner final : public MpiCallRunner {
 public:
  HostRunner(size_t send_bytes, size_t recv_bytes, Form form, MPI_Comm comm)
      : MpiCallRunner("host", form, comm), send_(send_bytes, 1), recv_(recv_bytes, 1) {}
  const char* name() const override { return "host"; }
  std::string description() const override { return "the same MPI call on host memory"; }
  bool can(const Call& call) const override { return MpiCall::has(call.type); }

 private:
  void* send() override { return send_.data(); }
  void* recv() override { return recv_.data(); }

  // Filled with ones: every page is there, and all values are harmless.
  std::vector<char> send_, recv_;
};

}  // namespace

std::unique_ptr<Runner> mpi_runner(const Buffers& buffers, Form form, MPI_Comm comm) {
  return std::make_unique<MpiRunner>(buffers, form, comm);
}

std::unique_ptr<Runner> host_runner(size_t send_bytes, size_t recv_bytes, Form form, MPI_Comm comm) {
  return std::make_unique<HostRunner>(send_bytes, recv_bytes, form, comm);
}

}  // namespace gpucoll::perf
