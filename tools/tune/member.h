// One rank of a team: its communicators, its stream and its buffers, and how it takes the time of calls.
//
// Thread safety: one thread at a time, which works on the rank's device. Ownership: owns what it has.
#pragma once
#include <gpucoll/gpucoll.h>
#include <mpi.h>

#include <functional>
#include <vector>

#include "tune/team.h"

namespace gpucoll::tune {

class Member {
 public:
  // scans: for MPI_Scan and MPI_Exscan, which the C API has not; MPI_COMM_NULL: there are none.
  Member(int rank, int n_ranks, MPI_Comm scans) : rank_(rank), n_ranks_(n_ranks), scans_(scans) {}
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // The communicator for which `engines` says; owned from now on.
  void adopt(Engines engines, gpucollComm_t comm) { comms_[static_cast<int>(engines)] = comm; }
  Status prepare(size_t bytes);
  // Microseconds of each call that counts. meet(i): waits for the other ranks; false where one of them has failed.
  Status time_calls(proto::Function function, size_t count, Engines engines, Repeats repeats,
                    const std::function<bool(int)>& meet, std::vector<double>* times_us);
  // Lets ranks go that wait for this one.
  void abort();

 private:
  gpucollResult_t start(proto::Function function, size_t count, gpucollComm_t comm);
  gpucollResult_t shift(size_t count, gpucollComm_t comm);

  const int rank_, n_ranks_;
  const MPI_Comm scans_;
  gpucollComm_t comms_[2] = {};
  gpucollStream_t stream_ = nullptr;
  void *send_ = nullptr, *recv_ = nullptr;
};

Status from_api(gpucollResult_t result, gpucollComm_t comm, const char* call);
// Parameters of the library, which is not the copy that this program has.
Status set_library_param(const char* name, const char* value);
// What communicators with such engines are made with, unless the user has turned copy engines off.
Status prepare_engines(Engines engines);
// Of all calls, given those of each rank.
double median_of_slowest(const std::vector<std::vector<double>>& times_us);

}  // namespace gpucoll::tune
