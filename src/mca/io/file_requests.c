#include "base/mutant.h"
#include "mca/common/outer_requests.h"
#include "mca/io/files.h"

struct gcm_file_request {
  gcm_outer_request super;
  gcm_staged staged;
  gcm_type *type; /* retained; NULL: not yet */
};

static void construct(gcm_file_request *r) {
  memset(&r->staged, 0, sizeof r->staged);
  r->type = NULL;
}
static void destruct(gcm_file_request *r) {
  gcm_unstage(&r->staged);
  if (r->type != NULL) OBJ_RELEASE(r->type);
}
static OBJ_CLASS_INSTANCE(gcm_file_request, gcm_outer_request, construct, destruct);

static void end(gcm_outer_request *outer) {
  gcm_file_request *r = (gcm_file_request *)outer;
  ompi_status_public_t status = ompi_status_empty;
  int rc = gcm_wait(&outer->inner[0], &status);
  if (gc_mutant(507)) {
    gcm_unstage(&r->staged);
  } else {
    rc = gcm_end_access(&r->staged, rc);
  }
  outer->super.req_ompi.req_status = status;
  outer->super.req_ompi.req_status.MPI_ERROR = rc;
}

/* A component may keep the type until the data are moved. */
static void keep_type(gcm_file_request *r, gcm_type *type) {
  if (ompi_datatype_is_predefined(type)) return;
  OBJ_RETAIN(type);
  r->type = type;
}

int gcm_begin_file_request(gcm_file_request **begun, ompi_file_t *file, const void *buffer, int count, gcm_type *type,
                           bool reads, void **handed) {
  gcm_file_request *r = OBJ_NEW(gcm_file_request);
  if (r == NULL) return MPI_ERR_NO_MEM;
  gcm_outer_init(&r->super, OMPI_REQUEST_IO);
  r->super.super.req_ompi.req_mpi_object.file = file;
  r->super.end = end;
  keep_type(r, type);
  const int rc = gcm_stage_access(&r->staged, buffer, count, type, reads);
  if (rc != MPI_SUCCESS) {
    gcm_outer_release(&r->super);
    return rc;
  }
  *handed = gcm_handed(&r->staged.recv, buffer);
  *begun = r;
  return MPI_SUCCESS;
}

int gcm_follow_file_request(gcm_file_request *begun, int rc, ompi_request_t **request) {
  if (rc != MPI_SUCCESS) {
    gcm_outer_release(&begun->super);
    return rc;
  }
  begun->super.inner[0] = *request;
  *request = &begun->super.super.req_ompi;
  gcm_outer_begun(&begun->super);
  return MPI_SUCCESS;
}
