/* Receives into host memory: they go to the PML as they came. Only where one has brought an envelope of a message of
 * device memory, the message is taken from there, and the receive ends when its data are there. */
#include "mca/pt2pt/message_requests.h"
#include "mca/pt2pt/pt2pt.h"

static int make(void *buffer, size_t count, gcm_type *type, const gcm_route *route, bool persistent,
                ompi_request_t **request) {
  return gcm_make_message(buffer, count, type, false, route, true, persistent, request);
}

bool gcm_pml_delivers_cut_messages;
static bool ob1_runs; /* its requests say where they receive to */

void gcm_look_at_pml(void) {
  gcm_pml_delivers_cut_messages = ob1_runs =
      strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "ob1") == 0;
}

/* Returns whether a receive that has ended may have brought an envelope: by its size, and by how its data begin, where
 * that is easy to tell. */
static GCM_INLINE bool may_have_envelope(const void *buffer, size_t count, const gcm_type *type,
                                         const ompi_status_public_t *status) {
  if (GCM_LIKELY(!gcm_may_be_envelope(status->_ucount))) return false;
  if (status->_ucount == GC_ENVELOPE_BYTES) return true; /* or a message that was noted */
  if (count * type->super.size < GC_LEAST_ENVELOPE_BYTES) return false;
  if ((type->super.flags & OPAL_DATATYPE_FLAG_NO_GAPS) != OPAL_DATATYPE_FLAG_NO_GAPS) return true;
  const uint8_t *first = gcm_address(buffer, type->super.true_lb);
  return first[0] == GC_ENVELOPE_MAGIC_0 && first[1] == GC_ENVELOPE_MAGIC_1;
}

/* Returns a request that receives what the envelope was for, or NULL where there was none. */
static GCM_NOINLINE gcm_message_request *find_message(void *buffer, size_t count, gcm_type *type,
                                                      ompi_communicator_t *comm, const ompi_status_public_t *status,
                                                      bool matched) {
  gcm_message_data data;
  if (status->_cancelled || gcm_describe_data(&data, buffer, count, type, false) != MPI_SUCCESS) return NULL;
  return gcm_find_envelope(&data, comm, status, matched);
}

/* Ends a receive that the PML has ended with `rc`. */
static int end_receive(void *buffer, size_t count, gcm_type *type, ompi_communicator_t *comm, int rc,
                       ompi_status_public_t *found, bool matched, ompi_status_public_t *status) {
  found->MPI_ERROR = rc;
  if (may_have_envelope(buffer, count, type, found)) {
    gcm_message_request *r = find_message(buffer, count, type, comm, found, matched);
    if (r != NULL) {
      ompi_request_t *request = &r->super.req_ompi;
      gcm_watch_message(r);
      return gcm_wait(&request, status);
    }
  }
  if (status != MPI_STATUS_IGNORE) *status = *found;
  return rc;
}

int gcm_recv_host(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                  ompi_status_public_t *status) {
  if (!gcm_is_of_program(tag)) return gcm_pml.pml_recv(buffer, count, type, from, tag, comm, status);
  if (gcm_pml_loses_envelope(count * type->super.size)) {
    ompi_request_t *request;
    const int made = gcm_irecv_host(buffer, count, type, from, tag, comm, &request);
    return made != MPI_SUCCESS ? made : gcm_wait(&request, status);
  }
  ompi_status_public_t found = ompi_status_empty;
  const int rc = gcm_pml.pml_recv(buffer, count, type, from, tag, comm, &found);
  return end_receive(buffer, count, type, comm, rc, &found, false, status);
}

int gcm_mrecv_host(void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_status_public_t *status) {
  if (gcm_pml_loses_envelope(count * type->super.size)) {
    ompi_request_t *request;
    const int made = gcm_imrecv_host(buffer, count, type, message, &request);
    return made != MPI_SUCCESS ? made : gcm_wait(&request, status);
  }
  ompi_status_public_t found = ompi_status_empty;
  ompi_communicator_t *comm = (*message)->comm;
  const int rc = gcm_pml.pml_mrecv(buffer, count, type, message, &found);
  return end_receive(buffer, count, type, comm, rc, &found, true, status);
}

/* Where a receive of the PML's receives to. */
typedef struct target {
  void *buffer;
  size_t count;
  gcm_type *type;
  ompi_communicator_t *comm;
  bool matched;
} target;

static gcm_message_request *find_message_of(const target *t, const ompi_request_t *request) {
  return find_message(t->buffer, t->count, t->type, t->comm, &request->req_status, t->matched);
}

/* Requests of ob1 say it themselves; others have it from us. */
static target target_of(const ompi_request_t *request) {
  if (!ob1_runs) return *(const target *)request->req_complete_cb_data;
  const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)request;
  const bool matched = request->req_complete_cb_data != NULL;
  return (target){base->req_addr, base->req_count, base->req_datatype, base->req_comm, matched};
}

/* The program may free the type and the communicator before the receive ends. */
static bool keep_target(ompi_request_t *request, const target *t) {
  target *kept = malloc(sizeof *kept);
  if (kept == NULL) return false;
  *kept = *t;
  OBJ_RETAIN(t->comm);
  if (!ompi_datatype_is_predefined(t->type)) OBJ_RETAIN(t->type);
  request->req_complete_cb_data = kept;
  return true;
}

static void let_target_go(ompi_request_t *request) {
  target *kept = request->req_complete_cb_data;
  request->req_complete_cb_data = NULL;
  if (!ompi_datatype_is_predefined(kept->type)) OBJ_RELEASE(kept->type);
  OBJ_RELEASE(kept->comm);
  free(kept);
}

/* The PML is about to complete a receive; 1: it does not, as the message is still to be taken. */
static int on_receive(ompi_request_t *request) {
  gcm_message_request *r = NULL;
  if (gcm_may_be_envelope(request->req_status._ucount)) {
    const target t = target_of(request);
    if (may_have_envelope(t.buffer, t.count, t.type, &request->req_status)) r = find_message_of(&t, request);
  }
  if (!ob1_runs) let_target_go(request);
  if (GCM_LIKELY(r == NULL)) return 0;
  r->stands_for = request;
  gcm_watch_message(r);
  return 1;
}

/* Has a receive of the PML's, which may have ended by now, looked at when it ends. */
static int look_at_end(ompi_request_t **request, const target *t) {
  ompi_request_t *inner = *request;
  if (!REQUEST_COMPLETE(inner)) {
    if (!ob1_runs && !keep_target(inner, t)) return MPI_ERR_NO_MEM;
    if (ob1_runs) inner->req_complete_cb_data = t->matched ? inner : NULL;
    inner->req_complete_cb = on_receive;
    return MPI_SUCCESS;
  }
  if (!may_have_envelope(t->buffer, t->count, t->type, &inner->req_status)) return MPI_SUCCESS;
  gcm_message_request *r = find_message_of(t, inner);
  if (r == NULL) return MPI_SUCCESS;
  (void)ompi_request_free(&inner);
  *request = &r->super.req_ompi;
  gcm_watch_message(r);
  return MPI_SUCCESS;
}

/* With several threads another one may complete a request before it can be told whom to call. */
static GCM_INLINE bool can_look_at_end(size_t count, const gcm_type *type) {
  return !opal_using_threads() && !gcm_pml_loses_envelope(count * type->super.size);
}

int gcm_irecv_host(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                   ompi_request_t **request) {
  if (!gcm_is_of_program(tag)) return gcm_pml.pml_irecv(buffer, count, type, from, tag, comm, request);
  if (GCM_LIKELY(can_look_at_end(count, type))) {
    const target t = {buffer, count, type, comm, false};
    const int rc = gcm_pml.pml_irecv(buffer, count, type, from, tag, comm, request);
    return rc != MPI_SUCCESS ? rc : look_at_end(request, &t);
  }
  const gcm_route route = {.peer = from, .tag = tag, .comm = comm};
  return make(buffer, count, type, &route, false, request);
}

int gcm_imrecv_host(void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_request_t **request) {
  if (GCM_LIKELY(can_look_at_end(count, type))) {
    const target t = {buffer, count, type, (*message)->comm, true};
    const int rc = gcm_pml.pml_imrecv(buffer, count, type, message, request);
    return rc != MPI_SUCCESS ? rc : look_at_end(request, &t);
  }
  const gcm_route route = {.comm = (*message)->comm, .message = message};
  return make(buffer, count, type, &route, false, request);
}

int gcm_irecv_init_host(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                        ompi_request_t **request) {
  if (!gcm_is_of_program(tag)) return gcm_pml.pml_irecv_init(buffer, count, type, from, tag, comm, request);
  const gcm_route route = {.peer = from, .tag = tag, .comm = comm};
  return make(buffer, count, type, &route, true, request);
}
