#include "mca/pt2pt/exchanges.h"

enum { kReceived, kSent }; /* of the inner requests; none: that side is MPI_PROC_NULL */

typedef struct exchange {
  gcm_outer_request super;
  void *packed;
} exchange;

static void construct(exchange *e) { e->packed = NULL; }
static void destruct(exchange *e) {
  if (e->packed != NULL) gcm_abi->stage_put(e->packed);
  OBJ_RELEASE(e->super.super.req_comm);
}
static OBJ_CLASS_INSTANCE(exchange, gcm_outer_request, construct, destruct);

static void end(gcm_outer_request *e) {
  ompi_request_t *outer = &e->super.req_ompi;
  ompi_status_public_t status = ompi_request_empty.req_status;
  ompi_request_t **received = &e->inner[kReceived], **sent = &e->inner[kSent];
  const int sent_rc = *sent == MPI_REQUEST_NULL ? MPI_SUCCESS : gcm_wait(sent, MPI_STATUS_IGNORE);
  const int received_rc = *received == MPI_REQUEST_NULL ? MPI_SUCCESS : gcm_wait(received, &status);
  outer->req_status = status;
  outer->req_status.MPI_ERROR = received_rc != MPI_SUCCESS ? received_rc : sent_rc;
}

static exchange *new_exchange(gcm_type *type, void *packed, ompi_communicator_t *comm) {
  exchange *e = OBJ_NEW(exchange);
  if (e == NULL) return NULL;
  gcm_outer_init(&e->super, OMPI_REQUEST_PML);
  mca_pml_base_request_t *outer = &e->super.super;
  outer->req_ompi.req_mpi_object.comm = comm;
  outer->req_type = MCA_PML_REQUEST_RECV;
  outer->req_comm = comm;
  outer->req_datatype = type;
  e->super.end = end;
  e->packed = packed;
  OBJ_RETAIN(comm);
  return e;
}

/* Begins both sides; the receive is taken back where the send fails. */
static int begin(exchange *e, void *buffer, size_t count, gcm_type *type, const gcm_exchange_route *r) {
  ompi_request_t **received = &e->super.inner[kReceived], **sent = &e->super.inner[kSent];
  int rc = MPI_SUCCESS;
  if (r->from != MPI_PROC_NULL) {
    rc = MCA_PML_CALL(irecv(buffer, count, type, r->from, r->recv_tag, r->comm, received));
  }
  if (rc == MPI_SUCCESS && r->to != MPI_PROC_NULL) {
    rc = MCA_PML_CALL(isend(e->packed, count * type->super.size, (gcm_type *)MPI_PACKED, r->to, r->send_tag,
                            MCA_PML_BASE_SEND_STANDARD, r->comm, sent));
  }
  if (rc != MPI_SUCCESS && *received != MPI_REQUEST_NULL) {
    (void)ompi_request_cancel(*received);
    (void)ompi_request_free(received);
  }
  return rc;
}

int gcm_begin_exchange(void *buffer, size_t count, gcm_type *type, void *packed, const gcm_exchange_route *route,
                       ompi_request_t **request) {
  exchange *e = new_exchange(type, packed, route->comm);
  if (e == NULL) {
    if (packed != NULL) gcm_abi->stage_put(packed);
    return MPI_ERR_NO_MEM;
  }
  const int rc = begin(e, buffer, count, type, route);
  if (rc != MPI_SUCCESS) {
    gcm_outer_release(&e->super);
    return rc;
  }
  gcm_outer_begun(&e->super);
  *request = &e->super.super.req_ompi;
  return MPI_SUCCESS;
}
