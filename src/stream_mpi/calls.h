// Holds what the functions of gpucoll/mpi.h share: the C boundary, groups, and checks of their arguments.
//
// Thread safety: as ranks.h.
#pragma once
#include <mpi.h>

#include <utility>

#include "abi/meeting.h"
#include "base/fork.h"
#include "base/status.h"
#include "gpucoll/gpucoll.h"
#include "stream_mpi/ranks.h"
#include "stream_mpi/types.h"

namespace gpucoll::stream_mpi {

// Runs body(ranks), which returns a Status, behind the C boundary, and tells of its failure as the C API does.
template <class Body>
gpucollResult_t enqueue(const char* where, MPI_Comm comm, Caller caller, Body&& body) noexcept {
  if (is_forked_child()) return gpucoll_refuse(where, gpucollInvalidUsage, "");  // which has its own sentence for it
  const Status status = contained([&]() -> Status {
    GC_TRY_AS(const Ranks* const ranks, ranks_of(where, comm, caller));
    return body(*ranks);
  });
  const auto result = static_cast<gpucollResult_t>(status.code());
  return status || status.told() ? result : gpucoll_refuse(where, result, status.what());
}

// Runs body(), which returns a Status, in a group.
template <class Body>
Status in_group(Body&& body) {
  GC_TRY(told(gpucollGroupStart()));
  Status status = contained(std::forward<Body>(body));
  if (!status && !status.told()) {  // the group must fail, too
    gpucoll_refuse("a group of gpucoll/mpi.h", static_cast<gpucollResult_t>(status.code()), status.what());
    status.mark_told();
  }
  Status end = told(gpucollGroupEnd());
  return status ? std::move(end) : std::move(status);
}

inline bool in_place(const void* buffer) { return buffer == MPI_IN_PLACE; }
inline char* at(void* buffer, size_t bytes) { return static_cast<char*>(buffer) + bytes; }
inline const char* at(const void* buffer, size_t bytes) { return static_cast<const char*>(buffer) + bytes; }

inline Status check_same(const char* one, size_t a, const char* other, size_t b) {
  if (a == b) return {};
  return Status::error(Code::invalid_argument, "%s says %zu bytes and %s says %zu: they must be equal", one, a, other,
                       b);
}

}  // namespace gpucoll::stream_mpi
