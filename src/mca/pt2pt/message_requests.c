#include "mca/pt2pt/message_requests.h"

#include <stdio.h>

#include "mca/pt2pt/message_steps.h"
#include "mca/pt2pt/message_traces.h"
#include "mca/pt2pt/pt2pt.h"

/* ---- host memory ---- */

static void *or_complain(void *memory, size_t bytes) {
  char line[160];
  if (memory != NULL) return memory;
  snprintf(line, sizeof line,
           "this rank has no %zu bytes of host memory left to carry a message of device memory: use smaller messages",
           bytes);
  gcm_abi->log(-1, line);
  return NULL;
}

void *gcm_host_memory(size_t bytes) { return or_complain(gcm_abi->stage_get(bytes), bytes); }

/* An envelope has room in it, too. */
size_t gcm_host_bytes(const gcm_message_request *r) {
  const size_t bytes = r->data.place.bytes;
  return gcm_pt2pt != NULL && bytes < GC_ENVELOPE_BYTES ? GC_ENVELOPE_BYTES : bytes;
}

bool gcm_take_host_memory(gcm_message_request *r) {
  const size_t bytes = gcm_host_bytes(r);
  if (r->host == NULL) {
    r->host = or_complain(r->receives ? gcm_abi->stage_reserve(bytes) : gcm_abi->stage_get(bytes), bytes);
  }
  return r->host != NULL;
}

/* ---- what MPI asks of a request ---- */

static int start_one(gcm_message_request *r) {
  ompi_request_t *outer = &r->super.req_ompi;
  outer->req_complete = REQUEST_PENDING;
  outer->req_status = ompi_status_empty;
  const int rc = gcm_begin_message(r);
  if (rc != MPI_SUCCESS) outer->req_complete = REQUEST_COMPLETED;
  return rc;
}

int gcm_start_messages(size_t count, ompi_request_t **requests) {
  int rc = MPI_SUCCESS;
  for (size_t i = 0; i < count && rc == MPI_SUCCESS; i++) rc = start_one((gcm_message_request *)requests[i]);
  return rc;
}

static int request_free(ompi_request_t **request) {
  gcm_message_request *r = (gcm_message_request *)*request;
  *request = MPI_REQUEST_NULL;
  opal_mutex_lock(&gcm_list_lock);
  const bool under_way_now = r->super.req_ompi.req_state == OMPI_REQUEST_ACTIVE && !r->ended;
  if (under_way_now) r->detached = true;
  opal_mutex_unlock(&gcm_list_lock);
  if (under_way_now) return OMPI_SUCCESS;
  gcm_await_completion(&r->super.req_ompi);
  gcm_message_request_release(r);
  return OMPI_SUCCESS;
}

/* The PML's request tells, when it ends, whether it was cancelled. What is offered cannot be. */
static int request_cancel(ompi_request_t *request, int flag) {
  (void)flag;
  gcm_message_request *r = (gcm_message_request *)request;
  opal_mutex_lock(&gcm_list_lock);
  const bool can = r->listed && gcm_has_inner(r) && r->transfer == NULL && r->pieces == NULL;
  if (can) r->cancelling++; /* so that nobody frees the PML's request */
  opal_mutex_unlock(&gcm_list_lock);
  if (!can) return OMPI_SUCCESS;
  const int rc = ompi_request_cancel(r->inner); /* may make progress, and end other receives */
  opal_mutex_lock(&gcm_list_lock);
  r->cancelling--;
  opal_mutex_unlock(&gcm_list_lock);
  return rc;
}

/* ---- making and releasing them ---- */

static void request_construct(gcm_message_request *r) {
  ompi_request_t *outer = &r->super.req_ompi;
  outer->req_type = OMPI_REQUEST_PML;
  outer->req_free = request_free;
  outer->req_cancel = request_cancel;
  outer->req_start = gcm_start_messages;
  outer->req_status = ompi_status_empty;
  r->inner = MPI_REQUEST_NULL;
  r->transfer = NULL;
  r->pieces = NULL;
  r->stands_for = NULL;
  r->host = NULL;
  r->next = NULL;
  r->started = r->straight = r->listed = r->ended = r->detached = false;
  r->traced = (gc_traced){0, 0};
  r->cancelling = 0;
}
OBJ_CLASS_INSTANCE(gcm_message_request, mca_pml_base_request_t, request_construct, NULL);

gcm_message_request *gcm_message_request_new(const gcm_message_data *data, const gcm_route *route, bool receives,
                                             bool persistent) {
  gcm_message_request *r = OBJ_NEW(gcm_message_request);
  if (r == NULL) {
    gcm_log_no_request();
    return NULL;
  }
  OMPI_REQUEST_INIT(&r->super.req_ompi, persistent);
  r->super.req_ompi.req_mpi_object.comm = route->comm;
  r->super.req_type = receives ? MCA_PML_REQUEST_RECV : MCA_PML_REQUEST_SEND;
  r->super.req_comm = route->comm;
  r->super.req_datatype = data->type;
  r->data = *data;
  r->route = *route;
  r->receives = receives;
  r->matched = route->message != NULL;
  OBJ_RETAIN(route->comm);
  if (!ompi_datatype_is_predefined(data->type)) OBJ_RETAIN(data->type);
  return r;
}

void gcm_message_request_release(gcm_message_request *r) {
  ompi_communicator_t *comm = r->route.comm;
  gcm_type *type = r->data.type;
  gcm_withdraw(r);
  if (r->host != NULL) gcm_abi->stage_put(r->host);
  OMPI_REQUEST_FINI(&r->super.req_ompi);
  OBJ_RELEASE(r);
  if (!ompi_datatype_is_predefined(type)) OBJ_RELEASE(type);
  OBJ_RELEASE(comm);
}

int gcm_begin_message(gcm_message_request *r) {
  r->ended = false;
  r->rc = MPI_SUCCESS;
  r->slow = GC_CAUSE_none;
  r->straight = false;
  gcm_trace_begin(r);
  if (!r->receives) gcm_lock_order();
  const int rc = r->receives ? gcm_begin_receive(r) : gcm_begin_send(r);
  if (!r->receives) gcm_unlock_order();
  if (r->slow != GC_CAUSE_none) gcm_tell_slow_message(&r->route, r->slow);
  if (rc != MPI_SUCCESS) {
    gcm_withdraw(r);
    r->rc = rc;
    gcm_trace_end(r, NULL);
    return rc;
  }
  r->super.req_ompi.req_state = OMPI_REQUEST_ACTIVE;
  gcm_watch_message(r);
  return MPI_SUCCESS;
}

int gcm_make_message(const void *buffer, size_t count, gcm_type *type, bool on_device, const gcm_route *route,
                     bool receives, bool persistent, ompi_request_t **request) {
  gcm_message_data data;
  int rc = gcm_describe_data(&data, buffer, count, type, on_device);
  if (rc != MPI_SUCCESS) return rc;
  gcm_message_request *r = gcm_message_request_new(&data, route, receives, persistent);
  if (r == NULL) return MPI_ERR_NO_MEM;
  if (!persistent) rc = gcm_begin_message(r);
  if (rc != MPI_SUCCESS) {
    gcm_message_request_release(r);
    return rc;
  }
  *request = &r->super.req_ompi;
  return MPI_SUCCESS;
}
