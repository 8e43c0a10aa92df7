#include "base/mutant.h"
#include "mca/osc/operations.h"

static void construct(gcm_window_request *r) {
  memset(&r->operation, 0, sizeof r->operation);
  r->operation.of_request = true;
}
static void destruct(gcm_window_request *r) { gcm_unstage(&r->operation.staged); }
static OBJ_CLASS_INSTANCE(gcm_window_request, gcm_outer_request, construct, destruct);

static void end(gcm_outer_request *outer) {
  gcm_window_request *r = (gcm_window_request *)outer;
  ompi_status_public_t status = ompi_status_empty;
  const int rc = gcm_wait(&outer->inner[0], &status);
  if (gc_mutant(516)) gcm_unstage(&r->operation.staged);
  outer->super.req_ompi.req_status = status;
  outer->super.req_ompi.req_status.MPI_ERROR = gcm_end_operation(&r->operation, rc);
}

int gcm_window_request_new(gcm_window_request **made, ompi_win_t *win, int target, const gcm_plan *plan) {
  gcm_window_request *r = OBJ_NEW(gcm_window_request);
  if (r == NULL) {
    gcm_log_no_request();
    return MPI_ERR_NO_MEM;
  }
  gcm_outer_init(&r->super, OMPI_REQUEST_WIN);
  r->super.super.req_ompi.req_mpi_object.win = win;
  r->super.end = end;
  const int rc = gcm_operation_init(&r->operation, win, target, plan);
  if (rc != MPI_SUCCESS) gcm_outer_release(&r->super);
  *made = r;
  return rc;
}

int gcm_window_request_begun(gcm_window_request *ours, int rc, ompi_request_t **request) {
  if (rc == MPI_SUCCESS)
    gcm_operation_begun(&ours->operation);
  else
    gcm_abandon(&ours->operation.staged);
  return gcm_outer_follow(&ours->super, rc, request);
}
