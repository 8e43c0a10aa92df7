#include "tune/member.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "abi/abi.h"
#include "base/params.h"
#include "core/plan/tuner.h"

namespace gpucoll::tune {

using proto::Function;
using Clock = std::chrono::steady_clock;

Status from_api(gpucollResult_t result, gpucollComm_t comm, const char* call) {
  if (result == gpucollSuccess) return {};
  const char* sentence = gpucollGetLastError(comm);
  if (!*sentence) sentence = gpucollGetErrorString(result);
  return Status::error(static_cast<Code>(result), "%s: %s", call, sentence);
}

Status set_library_param(const char* name, const char* value) {
  const gc_abi* abi = gpucoll_abi(GC_ABI_VERSION);
  if (!abi) return Status::error(Code::unsupported, "this libgpucoll is of another version than gpucoll-tune");
  if (abi->set_param(name, value) == 0) return {};
  return Status::error(Code::internal, "the parameter %s does not take %s", name, value);
}

Status prepare_engines(Engines engines) {
  const bool on = engines == Engines::on && params().copy_engine_bytes != kOff;
  const std::string least = on ? std::to_string(kLeastCopy) : "off";
  for (const char* name : {"copy_engine_bytes", "copy_exchange_bytes", "copy_reduction_bytes"})
    GC_TRY(set_library_param(name, least.c_str()));
  // All ranks make a communicator with the same parameters, those as well that have measured before.
  GC_TRY(set_library_param("algorithm", "auto"));
  return set_library_param("protocol", "auto");
}

Member::~Member() {
  for (gpucollComm_t comm : comms_)
    if (comm) gpucollCommDestroy(comm);
  if (stream_) gpucollStreamDestroy(stream_);
  if (send_) gpucollFree(send_);
  if (recv_) gpucollFree(recv_);
}

Status Member::prepare(size_t bytes) {
  GC_TRY(from_api(gpucollStreamCreate(&stream_), nullptr, "gpucollStreamCreate"));
  GC_TRY(from_api(gpucollMalloc(&send_, bytes), nullptr, "gpucollMalloc"));
  GC_TRY(from_api(gpucollMalloc(&recv_, bytes), nullptr, "gpucollMalloc"));
  return from_api(gpucollMemset(send_, 0, bytes), nullptr, "gpucollMemset");
}

void Member::abort() {
  for (gpucollComm_t& comm : comms_)
    if (comm) gpucollCommAbort(std::exchange(comm, nullptr));
}

// To the next rank, from the one before.
gpucollResult_t Member::shift(size_t count, gpucollComm_t comm) {
  gpucollResult_t result = gpucollGroupStart();
  if (result != gpucollSuccess) return result;
  result = gpucollSend(send_, count, gpucollFloat32, (rank_ + 1) % n_ranks_, comm, stream_);
  if (result == gpucollSuccess)
    result = gpucollRecv(recv_, count, gpucollFloat32, (rank_ + n_ranks_ - 1) % n_ranks_, comm, stream_);
  const gpucollResult_t ended = gpucollGroupEnd();
  return result != gpucollSuccess ? result : ended;
}

gpucollResult_t Member::start(Function function, size_t count, gpucollComm_t comm) {
  constexpr gpucollDataType_t kType = gpucollFloat32;
  const auto of_mpi = [](int rc) { return rc == MPI_SUCCESS ? gpucollSuccess : gpucollInternalError; };
  const int mpi_count = static_cast<int>(count);
  switch (function) {
    case Function::all_reduce: return gpucollAllReduce(send_, recv_, count, kType, gpucollSum, comm, stream_);
    case Function::reduce: return gpucollReduce(send_, recv_, count, kType, gpucollSum, 0, comm, stream_);
    case Function::broadcast: return gpucollBroadcast(send_, recv_, count, kType, 0, comm, stream_);
    case Function::all_gather: return gpucollAllGather(send_, recv_, count, kType, comm, stream_);
    case Function::reduce_scatter: return gpucollReduceScatter(send_, recv_, count, kType, gpucollSum, comm, stream_);
    case Function::all_to_all: return gpucollAlltoAll(send_, recv_, count, kType, comm, stream_);
    case Function::gather: return gpucollGather(send_, recv_, count, kType, 0, comm, stream_);
    case Function::scatter: return gpucollScatter(send_, recv_, count, kType, 0, comm, stream_);
    case Function::send_recv: return shift(count, comm);
    case Function::scan: return of_mpi(MPI_Scan(send_, recv_, mpi_count, MPI_FLOAT, MPI_SUM, scans_));
    case Function::exscan: return of_mpi(MPI_Exscan(send_, recv_, mpi_count, MPI_FLOAT, MPI_SUM, scans_));
  }
  return gpucollUnsupported;
}

Status Member::time_calls(Function function, size_t count, Engines engines, Repeats repeats,
                          const std::function<bool(int)>& meet, std::vector<double>* times_us) {
  times_us->clear();
  gpucollComm_t comm = comms_[static_cast<int>(engines)];
  for (int i = 0; i < repeats.warmup + repeats.iterations; ++i) {
    if (!meet(i)) return {};  // whoever failed says why
    const auto begin = Clock::now();
    GC_TRY(from_api(start(function, count, comm), comm, core::name(function)));
    GC_TRY(from_api(gpucollStreamSynchronize(stream_), comm, "gpucollStreamSynchronize"));
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    if (i >= repeats.warmup) times_us->push_back(took.count());
  }
  gpucollResult_t fault = gpucollSuccess;
  GC_TRY(from_api(gpucollCommGetAsyncError(comm, &fault), comm, "gpucollCommGetAsyncError"));
  return from_api(fault, comm, core::name(function));
}

double median_of_slowest(const std::vector<std::vector<double>>& times_us) {
  std::vector<double> slowest = times_us.front();
  for (const std::vector<double>& one : times_us)
    for (size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], one[i]);
  std::nth_element(slowest.begin(), slowest.begin() + static_cast<long>(slowest.size() / 2), slowest.end());
  return slowest[slowest.size() / 2];
}

}  // namespace gpucoll::tune
