// The point-to-point tests over MPI: MPI_Send and MPI_Recv, and windows of MPI_Isend and MPI_Irecv.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "perf/messages.h"
#include "perf/mpi_call.h"
#include "perf/runner.h"

namespace gpucoll::perf {
namespace {

constexpr int kTag = 0;

class MpiMessages : public Runner, private Carrier {
 public:
  MpiMessages(const Buffers& buffers, MPI_Comm comm) : buffers_(buffers), comm_(comm) {}
  const char* name() const override { return "MPI"; }
  std::string description() const override { return "MPI messages"; }
  bool can(const Call& call) const override { return MpiCall::has(call.type); }
  Status start(const Call& call) override { return exchange(call, *this, comm_); }

 protected:
  // For messages that do not go from and to where their data are.
  virtual Status before_send(size_t /*offset*/, size_t /*bytes*/) { return {}; }
  virtual Status after_recv(size_t /*offset*/, size_t /*bytes*/) { return {}; }

 private:
  Status send(const Call& call) override;
  Status recv(const Call& call) override;
  Status window(const Call& call, int sends, int recvs) override;
  Status check(const Call& call, int rc) const;
  MPI_Request* next_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  const Buffers& buffers_;
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
};

int count_of(const Call& call) { return static_cast<int>(call.count); }
size_t place(const Call& call, int message) { return static_cast<size_t>(message) % slots(call) * table_bytes(call); }

Status MpiMessages::send(const Call& call) {
  GC_TRY(before_send(0, table_bytes(call)));
  return check(call,
               MPI_Send(buffers_.send.at(0), count_of(call), MpiCall::type(call.type), partner_of(call), kTag, comm_));
}

Status MpiMessages::recv(const Call& call) {
  GC_TRY(check(call, MPI_Recv(buffers_.recv.at(0), count_of(call), MpiCall::type(call.type), partner_of(call), kTag,
                              comm_, MPI_STATUS_IGNORE)));
  return after_recv(0, table_bytes(call));
}

Status MpiMessages::window(const Call& call, int sends, int recvs) {
  const MPI_Datatype type = MpiCall::type(call.type);
  const int count = count_of(call), partner = partner_of(call);
  requests_.clear();
  requests_.reserve(static_cast<size_t>(sends) + static_cast<size_t>(recvs));
  for (int i = 0; i < recvs; ++i)
    GC_TRY(check(call, MPI_Irecv(buffers_.recv.at(place(call, i)), count, type, partner, kTag, comm_, next_request())));
  for (int i = 0; i < sends; ++i) {
    GC_TRY(before_send(place(call, i), table_bytes(call)));
    GC_TRY(check(call, MPI_Isend(buffers_.send.at(place(call, i)), count, type, partner, kTag, comm_, next_request())));
  }
  GC_TRY(check(call, MPI_Waitall(sends + recvs, requests_.data(), MPI_STATUSES_IGNORE)));
  for (int i = 0; i < recvs; ++i) GC_TRY(after_recv(place(call, i), table_bytes(call)));
  return {};
}

Status MpiMessages::check(const Call& call, int rc) const {
  if (rc == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(rc, text, &length);
  return Status(Code::remote,
                fmt::format("rank {}: a message of {} bytes of {} memory with rank {} failed: {}", call.rank,
                            table_bytes(call), perf::name(buffers_.send.kind()), partner_of(call), text));
}

// Where `own` is, before the runner that refers to it.
struct OwnBuffers {
  Buffers own;
};

class HostMessages final : private OwnBuffers, public MpiMessages {
 public:
  HostMessages(Buffers buffers, MPI_Comm comm) : OwnBuffers{std::move(buffers)}, MpiMessages(own, comm) {}
  const char* name() const override { return "host"; }
  std::string description() const override { return "the same MPI messages of host memory"; }
};

// What programs do by hand: data of the device are copied to host memory, sent, received, and copied back. The side of
// a message that is no device memory is sent, or received, as it is.
class StagedMessages final : private OwnBuffers, public MpiMessages {
 public:
  StagedMessages(const Buffers& buffers, Buffers host, MPI_Comm comm)
      : OwnBuffers{std::move(host)}, MpiMessages(on_device(buffers) ? own : buffers, comm), buffers_(buffers) {}
  const char* name() const override { return "staged"; }
  std::string description() const override {
    return "MPI messages of page-locked host memory, copied there and back by the program";
  }

 private:
  static bool on_device(const Buffers& buffers) { return buffers.send.kind() == MemoryKind::device; }
  Status before_send(size_t offset, size_t bytes) override {
    return on_device(buffers_) ? buffers_.send.read(offset, own.send.at(offset), bytes) : Status();
  }
  Status after_recv(size_t offset, size_t bytes) override {
    return on_device(buffers_) ? buffers_.recv.write(offset, own.recv.at(offset), bytes) : Status();
  }

  const Buffers& buffers_;
};

}  // namespace

std::unique_ptr<Runner> message_runner(const Buffers& buffers, MPI_Comm comm) {
  return std::make_unique<MpiMessages>(buffers, comm);
}

std::unique_ptr<Runner> host_message_runner(Buffers host, MPI_Comm comm) {
  return std::make_unique<HostMessages>(std::move(host), comm);
}

std::unique_ptr<Runner> staged_message_runner(const Buffers& buffers, Buffers host, MPI_Comm comm) {
  return std::make_unique<StagedMessages>(buffers, std::move(host), comm);
}

}  // namespace gpucoll::perf
