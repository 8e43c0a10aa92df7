// The point-to-point tests over MPI: MPI_Send and MPI_Recv, and windows of MPI_Isend and MPI_Irecv.
#include <fmt/format.h>

#include <vector>

#include "perf/messages.h"
#include "perf/mpi_call.h"
#include "perf/runner.h"

namespace gpucoll::perf {
namespace {

class MpiMessages : public Runner, protected Carrier {
 public:
  MpiMessages(const char* where, MPI_Comm comm) : where_(where), comm_(comm) {}
  bool can(const Call& call) const override { return MpiCall::has(call.type); }
  Status start(const Call& call) override { return exchange(call, *this, comm_); }

 protected:
  virtual char* send_buffer() = 0;
  virtual char* recv_buffer() = 0;

 private:
  Status send(const Call& call) override {
    return check(call, MPI_Send(send_buffer(), count(call), MpiCall::type(call.type), partner_of(call), 0, comm_));
  }
  Status recv(const Call& call) override {
    return check(call, MPI_Recv(recv_buffer(), count(call), MpiCall::type(call.type), partner_of(call), 0, comm_,
                                MPI_STATUS_IGNORE));
  }
  Status window(const Call& call, int sends, int recvs) override;
  Status check(const Call& call, int rc) const;
  static int count(const Call& call) { return static_cast<int>(call.count); }

  const char* where_;
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
};

Status MpiMessages::window(const Call& call, int sends, int recvs) {
  const MPI_Datatype type = MpiCall::type(call.type);
  const size_t bytes = table_bytes(call), room = slots(call);
  const int partner = partner_of(call);
  const auto place = [&](char* buffer, int i) { return buffer + static_cast<size_t>(i) % room * bytes; };
  requests_.clear();
  for (int i = 0; i < recvs; ++i)
    GC_TRY(check(call, MPI_Irecv(place(recv_buffer(), i), count(call), type, partner, 0, comm_,
                                 &requests_.emplace_back(MPI_REQUEST_NULL))));
  for (int i = 0; i < sends; ++i)
    GC_TRY(check(call, MPI_Isend(place(send_buffer(), i), count(call), type, partner, 0, comm_,
                                 &requests_.emplace_back(MPI_REQUEST_NULL))));
  return check(call, MPI_Waitall(sends + recvs, requests_.data(), MPI_STATUSES_IGNORE));
}

Status MpiMessages::check(const Call& call, int rc) const {
  if (rc == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(rc, text, &length);
  return Status(Code::remote, fmt::format("rank {}: a message of {} bytes of {} memory with rank {} failed: {}",
                                          call.rank, table_bytes(call), where_, partner_of(call), text));
}

class DeviceMessages final : public MpiMessages {
 public:
  DeviceMessages(const Buffers& buffers, MPI_Comm comm) : MpiMessages("device", comm), buffers_(buffers) {}
  const char* name() const override { return "MPI"; }
  std::string description() const override { return "MPI messages of device memory"; }

 private:
  char* send_buffer() override { return static_cast<char*>(buffers_.send.at(0)); }
  char* recv_buffer() override { return static_cast<char*>(buffers_.recv.at(0)); }

  const Buffers& buffers_;
};

class HostMessages final : public MpiMessages {
 public:
  HostMessages(size_t send_bytes, size_t recv_bytes, MPI_Comm comm)
      : MpiMessages("host", comm), send_(send_bytes, 1), recv_(recv_bytes, 1) {}
  const char* name() const override { return "host"; }
  std::string description() const override { return "the same MPI messages of host memory"; }

 private:
  char* send_buffer() override { return send_.data(); }
  char* recv_buffer() override { return recv_.data(); }

  std::vector<char> send_, recv_;  // filled: every page is there
};

}  // namespace

std::unique_ptr<Runner> message_runner(const Buffers& buffers, MPI_Comm comm) {
  return std::make_unique<DeviceMessages>(buffers, comm);
}

std::unique_ptr<Runner> host_message_runner(size_t send_bytes, size_t recv_bytes, MPI_Comm comm) {
  return std::make_unique<HostMessages>(send_bytes, recv_bytes, comm);
}

}  // namespace gpucoll::perf
