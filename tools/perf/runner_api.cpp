#include <gpucoll/gpucoll.h>

#include <optional>
#include <vector>

#include "perf/agree.h"
#include "perf/runner.h"

namespace gpucoll::perf {
namespace {

// Nothing where the C API has no such type. Types that only travel are bytes.
std::optional<gpucollDataType_t> api_type(const Call& call) {
  switch (call.type) {
    case Type::int8: return gpucollInt8;
    case Type::int16: return gpucollInt16;
    case Type::int32: return gpucollInt32;
    case Type::int64: return gpucollInt64;
    case Type::uint8: return gpucollUint8;
    case Type::uint16: return gpucollUint16;
    case Type::uint32: return gpucollUint32;
    case Type::uint64: return gpucollUint64;
    case Type::float16: return gpucollFloat16;
    case Type::bfloat16: return gpucollBfloat16;
    case Type::float32: return gpucollFloat32;
    case Type::float64: return gpucollFloat64;
    case Type::complex64: return gpucollComplex64;
    case Type::complex128: return gpucollComplex128;
    case Type::byte: return gpucollUint8;
    case Type::float_int: return gpucollFloatInt;
    case Type::double_int: return gpucollDoubleInt;
    case Type::long_int: return gpucollLongInt;
    case Type::int_int: return gpucollIntInt;
    case Type::short_int: return gpucollShortInt;
    case Type::long_double:
    case Type::boolean:
    case Type::long_double_int: break;
  }
  return std::nullopt;
}

gpucollRedOp_t api_op(Op op) {
  switch (op) {
    case Op::sum: return gpucollSum;
    case Op::prod: return gpucollProd;
    case Op::max: return gpucollMax;
    case Op::min: return gpucollMin;
    case Op::band: return gpucollBand;
    case Op::bor: return gpucollBor;
    case Op::bxor: return gpucollBxor;
    case Op::land: return gpucollLand;
    case Op::lor: return gpucollLor;
    case Op::lxor: return gpucollLxor;
    case Op::maxloc: return gpucollMaxloc;
    case Op::minloc: break;
  }
  return gpucollMinloc;
}

class ApiRunner final : public Runner {
 public:
  explicit ApiRunner(const Buffers& buffers) : buffers_(buffers) {}
  ~ApiRunner() override {
    if (comm_) gpucollCommDestroy(comm_);
    if (stream_) gpucollStreamDestroy(stream_);
  }
  Status open(int rank, int ranks, const gpucollUniqueId& id, bool registered) {
    GC_TRY(from_api(gpucollStreamCreate(&stream_), "gpucollStreamCreate"));
    GC_TRY(from_api(gpucollCommInitRank(&comm_, ranks, id, rank), "gpucollCommInitRank"));
    if (!registered) return {};
    // Any byte stands for the allocation; destroying the communicator forgets both.
    for (const Memory* memory : {&buffers_.send, &buffers_.recv}) {
      void* handle = nullptr;
      GC_TRY(from_api(gpucollCommRegister(comm_, memory->at(0), 1, &handle), "gpucollCommRegister"));
    }
    return {};
  }

  const char* name() const override { return "gpucoll"; }
  std::string description() const override { return "gpucoll's C API"; }
  bool can(const Call& call) const override {
    if (!in_api(call.collective) || !api_type(call)) return false;
    return !call.in_place || (even(call.collective) != Collective::alltoall && !is_pairwise(call.collective));
  }
  bool streams() const override { return true; }
  Status start(const Call& call) override {
    if (is_uneven(call.collective) && !(laid_out_ == call)) lay_out(call);
    return from_api(enqueue(call), perf::name(call.collective));
  }
  Status finish() override {
    GC_TRY(from_api(gpucollStreamSynchronize(stream_), "gpucollStreamSynchronize"));
    // A stream runs on after a kernel that has given up.
    gpucollResult_t fault = gpucollSuccess;
    GC_TRY(from_api(gpucollCommGetAsyncError(comm_, &fault), "gpucollCommGetAsyncError"));
    if (fault == gpucollSuccess) return {};
    return Status::error(static_cast<Code>(fault), "%s", gpucollGetLastError(comm_));
  }

 private:
  gpucollResult_t enqueue(const Call& call);
  gpucollResult_t enqueue_uneven(const Call& call, const void* send, void* recv, gpucollDataType_t type);
  gpucollResult_t exchange(const Call& call, const void* send, void* recv, gpucollDataType_t type);
  void lay_out(const Call& call);

  const Buffers& buffers_;
  gpucollComm_t comm_ = nullptr;
  gpucollStream_t stream_ = nullptr;
  Call laid_out_;  // whose blocks these are
  std::vector<size_t> counts_, places_;
};

void ApiRunner::lay_out(const Call& call) {
  counts_.clear();
  places_.clear();
  for (int peer = 0; peer < call.ranks; ++peer) {
    const Block block = block_of(call, call.rank, peer);
    counts_.push_back(block.elements);
    places_.push_back(block.offset);
  }
  laid_out_ = call;
}

gpucollResult_t ApiRunner::enqueue(const Call& call) {
  const gpucollDataType_t type = *api_type(call);
  const gpucollRedOp_t op = api_op(call.op);
  const void* send = send_address(buffers_, call);
  void* recv = recv_address(buffers_, call);
  switch (call.collective) {
    case Collective::allreduce: return gpucollAllReduce(send, recv, call.count, type, op, comm_, stream_);
    case Collective::bcast: return gpucollBroadcast(send, recv, call.count, type, call.root, comm_, stream_);
    case Collective::reduce: return gpucollReduce(send, recv, call.count, type, op, call.root, comm_, stream_);
    case Collective::allgather: return gpucollAllGather(send, recv, call.count, type, comm_, stream_);
    case Collective::reduce_scatter: return gpucollReduceScatter(send, recv, call.count, type, op, comm_, stream_);
    case Collective::alltoall: return gpucollAlltoAll(send, recv, call.count, type, comm_, stream_);
    case Collective::gather: return gpucollGather(send, recv, call.count, type, call.root, comm_, stream_);
    case Collective::scatter: return gpucollScatter(send, recv, call.count, type, call.root, comm_, stream_);
    case Collective::barrier: return gpucollBarrier(comm_, stream_);
    case Collective::sendrecv:
    case Collective::pair: return exchange(call, send, recv, type);
    default: return enqueue_uneven(call, send, recv, type);
  }
}

gpucollResult_t ApiRunner::enqueue_uneven(const Call& call, const void* send, void* recv, gpucollDataType_t type) {
  const size_t *counts = counts_.data(), *places = places_.data(), own = own_block(call).elements;
  switch (call.collective) {
    case Collective::alltoallv:
      return gpucollAlltoAllv(send, counts, places, recv, counts, places, type, comm_, stream_);
    case Collective::gatherv: return gpucollGatherv(send, own, recv, counts, places, type, call.root, comm_, stream_);
    case Collective::scatterv: return gpucollScatterv(send, counts, places, recv, own, type, call.root, comm_, stream_);
    default: return gpucollInvalidUsage;  // not let in: options.cpp
  }
}

gpucollResult_t ApiRunner::exchange(const Call& call, const void* send, void* recv, gpucollDataType_t type) {
  const Partners partners = partners_of(call);
  gpucollResult_t result = gpucollGroupStart();
  if (result != gpucollSuccess) return result;
  if (partners.to >= 0) result = gpucollSend(send, call.count, type, partners.to, comm_, stream_);
  if (partners.from >= 0 && result == gpucollSuccess)
    result = gpucollRecv(recv, call.count, type, partners.from, comm_, stream_);
  const gpucollResult_t ended = gpucollGroupEnd();
  return result != gpucollSuccess ? result : ended;
}

}  // namespace

Result<std::unique_ptr<Runner>> api_runner(const Buffers& buffers, bool registered, MPI_Comm comm) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  auto runner = std::make_unique<ApiRunner>(buffers);
  gpucollUniqueId id{};
  Status made;
  if (rank == 0) made = from_api(gpucollGetUniqueId(&id), "gpucollGetUniqueId");
  GC_TRY(agree(made, comm));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm);
  GC_TRY(agree(runner->open(rank, ranks, id, registered), comm));
  return std::unique_ptr<Runner>(std::move(runner));
}

}  // namespace gpucoll::perf
