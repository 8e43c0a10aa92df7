#include "case_rank.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "reference.h"

namespace gpucoll_test {
namespace {

int device_of(int rank) {
  int count = 0;
  must(gpucollDeviceCount(&count), "gpucollDeviceCount");
  return rank % count;
}

// What lies at a byte of a rank's arena, in words.
std::string place_text(const Case& c, int rank, size_t at) {
  for (size_t g = c.groups.size(); g-- > 0;) {
    for (const Call& call : c.groups[g].calls) {
      const auto& members = c.comms[static_cast<size_t>(call.comm)].members;
      const auto found = std::find(members.begin(), members.end(), rank);
      if (found == members.end()) continue;
      const int n = static_cast<int>(members.size()), me = static_cast<int>(found - members.begin());
      const size_t recv = recv_place(call, me, n), send = send_place(call, me, n);
      const std::string where = " (rank " + std::to_string(me) + " there) of call: " + text(call);
      if (at >= recv && at < recv + recv_bytes(call, me, n))
        return "byte " + std::to_string(at - recv) + " of recvbuff" + where;
      if (at >= send && at < send + send_bytes(call, me, n))
        return "byte " + std::to_string(at - send) + " of sendbuff" + where;
    }
  }
  return "byte " + std::to_string(at) + " of the arena, which belongs to no call";
}

// A call on one rank of its communicator.
struct Issue {
  const Call& call;
  int rank, n;
  uint8_t* arena;
  gpucollComm_t comm;
  gpucollStream_t stream;
  gpucollRedOp_t op;

  gpucollDataType_t type() const { return static_cast<gpucollDataType_t>(call.type); }
  bool at_root() const { return rank == call.root; }
  uint8_t* send() const { return arena + send_place(call, rank, n); }
  uint8_t* recv() const { return arena + recv_place(call, rank, n); }
  // Buffers that mean nothing on this rank.
  uint8_t* send_at_root() const { return at_root() ? send() : nullptr; }
  uint8_t* recv_at_root() const { return at_root() ? recv() : nullptr; }
  std::vector<size_t> row(const std::vector<size_t>& table) const {
    const auto first = table.begin() + rank * n;
    return {first, first + n};
  }
  std::vector<size_t> column(const std::vector<size_t>& table) const {
    std::vector<size_t> values;
    for (int from = 0; from < n; ++from) values.push_back(table[static_cast<size_t>(from * n + rank)]);
    return values;
  }
  gpucollResult_t exchange_variable() const {
    const auto sends = row(call.counts), sdispls = row(call.send_displs), recvs = column(call.counts),
               rdispls = column(call.recv_displs);
    const auto root = static_cast<size_t>(call.root);
    if (call.kind == Kind::all_to_all_v)
      return gpucollAlltoAllv(send(), sends.data(), sdispls.data(), recv(), recvs.data(), rdispls.data(), type(), comm,
                              stream);
    if (call.kind == Kind::gather_v)
      return gpucollGatherv(send(), sends[root], recv_at_root(), at_root() ? recvs.data() : nullptr,
                            at_root() ? rdispls.data() : nullptr, type(), call.root, comm, stream);
    return gpucollScatterv(send_at_root(), at_root() ? sends.data() : nullptr, at_root() ? sdispls.data() : nullptr,
                           recv(), recvs[root], type(), call.root, comm, stream);
  }
  gpucollResult_t message() const {
    gpucollResult_t result = gpucollSuccess;
    if (at_root()) result = gpucollSend(send(), call.count, type(), call.peer, comm, stream);
    if (rank == call.peer && result == gpucollSuccess)
      result = gpucollRecv(recv(), call.count, type(), call.root, comm, stream);
    return result;
  }
  gpucollResult_t run() const {
    const size_t count = call.count;
    switch (call.kind) {
      case Kind::all_reduce: return gpucollAllReduce(send(), recv(), count, type(), op, comm, stream);
      case Kind::reduce: return gpucollReduce(send(), recv_at_root(), count, type(), op, call.root, comm, stream);
      case Kind::broadcast: return gpucollBroadcast(send_at_root(), recv(), count, type(), call.root, comm, stream);
      case Kind::bcast: return gpucollBcast(recv(), count, type(), call.root, comm, stream);
      case Kind::all_gather: return gpucollAllGather(send(), recv(), count, type(), comm, stream);
      case Kind::reduce_scatter: return gpucollReduceScatter(send(), recv(), count, type(), op, comm, stream);
      case Kind::message: return message();
      case Kind::all_to_all: return gpucollAlltoAll(send(), recv(), count, type(), comm, stream);
      case Kind::gather: return gpucollGather(send(), recv_at_root(), count, type(), call.root, comm, stream);
      case Kind::scatter: return gpucollScatter(send_at_root(), recv(), count, type(), call.root, comm, stream);
      case Kind::barrier: return gpucollBarrier(comm, stream);
      default: return exchange_variable();
    }
  }
};

}  // namespace

void must(gpucollResult_t result, const std::string& what) {
  if (result != gpucollSuccess)
    throw Failure(what + ": " + gpucollGetErrorString(result) + ": " + gpucollGetLastError(nullptr));
}

Rank::~Rank() {
  if (gpucollSetDevice(device_) != gpucollSuccess) return;
  for (gpucollComm_t comm : comms_)
    if (comm) gpucollCommAbort(comm);
  for (gpucollStream_t stream : streams_)
    if (stream) gpucollStreamDestroy(stream);
  gpucollFree(arena_);
  gpucollFree(scalars_);
}

void Rank::prepare(const std::vector<uint8_t>& memory) {
  device_ = device_of(rank_);
  use_device();
  must(gpucollMalloc(&arena_, memory.size()), "gpucollMalloc");
  must(gpucollMemcpy(arena_, memory.data(), memory.size()), "gpucollMemcpy");
  make_scalars();
  for (int i = 0; i < case_.n_streams; ++i) {
    streams_.push_back(nullptr);
    if (i > 0 || !null_stream()) must(gpucollStreamCreate(&streams_.back()), "gpucollStreamCreate");
  }
}

void Rank::init(const gpucollUniqueId& id) {
  must(gpucollCommInitRank(&comms_[0], case_.n_ranks, id, rank_), "gpucollCommInitRank");
}

void Rank::split(size_t i, gpucollComm_t* made) {
  const Split& split = case_.splits[i];
  const auto r = static_cast<size_t>(rank_);
  must(gpucollCommSplit(comms_[0], split.colors[r], split.keys[r], made), "gpucollCommSplit");
}

void Rank::keep(size_t split, gpucollComm_t made) {
  const int color = case_.splits[split].colors[static_cast<size_t>(rank_)];
  for (size_t i = 1; i < case_.comms.size(); ++i)
    if (case_.comms[i].split == static_cast<int>(split) && case_.comms[i].color == color) comms_[i] = made;
  if ((color < 0) != (made == nullptr)) throw Failure("gpucollCommSplit gave no communicator, or one too many");
}

void Rank::finish(const std::vector<uint8_t>& expected) {
  use_device();
  for (gpucollStream_t stream : streams_) must(gpucollStreamSynchronize(stream), "gpucollStreamSynchronize");
  for (gpucollComm_t comm : comms_) {
    gpucollResult_t error = gpucollSuccess;
    if (comm) must(gpucollCommGetAsyncError(comm, &error), "gpucollCommGetAsyncError");
    if (error != gpucollSuccess) throw Failure(std::string("asynchronous error: ") + gpucollGetLastError(comm));
  }
  compare(expected);
}

void Rank::destroy() {
  use_device();
  for (gpucollComm_t& comm : comms_)
    if (comm) must(gpucollCommDestroy(std::exchange(comm, nullptr)), "gpucollCommDestroy");
}

// Ranks that share a device in one process must not share a stream.
bool Rank::null_stream() const {
  int count = 0;
  must(gpucollDeviceCount(&count), "gpucollDeviceCount");
  return case_.seed % 4 == 0 && (case_.drive == Drive::processes || case_.n_ranks <= count);
}

uint8_t* Rank::scalar(int type, int rank) const {
  return static_cast<uint8_t*>(scalars_) + 16 * (type * case_.n_ranks + rank);
}

void Rank::make_scalars() {
  const auto bytes = size_t{16} * gpucollNumTypes * static_cast<size_t>(case_.n_ranks);
  must(gpucollMalloc(&scalars_, bytes), "gpucollMalloc");
  std::vector<uint8_t> all(bytes);
  for (int type = 0; type < gpucollNumTypes; ++type)
    for (int rank = 0; rank < case_.n_ranks; ++rank) {
      const auto one = scalar_of(type, rank);
      std::memcpy(all.data() + 16 * (type * case_.n_ranks + rank), one.data(), one.size());
    }
  must(gpucollMemcpy(scalars_, all.data(), bytes), "gpucollMemcpy");
}

void Rank::compare(const std::vector<uint8_t>& expected) {
  std::vector<uint8_t> result(expected.size());
  must(gpucollMemcpy(result.data(), arena_, result.size()), "gpucollMemcpy");
  const auto [is, should] = std::mismatch(result.begin(), result.end(), expected.begin());
  if (is == result.end()) return;
  throw Failure(place_text(case_, rank_, static_cast<size_t>(is - result.begin())) + " is " + std::to_string(*is) +
                " and should be " + std::to_string(*should));
}

void Rank::issue(const Call& call) {
  const auto& members = case_.comms[static_cast<size_t>(call.comm)].members;
  const auto found = std::find(members.begin(), members.end(), rank_);
  if (found == members.end()) return;
  Issue issue{call,
              static_cast<int>(found - members.begin()),
              static_cast<int>(members.size()),
              static_cast<uint8_t*>(arena_),
              comms_[static_cast<size_t>(call.comm)],
              streams_[static_cast<size_t>(call.stream)],
              static_cast<gpucollRedOp_t>(call.op)};
  const bool made = reduces(call.kind) && call.op == kPreMulSum;
  if (made) {
    auto in_host = scalar_of(call.type, issue.rank);
    must(gpucollRedOpCreatePreMulSum(&issue.op, call.device_scalar ? scalar(call.type, issue.rank) : in_host.data(),
                                     issue.type(),
                                     call.device_scalar ? gpucollScalarDevice : gpucollScalarHostImmediate, issue.comm),
         "gpucollRedOpCreatePreMulSum");
  }
  must(issue.run(), text(call));
  if (made) must(gpucollRedOpDestroy(issue.op, issue.comm), "gpucollRedOpDestroy");
}

}  // namespace gpucoll_test
