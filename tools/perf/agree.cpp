#include "perf/agree.h"

#include <climits>
#include <cstring>

namespace gpucoll::perf {

Status agree(const Status& mine, MPI_Comm comm) {
  int rank = 0, lowest = 0;
  MPI_Comm_rank(comm, &rank);
  int vote = mine.ok() ? INT_MAX : rank;
  MPI_Allreduce(&vote, &lowest, 1, MPI_INT, MPI_MIN, comm);
  if (lowest == INT_MAX) return {};
  struct {
    int code;
    char what[1020];
  } told = {static_cast<int>(mine.code()), ""};
  std::strncpy(told.what, mine.what(), sizeof told.what - 1);
  MPI_Bcast(&told, sizeof told, MPI_BYTE, lowest, comm);
  return Status(static_cast<Code>(told.code), told.what);
}

}  // namespace gpucoll::perf
