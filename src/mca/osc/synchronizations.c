/* The functions of windows that complete operations at their origin, and the end of a window. */
#include "mca/osc/operations.h"

/* Defines look_and_NAME(), which ends the operations to `ended` (a rank or kAllTargets) that had begun before. */
#define GCM_SYNCHRONIZATION(name, PARAMETERS, ARGUMENTS, ended)                    \
  static int look_and_##name PARAMETERS {                                          \
    const gcm_window_functions *functions = gcm_window_functions_of(win);          \
    if (GCM_LIKELY(!gcm_has_operations())) return functions->osc_##name ARGUMENTS; \
    const uint64_t last = gcm_last_operation();                                    \
    const int rc = functions->osc_##name ARGUMENTS;                                \
    return rc != OMPI_SUCCESS ? rc : gcm_end_operations(win, ended, last);         \
  }
#define GCM_OF_TARGET(name) GCM_SYNCHRONIZATION(name, (int target, ompi_win_t *win), (target, win), target)
#define GCM_OF_ALL(name) GCM_SYNCHRONIZATION(name, (ompi_win_t * win), (win), kAllTargets)

#define GCM_FUNCTIONS_OF_TARGET(f) f(unlock) f(flush) f(flush_local)
#define GCM_FUNCTIONS_OF_ALL(f) f(complete) f(unlock_all) f(flush_all) f(flush_local_all)

GCM_SYNCHRONIZATION(fence, (int assertion, ompi_win_t *win), (assertion, win), kAllTargets)
GCM_FUNCTIONS_OF_TARGET(GCM_OF_TARGET)
GCM_FUNCTIONS_OF_ALL(GCM_OF_ALL)

/* Frees the window, and forgets the operations that are left: they have failed, or their synchronisation has, and the
 * program's memory may be gone. */
static int look_and_free(ompi_win_t *win) {
  const int rc = gcm_window_functions_of(win)->osc_free(win);
  if (rc == OMPI_SUCCESS) gcm_forget_window(win);
  return rc;
}

void gcm_stand_before_synchronizations(gcm_window_functions *functions) {
  GCM_STAND_BEFORE(fence)
  GCM_FUNCTIONS_OF_TARGET(GCM_STAND_BEFORE)
  GCM_FUNCTIONS_OF_ALL(GCM_STAND_BEFORE)
  GCM_STAND_BEFORE(free)
}
