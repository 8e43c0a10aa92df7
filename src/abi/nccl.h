/* libnccl needs this of libgpucoll beyond the C API: programs for NCCL may wait on purpose, as long as they like. Both
 * libraries are of one version.
 *
 * Thread safety: any thread; the choice is the thread's own.
 */
#ifndef GPUCOLL_ABI_NCCL_H
#define GPUCOLL_ABI_NCCL_H

#include <stdint.h>

#include "gpucoll/gpucoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the communicators that this thread makes, and those split off from them, wait for other ranks without
 * end (not 0), or as long as the parameter timeout says (0). A parameter that the user has set counts anyway. */
GPUCOLL_API void gpucoll_wait_without_end(int yes);
/* Returns how many seconds the communicator waits for other ranks, 0 for without end; -1: it is none. */
GPUCOLL_API int64_t gpucoll_comm_timeout(gpucollComm_t comm);

#ifdef __cplusplus
}
#endif

#endif
