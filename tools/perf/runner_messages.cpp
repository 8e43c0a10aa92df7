// The point-to-point tests over MPI: MPI_Send and MPI_Recv, and windows of MPI_Isend and MPI_Irecv.
#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "perf/derived_type.h"
#include "perf/messages.h"
#include "perf/mpi_call.h"
#include "perf/runner.h"

namespace gpucoll::perf {
namespace {

constexpr int kTag = 0;

class MpiMessages : public Runner, private Carrier {
 public:
  // Shapes::contiguous: as many elements without gaps, whatever the shape of the call.
  enum class Shapes { as_called, contiguous };
  MpiMessages(const Buffers& buffers, MPI_Comm comm, Shapes shapes = Shapes::as_called)
      : buffers_(buffers), comm_(comm), shapes_(shapes) {}
  const char* name() const override { return "MPI"; }
  std::string description() const override { return "MPI messages"; }
  bool can(const Call& call) const override { return MpiCall::has(call.type); }
  Status start(const Call& call) override {
    if (!(call_ == call)) choose_type(call);
    return exchange(call, *this, comm_);
  }

 protected:
  // For messages that do not go from and to where their data are.
  virtual Status before_send(size_t /*offset*/, size_t /*bytes*/) { return {}; }
  virtual Status after_recv(size_t /*offset*/, size_t /*bytes*/) { return {}; }

 private:
  void choose_type(const Call& call);
  Status send(const Call& call) override;
  Status recv(const Call& call) override;
  Status window(const Call& call, int sends, int recvs) override;
  Status check(const Call& call, int rc) const;
  MPI_Request* next_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  const Buffers& buffers_;
  MPI_Comm comm_;
  Shapes shapes_;
  // The last call's: a message is `count_` elements of `type_`, which may be derived_'s.
  std::optional<Call> call_;
  std::optional<DerivedType> derived_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  int count_ = 0;
  std::vector<MPI_Request> requests_;
};

void MpiMessages::choose_type(const Call& call) {
  call_ = call;
  derived_.reset();
  type_ = MpiCall::type(call.type);
  count_ = static_cast<int>(call.count);
  if (!call.shape || shapes_ == Shapes::contiguous) return;
  derived_.emplace(*call.shape, type_);
  type_ = derived_->get();
  count_ = 1;
}

Status MpiMessages::send(const Call& call) {
  GC_TRY(before_send(0, table_bytes(call)));
  return check(call, MPI_Send(buffers_.send.at(0), count_, type_, partner_of(call), kTag, comm_));
}

Status MpiMessages::recv(const Call& call) {
  GC_TRY(check(call, MPI_Recv(buffers_.recv.at(0), count_, type_, partner_of(call), kTag, comm_, MPI_STATUS_IGNORE)));
  return after_recv(0, table_bytes(call));
}

Status MpiMessages::window(const Call& call, int sends, int recvs) {
  const int partner = partner_of(call);
  requests_.clear();
  requests_.reserve(static_cast<size_t>(sends) + static_cast<size_t>(recvs));
  for (int i = 0; i < recvs; ++i)
    GC_TRY(check(call, MPI_Irecv(buffers_.recv.at(message_offset(call, i)), count_, type_, partner, kTag, comm_,
                                 next_request())));
  for (int i = 0; i < sends; ++i) {
    GC_TRY(before_send(message_offset(call, i), table_bytes(call)));
    GC_TRY(check(call, MPI_Isend(buffers_.send.at(message_offset(call, i)), count_, type_, partner, kTag, comm_,
                                 next_request())));
  }
  GC_TRY(check(call, MPI_Waitall(sends + recvs, requests_.data(), MPI_STATUSES_IGNORE)));
  for (int i = 0; i < recvs; ++i) GC_TRY(after_recv(message_offset(call, i), table_bytes(call)));
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

class ContiguousMessages final : public MpiMessages {
 public:
  ContiguousMessages(const Buffers& buffers, MPI_Comm comm) : MpiMessages(buffers, comm, Shapes::contiguous) {}
  const char* name() const override { return "contiguous"; }
  std::string description() const override { return "contiguous messages of as many bytes"; }
};

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

// Does by hand what programs do: data of the device are copied to host memory, sent, received, and copied back. The
// side of a message that is no device memory is sent, or received, as it is.
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

std::unique_ptr<Runner> contiguous_message_runner(const Buffers& buffers, MPI_Comm comm) {
  return std::make_unique<ContiguousMessages>(buffers, comm);
}

std::unique_ptr<Runner> host_message_runner(Buffers host, MPI_Comm comm) {
  return std::make_unique<HostMessages>(std::move(host), comm);
}

std::unique_ptr<Runner> staged_message_runner(const Buffers& buffers, Buffers host, MPI_Comm comm) {
  return std::make_unique<StagedMessages>(buffers, std::move(host), comm);
}

}  // namespace gpucoll::perf
