/* One-sided communication with device memory: Open MPI's reads and writes the buffers of the origin on the CPU, or has
 * a network do so. So this stands in the table of each window, and takes buffers of device memory through the host. All
 * else goes to the component as it came. A window of device memory is ours as a whole (device_windows.h), but for one
 * that such memory is attached to: that is refused with an error.
 *
 * An operation is staged when it is called, and is under way until a function of MPI completes it at the origin: then
 * its results are stored, and its host memory is given back (operations.h). Where the component moves GPUs' memory
 * itself (UCX), its windows are left alone.
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

/* selection.c: looks at windows that are made from now on. REQUIRES: gcm_look_at_messages() has looked at the PML. */
void gcm_look_at_windows(void);
/* selection.c: looks at no window any more. */
void gcm_leave_windows(void);

/* selection.c: the functions of a window as its component gave them. */
const gcm_window_functions *gcm_window_functions_of(const ompi_win_t *win);

/* origins.c, synchronizations.c: put our functions in place of those that read or write buffers of the origin, and of
 * those that complete operations at the origin. */
void gcm_stand_before_operations(gcm_window_functions *functions);
void gcm_stand_before_synchronizations(gcm_window_functions *functions);
/* Puts look_and_NAME() in the place of the component's function, unless the component has none. */
#define GCM_STAND_BEFORE(name) \
  if (functions->osc_##name != NULL) functions->osc_##name = look_and_##name;

#endif
