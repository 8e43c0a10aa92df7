#include "base/mutant.h"
#include "mca/common/outer_requests.h"
#include "mca/io/files.h"

struct gcm_file_request {
  gcm_outer_request super;
  gcm_access access;
  gcm_type *type; /* retained, as a component may keep it until the data are moved; NULL: need not be */
};

static void construct(gcm_file_request *r) {
  memset(&r->access, 0, sizeof r->access);
  r->type = NULL;
}
static void destruct(gcm_file_request *r) {
  gcm_unstage(&r->access.staged);
  if (r->type != NULL) OBJ_RELEASE(r->type);
}
static OBJ_CLASS_INSTANCE(gcm_file_request, gcm_outer_request, construct, destruct);

static void end(gcm_outer_request *outer) {
  gcm_file_request *r = (gcm_file_request *)outer;
  ompi_status_public_t status = ompi_status_empty;
  const int rc = gcm_wait(&outer->inner[0], &status);
  if (gc_mutant(507)) gcm_unstage(&r->access.staged);
  outer->super.req_ompi.req_status = status;
  outer->super.req_ompi.req_status.MPI_ERROR = gcm_end_begun_access(&r->access, rc);
}

gcm_file_request *gcm_file_request_new(ompi_file_t *file, gcm_type *type) {
  gcm_file_request *r = OBJ_NEW(gcm_file_request);
  if (r == NULL) {
    gcm_log_no_request();
    return NULL;
  }
  gcm_outer_init(&r->super, OMPI_REQUEST_IO);
  r->super.super.req_ompi.req_mpi_object.file = file;
  r->super.end = end;
  if (ompi_datatype_is_predefined(type) || gc_mutant(527)) return r;
  OBJ_RETAIN(type);
  r->type = type;
  return r;
}

gcm_access *gcm_access_of(gcm_file_request *r) { return &r->access; }

int gcm_follow(gcm_file_request *ours, int rc, ompi_request_t **request) {
  return gcm_outer_follow(&ours->super, rc, request);
}
