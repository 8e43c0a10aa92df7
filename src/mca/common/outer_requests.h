/* Requests of our own that stand for some of Open MPI's (`inner`), and complete some time after these. MPI
 * progress looks through those under way. The program may free one before it is complete.
 *
 * A kind of such requests is a class that begins with gcm_outer_request. Its destructor lets go of what it owns.
 * Thread safety: the list has a lock; what may call MPI or the application is done outside of it.
 */
#ifndef GPUCOLL_MCA_COMMON_OUTER_REQUESTS_H
#define GPUCOLL_MCA_COMMON_OUTER_REQUESTS_H

#include "mca/common/compat.h"
#include "ompi/mca/pml/base/pml_base_request.h"

enum { GCM_MOST_INNER = 4 };

/* Open MPI 5.0 takes requests with errors for those of a PML. */
typedef struct gcm_outer_request {
  mca_pml_base_request_t super;
  ompi_request_t *inner[GCM_MOST_INNER]; /* MPI_REQUEST_NULL: none */
  /* The inner ones are complete: ends them by gcm_wait(), and sets the status of `super`. */
  void (*end)(struct gcm_outer_request *request);
  /* Returns whether some inner ones never complete: `end` leaves them to Open MPI then. NULL: nobody knows. A lock is
   * held meanwhile. */
  bool (*is_lost)(struct gcm_outer_request *request);
  bool ended;    /* it is complete, or about to be */
  bool detached; /* the application has freed it while it was under way, or never had it */
  struct gcm_outer_request *next;
} gcm_outer_request;
OBJ_CLASS_DECLARATION(gcm_outer_request);

/* Makes a new one ready to be put under way. REQUIRES: the caller sets req_mpi_object to the object that
 * errors are told to: a communicator for OMPI_REQUEST_PML, a file for OMPI_REQUEST_IO. */
void gcm_outer_init(gcm_outer_request *request, ompi_request_type_t type);
/* Looks after a request whose inner ones have begun, from now on. */
void gcm_outer_begun(gcm_outer_request *request);
/* Looks after a request of ours that stands for Open MPI's, and puts it in the other's place. Open MPI has returned
 * `rc`: where it has failed, frees ours. Returns `rc`. */
int gcm_outer_follow(gcm_outer_request *ours, int rc, ompi_request_t **request);
/* Frees a request that has not begun. */
void gcm_outer_release(gcm_outer_request *request);
/* Says that there is no memory for a request of ours. */
void gcm_log_no_request(void);
void gcm_stop_outer_requests(void); /* none is under way any more */

/* As ompi_request_wait(), and frees a request that has failed as well. REQUIRES: it is not persistent. */
int gcm_wait(ompi_request_t **request, ompi_status_public_t *status);

#endif
