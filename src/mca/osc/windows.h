/* One-sided communication has no part in gpucoll, and Open MPI's reads and writes its buffers on the CPU: device memory
 * would end the process. So this stands in the table of each window, and refuses device memory with an error that says
 * so. All else goes to the component as it came.
 *
 * Thread safety: any thread, but for gcm_look_at_windows() and gcm_leave_windows(), which are called while MPI starts
 * and ends.
 */
#ifndef GPUCOLL_MCA_OSC_WINDOWS_H
#define GPUCOLL_MCA_OSC_WINDOWS_H

#include "mca/coll/plan.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/win/win.h"

typedef ompi_osc_base_module_t gcm_window_functions;

/* selection.c: windows that are made from now on are looked at; no more. */
void gcm_look_at_windows(void);
void gcm_leave_windows(void);

/* selection.c: the functions of a window as its component gave them. */
const gcm_window_functions *gcm_window_functions_of(const ompi_win_t *win);

/* origins.c: puts our functions in place of those that read or write buffers of the origin. */
void gcm_guard_operations(gcm_window_functions *functions);

/* Returns the first byte of the data if only a device reaches it, else NULL. The CPU reaches managed memory. */
const void *gcm_out_of_reach(const void *buffer, size_t count, gcm_type *type);
/* Logs that a function of MPI refuses device memory. Returns the error class. */
int gcm_refuse_memory(const char *function, const void *memory);

#endif
