// NCCL's ABI: the host side of its device API, which gpucoll has not: kernels of programs cannot communicate by it.
// Teams are answered nevertheless, since they cannot be refused: all ranks, and each alone where loads and stores of
// such kernels would have to reach others.
#include "nccl/mapping.h"

using namespace gpucoll::nccl;

namespace {

ncclResult_t no_device_api(const char* function) {
  return refuse(ncclInvalidUsage, function, "gpucoll has no device API: switch off what uses it in the program");
}

int rank_of(ncclComm_t comm) {
  int rank = 0;
  gpucollCommUserRank(to_gpucoll(comm), &rank);
  return rank;
}

}  // namespace

extern "C" {

ncclResult_t ncclDevCommCreate(ncclComm_t, const void*, void*) { return no_device_api("ncclDevCommCreate"); }
ncclResult_t ncclDevCommDestroy(ncclComm_t, const void*) { return no_device_api("ncclDevCommDestroy"); }

ncclTeam_t ncclTeamWorld(ncclComm_t comm) {
  int size = 0;
  gpucollCommCount(to_gpucoll(comm), &size);
  return {size, rank_of(comm), 1};
}

ncclTeam_t ncclTeamLsa(ncclComm_t) { return {1, 0, 1}; }
ncclTeam_t ncclTeamRail(ncclComm_t comm) { return ncclTeamWorld(comm); }

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return rank_of(comm) + (rank - team.rank) * team.stride;
}

int ncclTeamRankToLsa(ncclComm_t, ncclTeam_t team, int rank) { return (rank - team.rank) * team.stride; }

int ncclLLA2ACalcSlots(int, int) { return 0; }
ncclResult_t ncclLLA2ACreateRequirement(int, int, void*, void*) { return no_device_api("ncclLLA2ACreateRequirement"); }

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t, int, void*, void*) {
  return no_device_api("ncclLsaBarrierCreateRequirement");
}

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t, int, void*, void*) {
  return no_device_api("ncclGinBarrierCreateRequirement");
}

GC_SECOND_NAME(ncclDevCommCreate)
GC_SECOND_NAME(ncclDevCommDestroy)
GC_SECOND_NAME(ncclTeamWorld)
GC_SECOND_NAME(ncclTeamLsa)
GC_SECOND_NAME(ncclTeamRail)
GC_SECOND_NAME(ncclTeamRankToWorld)
GC_SECOND_NAME(ncclTeamRankToLsa)
GC_SECOND_NAME(ncclLLA2ACalcSlots)
GC_SECOND_NAME(ncclLLA2ACreateRequirement)
GC_SECOND_NAME(ncclLsaBarrierCreateRequirement)
GC_SECOND_NAME(ncclGinBarrierCreateRequirement)

}  // extern "C"
