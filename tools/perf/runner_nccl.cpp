// NCCL without its header: the few functions needed are found by name in libnccl.so.2.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gpucoll/gpucoll.h>

#include "perf/agree.h"
#include "perf/find_function.h"
#include "perf/messages.h"
#include "perf/runner.h"

namespace gpucoll::perf {
namespace {

// NCCL's stable ABI, version 2.
struct UniqueId {
  char internal[128];
};
using Comm = void*;
constexpr int kNcclBytes = 0;  // ncclInt8, for collectives that only move data
constexpr int kNone = -1;

struct Functions {
  const char* (*error_string)(int);
  int (*get_version)(int*);
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(Comm*, int, UniqueId, int);
  int (*destroy)(Comm);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, size_t, int, int, Comm, gpucollStream_t);
  int (*recv)(void*, size_t, int, int, Comm, gpucollStream_t);
  int (*all_reduce)(const void*, void*, size_t, int, int, Comm, gpucollStream_t);
  int (*broadcast)(const void*, void*, size_t, int, int, Comm, gpucollStream_t);
  int (*reduce)(const void*, void*, size_t, int, int, int, Comm, gpucollStream_t);
  int (*all_gather)(const void*, void*, size_t, int, Comm, gpucollStream_t);
  int (*reduce_scatter)(const void*, void*, size_t, int, int, Comm, gpucollStream_t);
};

Result<Functions> load_functions() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::error(
        Code::unsupported,
        "--baseline nccl needs libnccl.so.2 (%s); install NCCL or add its directory to LD_LIBRARY_PATH", dlerror());
  Functions f{};
  bool all = find_function(library, "ncclGetErrorString", &f.error_string) &&
             find_function(library, "ncclGetVersion", &f.get_version) &&
             find_function(library, "ncclGetUniqueId", &f.get_unique_id) &&
             find_function(library, "ncclCommInitRank", &f.init_rank) &&
             find_function(library, "ncclCommDestroy", &f.destroy) &&
             find_function(library, "ncclGroupStart", &f.group_start) &&
             find_function(library, "ncclGroupEnd", &f.group_end) && find_function(library, "ncclSend", &f.send) &&
             find_function(library, "ncclRecv", &f.recv) && find_function(library, "ncclAllReduce", &f.all_reduce) &&
             find_function(library, "ncclBroadcast", &f.broadcast) && find_function(library, "ncclReduce", &f.reduce) &&
             find_function(library, "ncclAllGather", &f.all_gather) &&
             find_function(library, "ncclReduceScatter", &f.reduce_scatter);
  if (!all) return Status::error(Code::unsupported, "libnccl.so.2 is older than NCCL 2.7; install a newer one");
  return f;
}

int nccl_type(Type type) {
  switch (type) {
    case Type::int8: return 0;
    case Type::uint8: return 1;
    case Type::int32: return 2;
    case Type::uint32: return 3;
    case Type::int64: return 4;
    case Type::uint64: return 5;
    case Type::float16: return 6;
    case Type::float32: return 7;
    case Type::float64: return 8;
    case Type::bfloat16: return 9;
    default: return kNone;
  }
}

int nccl_op(Op op) {
  switch (op) {
    case Op::sum: return 0;
    case Op::prod: return 1;
    case Op::max: return 2;
    case Op::min: return 3;
    default: return kNone;
  }
}

class NcclRunner final : public Runner, private Carrier {
 public:
  NcclRunner(const Functions& functions, const Buffers& buffers, MPI_Comm mpi)
      : nccl_(functions), buffers_(buffers), mpi_(mpi) {}
  ~NcclRunner() override {
    if (comm_) nccl_.destroy(comm_);
    if (stream_) gpucollStreamDestroy(stream_);
  }

  Status open(int rank, int ranks, const UniqueId& id) {
    GC_TRY(from_api(gpucollStreamCreate(&stream_), "gpucollStreamCreate"));
    return check(nccl_.init_rank(&comm_, ranks, id, rank), "ncclCommInitRank");
  }

  Status check(int result, const char* call) const {
    if (result == 0) return {};
    return Status::error(Code::device, "%s: %s", call, nccl_.error_string(result));
  }

  const char* name() const override { return "NCCL"; }

  std::string description() const override {
    int v = 0;
    nccl_.get_version(&v);
    return fmt::format("NCCL {}.{}.{} on the same buffers", v / 10000, v / 100 % 100, v % 100);
  }

  bool can(const Call& call) const override {
    const Collective kind = even(call.collective);
    if (call.in_place && (kind == Collective::alltoall || is_pairwise(kind))) return false;
    if (is_scan(kind) || kind == Collective::barrier || call.collective == Collective::reduce_scatterv) return false;
    return !reduces(call.collective) || (nccl_type(call.type) != kNone && nccl_op(call.op) != kNone);
  }

  bool streams() const override { return true; }
  Status start(const Call& call) override {
    return is_message_test(call.collective) ? exchange(call, *this, mpi_) : check(enqueue(call), "NCCL");
  }
  Status finish() override { return from_api(gpucollStreamSynchronize(stream_), "gpucollStreamSynchronize"); }

 private:
  int enqueue(const Call& call);
  int exchange_blocks(const Call& call);
  int send_block(const Call& call, int peer);
  int recv_block(const Call& call, int peer);
  int exchange_with(const Partners& partners, size_t bytes);
  int enqueue_window(const Call& call, int sends, int recvs);
  Status send(const Call& call) override { return window(call, 1, 0); }
  Status recv(const Call& call) override { return window(call, 0, 1); }
  // As MPI's messages do, returns when the data are there.
  Status window(const Call& call, int sends, int recvs) override {
    GC_TRY(check(enqueue_window(call, sends, recvs), "NCCL"));
    return finish();
  }

  Functions nccl_;
  const Buffers& buffers_;
  MPI_Comm mpi_;
  Comm comm_ = nullptr;
  gpucollStream_t stream_ = nullptr;
};

int NcclRunner::enqueue(const Call& call) {
  size_t element = info(call.type).bytes, bytes = call.count * element;
  int type = nccl_type(call.type), op = nccl_op(call.op);
  const void* send = send_address(buffers_, call);
  void* recv = recv_address(buffers_, call);
  switch (call.collective) {
    case Collective::allreduce: return nccl_.all_reduce(send, recv, call.count, type, op, comm_, stream_);
    case Collective::bcast: return nccl_.broadcast(send, recv, bytes, kNcclBytes, call.root, comm_, stream_);
    case Collective::reduce: return nccl_.reduce(send, recv, call.count, type, op, call.root, comm_, stream_);
    case Collective::allgather: return nccl_.all_gather(send, recv, bytes, kNcclBytes, comm_, stream_);
    case Collective::reduce_scatter:
      // NCCL's own idea of in place: the result goes to this rank's block.
      if (call.in_place) recv = buffers_.recv.at(static_cast<size_t>(call.rank) * bytes);
      return nccl_.reduce_scatter(send, recv, call.count, type, op, comm_, stream_);
    case Collective::sendrecv:
    case Collective::pair: return exchange_with(partners_of(call), bytes);
    default: return exchange_blocks(call);
  }
}

int NcclRunner::exchange_with(const Partners& partners, size_t bytes) {
  int result = nccl_.group_start();
  if (result == 0 && partners.to >= 0)
    result = nccl_.send(buffers_.send.at(0), bytes, kNcclBytes, partners.to, comm_, stream_);
  if (result == 0 && partners.from >= 0)
    result = nccl_.recv(buffers_.recv.at(0), bytes, kNcclBytes, partners.from, comm_, stream_);
  int ended = nccl_.group_end();
  return result ? result : ended;
}

int NcclRunner::enqueue_window(const Call& call, int sends, int recvs) {
  const size_t bytes = table_bytes(call);
  const int partner = partner_of(call);
  int result = nccl_.group_start();
  for (int i = 0; i < sends && result == 0; ++i)
    result = nccl_.send(buffers_.send.at(message_offset(call, i)), bytes, kNcclBytes, partner, comm_, stream_);
  for (int i = 0; i < recvs && result == 0; ++i)
    result = nccl_.recv(buffers_.recv.at(message_offset(call, i)), bytes, kNcclBytes, partner, comm_, stream_);
  int ended = nccl_.group_end();
  return result ? result : ended;
}

// What NCCL has no function for, as its users write it: a group of sends and receives.
int NcclRunner::exchange_blocks(const Call& call) {
  const Collective kind = even(call.collective);
  const bool everyone = kind == Collective::alltoall || kind == Collective::allgather;
  const bool inwards = kind == Collective::gather, at_root = call.rank == call.root;
  int result = nccl_.group_start();
  for (int peer = 0; peer < call.ranks && result == 0; ++peer) {
    const bool with_root = peer == call.root;
    if (everyone || (inwards ? with_root : at_root)) result = send_block(call, peer);
    if (result == 0 && (everyone || (inwards ? at_root : with_root))) result = recv_block(call, peer);
  }
  int ended = nccl_.group_end();
  return result ? result : ended;
}

int NcclRunner::send_block(const Call& call, int peer) {
  const size_t element = info(call.type).bytes;
  const Collective kind = even(call.collective);
  Block block = block_of(call, call.rank, peer);
  const void* from = buffers_.send.at(block.offset * element);
  if (kind == Collective::gather || kind == Collective::allgather) {
    block = own_block(call);
    from = send_address(buffers_, call);
  }
  return nccl_.send(from, block.elements * element, kNcclBytes, peer, comm_, stream_);
}

int NcclRunner::recv_block(const Call& call, int peer) {
  const size_t element = info(call.type).bytes;
  Block block = block_of(call, call.rank, peer);
  if (even(call.collective) == Collective::scatter) block = {0, own_block(call).elements};
  return nccl_.recv(buffers_.recv.at(block.offset * element), block.elements * element, kNcclBytes, peer, comm_,
                    stream_);
}

}  // namespace

Result<std::unique_ptr<Runner>> nccl_runner(const Buffers& buffers, MPI_Comm comm) {
  auto functions = load_functions();
  GC_TRY(agree(functions.status(), comm));  // no rank may enter NCCL's start-up alone
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  auto runner = std::make_unique<NcclRunner>(*functions, buffers, comm);
  UniqueId id{};
  Status made;
  if (rank == 0) made = runner->check(functions->get_unique_id(&id), "ncclGetUniqueId");
  GC_TRY(agree(made, comm));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm);
  GC_TRY(agree(runner->open(rank, ranks, id), comm));
  return std::unique_ptr<Runner>(std::move(runner));
}

}  // namespace gpucoll::perf
