/* libgpucoll-mpi needs this of libgpucoll beyond the C API: communicators whose ranks meet by a function of the caller,
 * and errors that are told as the C API's own. Both libraries are of one version.
 *
 * Thread safety: any thread.
 */
#ifndef GPUCOLL_ABI_MEETING_H
#define GPUCOLL_ABI_MEETING_H

#include <stdint.h>

#include "gpucoll/gpucoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the ranks of a communicator to be made exchange small things. */
typedef struct gc_meeting {
  int rank, size;
  void *ctx;
  /* Gives all[r * bytes ..) of every rank r what that rank passes as `mine`. Collective. Waits at most timeout_s
   * seconds, where that is not 0. Where it fails, it writes the sentence to `why`, terminated. */
  gpucollResult_t (*allgather)(void *ctx, const void *mine, void *all, size_t bytes, int64_t timeout_s, char *why,
                               size_t why_bytes);
  /* A failure of this rank before, and its sentence: the other ranks fail with it. gpucollSuccess: there was none. */
  gpucollResult_t before;
  const char *said_before;
} gc_meeting;

/* Makes a communicator, as gpucollCommInitRank does, on the device of the calling thread. Where it fails, it fails on
 * all ranks; in a group it does. The ranks meet no more after an allgather that has failed on one of them. The program
 * cannot destroy or abort it: gpucoll_comm_leave does. `where`: the name of the function that the program has called.
 */
GPUCOLL_API gpucollResult_t gpucoll_comm_meet(const char *where, gpucollComm_t *comm, const gc_meeting *meeting);
/* Destroys such a communicator, as gpucollCommDestroy does. */
GPUCOLL_API gpucollResult_t gpucoll_comm_leave(gpucollComm_t comm);
/* Reports that the function `where` fails with `result` and this sentence: to the log, to gpucollGetLastError, and to
 * the open group, which fails. Returns `result`. */
GPUCOLL_API gpucollResult_t gpucoll_refuse(const char *where, gpucollResult_t result, const char *sentence);
/* Returns whether a group of this thread is open. */
GPUCOLL_API int gpucoll_group_open(void);

#ifdef __cplusplus
}
#endif
#endif
