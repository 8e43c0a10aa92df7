#include <gpucoll/gpucoll.h>

#include <algorithm>
#include <vector>

#include "perf/agree.h"
#include "tune/member.h"
#include "tune/team.h"

namespace gpucoll::tune {
namespace {

using perf::agree;
using proto::Function;

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

class ProcessTeam final : public Team {
 public:
  explicit ProcessTeam(MPI_Comm comm) : comm_(comm), member_(rank_in(comm), size_of(comm), comm) {}
  Status open(size_t buffer_bytes);
  Result<double> time(Function function, uint64_t bytes, Engines engines, Repeats repeats) override;

 private:
  Result<gpucollComm_t> connect();

  const MPI_Comm comm_;
  Member member_;
};

Result<gpucollComm_t> ProcessTeam::connect() {
  gpucollUniqueId id{};
  Status made;
  if (rank_in(comm_) == 0) made = from_api(gpucollGetUniqueId(&id), nullptr, "gpucollGetUniqueId");
  GC_TRY(agree(made, comm_));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm_);
  gpucollComm_t comm = nullptr;
  const gpucollResult_t result = gpucollCommInitRank(&comm, size_of(comm_), id, rank_in(comm_));
  GC_TRY(agree(from_api(result, nullptr, "gpucollCommInitRank"), comm_));
  return comm;
}

Status ProcessTeam::open(size_t buffer_bytes) {
  for (Engines engines : {Engines::off, Engines::on}) {
    GC_TRY(prepare_engines(engines));
    GC_TRY_AS(gpucollComm_t comm, connect());
    member_.adopt(engines, comm);
  }
  return agree(member_.prepare(buffer_bytes), comm_);
}

// A rank that fails says so itself: the others may be waiting for it inside a call, and get away with an error when its
// communicators have gone, or by the end of the whole job.
Result<double> ProcessTeam::time(Function function, uint64_t bytes, Engines engines, Repeats repeats) {
  std::vector<double> mine;
  const auto meet = [this](int) { return MPI_Barrier(comm_) == MPI_SUCCESS; };
  GC_TRY(member_.time_calls(function, bytes / sizeof(float), engines, repeats, meet, &mine));
  std::vector<double> slowest(mine.size());
  MPI_Allreduce(mine.data(), slowest.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX, comm_);
  return median_of_slowest({slowest});
}

}  // namespace

Result<std::unique_ptr<Team>> process_team(MPI_Comm comm, size_t buffer_bytes) {
  auto team = std::make_unique<ProcessTeam>(comm);
  GC_TRY(team->open(buffer_bytes));
  return std::unique_ptr<Team>(std::move(team));
}

}  // namespace gpucoll::tune
