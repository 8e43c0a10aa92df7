/* One-sided operations whose buffers at the origin are staged. Each window that has had one has a record, with a list
 * of those under way. MPI_Win_free ends what is left, and frees the record.
 *
 * A synchronization may end what had begun before it, and no more: other threads may have begun operations since that
 * the component has not completed. So operations have numbers. What one thread is storing, all wait for that end it.
 *
 * Thread safety: one lock for the records and lists; data are copied outside of it. Ownership: an operation owns its
 * host memory. It belongs to the list until it has ended, or to its request.
 */
#ifndef GPUCOLL_MCA_OSC_OPERATIONS_H
#define GPUCOLL_MCA_OSC_OPERATIONS_H

#include <stdatomic.h>

#include "mca/coll/staging.h"
#include "mca/common/outer_requests.h"
#include "mca/osc/windows.h"

typedef struct gcm_window_record gcm_window_record;

typedef struct gcm_operation {
  gcm_staged staged; /* send: what the operation reads at the origin; recv: what it writes there */
  gcm_window_record *record;
  int target;
  bool of_request;
  uint64_t number;
  struct gcm_operation *next, **link; /* link: what points to it in the list; NULL: in none */
  int rc;                             /* what storing its results has ended with */
  atomic_bool stored;
} gcm_operation;

/* ---- operations.c ---- */

/* Makes one, and stages and loads its buffers. Returns an MPI error class. On an error, which has been logged, there is
 * none. */
int gcm_operation_new(gcm_operation **made, ompi_win_t *win, int target, const gcm_plan *plan);
/* Does the same for one that is part of a request. */
int gcm_operation_init(gcm_operation *op, ompi_win_t *win, int target, const gcm_plan *plan);
/* Says that there is no memory for an operation. Returns MPI_ERR_NO_MEM. */
int gcm_no_memory_for_operation(void);
/* Puts one under way, which the component has begun. */
void gcm_operation_begun(gcm_operation *op);
/* Frees one that has not begun, or has ended. */
void gcm_operation_release(gcm_operation *op);

/* Returns whether there may be any. */
bool gcm_has_operations(void);
/* Returns the number of the last one that has begun. */
uint64_t gcm_last_operation(void);
enum { kAllTargets = -1 };
/* The component has completed the operations to a target up to that number: stores their results, and ends them.
 * Returns an MPI error class. */
int gcm_end_operations(ompi_win_t *win, int target, uint64_t last);
/* The request of an operation is complete: stores its results, unless that has been done or the operation has `failed`
 * (an MPI error class). Returns an MPI error class. */
int gcm_end_operation(gcm_operation *op, int failed);
/* The window has been freed. */
void gcm_forget_window(ompi_win_t *win);

/* ---- operation_requests.c ---- */

/* A request of ours that stands for the component's, and completes when the results are where they belong. */
typedef struct gcm_window_request {
  gcm_outer_request super;
  gcm_operation operation;
} gcm_window_request;

int gcm_window_request_new(gcm_window_request **made, ompi_win_t *win, int target, const gcm_plan *plan);
/* The component has returned `rc`, and its request where that is MPI_SUCCESS: follows that. Returns `rc`. */
int gcm_window_request_begun(gcm_window_request *ours, int rc, ompi_request_t **request);

#endif
