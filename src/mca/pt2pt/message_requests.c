#include "mca/pt2pt/message_requests.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/mutant.h"
#include "mca/pt2pt/pt2pt.h"

static opal_mutex_t list_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_message_request *under_way, **under_way_end = &under_way;
static atomic_int n_under_way; /* as a look without the lock */
static bool progress_registered;

void *gcm_host_memory(size_t bytes) {
  void *memory = gcm_abi->stage_get(bytes);
  char line[160];
  if (memory != NULL) return memory;
  snprintf(line, sizeof line,
           "this rank has no %zu bytes of host memory left to carry a message of device memory: use smaller messages",
           bytes);
  gcm_abi->log(-1, line);
  return NULL;
}

/* ---- the ends ---- */

/* Ends the PML's request, which is complete, and brings what it received to the device. */
static int end_inner(gcm_message_request *r, ompi_status_public_t *status) {
  int rc = ompi_request_wait(&r->inner, status);
  const bool has_data = r->receives && !status->_cancelled && (rc == MPI_SUCCESS || rc == MPI_ERR_TRUNCATE);
  const size_t came = gc_mutant(200) ? r->data.bytes : status->_ucount;
  const int stored = has_data ? gcm_store_data(&r->data, r->host, came) : MPI_SUCCESS;
  return rc != MPI_SUCCESS ? rc : stored;
}

static void end(gcm_message_request *r) {
  ompi_request_t *outer = &r->super.req_ompi;
  ompi_status_public_t status = ompi_status_empty;
  const int rc = end_inner(r, &status);
  status.MPI_ERROR = gc_mutant(204) ? MPI_SUCCESS : rc;
  outer->req_status = status;
  if (gc_mutant(201)) outer->req_status.MPI_SOURCE = MPI_ANY_SOURCE;
  opal_mutex_lock(&list_lock);
  r->ended = true;
  const bool detached = r->detached;
  opal_mutex_unlock(&list_lock);
  if (detached) {
    gcm_message_request_release(r);
    return;
  }
  /* Open MPI 4.1 completes by a relaxed exchange, and another thread may be polling. */
  atomic_thread_fence(memory_order_release);
  ompi_request_complete(outer, true); /* from here on `r` may be gone */
}

/* ---- progress ---- */

static gcm_message_request *take_complete(void) {
  gcm_message_request *complete = NULL, **complete_end = &complete, **link = &under_way;
  while (*link != NULL) {
    gcm_message_request *r = *link;
    if (!REQUEST_COMPLETE(r->inner)) {
      link = &r->next;
      continue;
    }
    *link = r->next;
    r->next = NULL;
    r->listed = false;
    *complete_end = r;
    complete_end = &r->next;
    atomic_fetch_sub_explicit(&n_under_way, 1, memory_order_relaxed);
  }
  under_way_end = link;
  return complete;
}

static int progress(void) {
  if (GCM_LIKELY(atomic_load_explicit(&n_under_way, memory_order_relaxed) == 0)) return 0;
  if (opal_mutex_trylock(&list_lock) != 0) return 0;
  gcm_message_request *complete = take_complete();
  opal_mutex_unlock(&list_lock);
  int ended = 0;
  while (complete != NULL) {
    gcm_message_request *r = complete;
    complete = r->next;
    end(r);
    ended++;
  }
  return ended;
}

void gcm_message_request_begin(gcm_message_request *r) {
  r->super.req_ompi.req_state = OMPI_REQUEST_ACTIVE;
  opal_mutex_lock(&list_lock);
  if (!progress_registered) {
    opal_progress_register(progress);
    progress_registered = true;
  }
  r->next = NULL;
  r->listed = true;
  *under_way_end = r;
  under_way_end = &r->next;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
  opal_mutex_unlock(&list_lock);
}

void gcm_stop_messages(void) {
  if (progress_registered) opal_progress_unregister(progress);
  progress_registered = false;
}

/* ---- what MPI asks of a request ---- */

bool gcm_is_message_request(const ompi_request_t *request) {
  return ((const opal_object_t *)request)->obj_class == OBJ_CLASS(gcm_message_request);
}

static int give_to_pml(gcm_message_request *r) {
  gcm_type *const type = (gcm_type *)MPI_BYTE;
  const int peer = r->super.req_peer, tag = r->super.req_tag;
  const mca_pml_base_send_mode_t mode = gc_mutant(202) ? MCA_PML_BASE_SEND_STANDARD : r->mode;
  if (r->receives) return gcm_pml.pml_irecv(r->host, r->data.bytes, type, peer, tag, r->super.req_comm, &r->inner);
  return gcm_pml.pml_isend(r->host, r->data.bytes, type, peer, tag, mode, r->super.req_comm, &r->inner);
}

int gcm_message_request_start(gcm_message_request *r) {
  ompi_request_t *outer = &r->super.req_ompi;
  const bool loads = !r->receives && !(gc_mutant(203) && r->ended);
  int rc = loads ? gcm_load_data(&r->data, r->host) : MPI_SUCCESS;
  if (rc != MPI_SUCCESS) return rc;
  outer->req_complete = REQUEST_PENDING;
  outer->req_status = ompi_status_empty;
  r->ended = false;
  rc = give_to_pml(r);
  if (rc == MPI_SUCCESS)
    gcm_message_request_begin(r);
  else
    outer->req_complete = REQUEST_COMPLETED;
  return rc;
}

int gcm_start_messages(size_t count, ompi_request_t **requests) {
  int rc = MPI_SUCCESS;
  for (size_t i = 0; i < count && rc == MPI_SUCCESS; i++)
    rc = gcm_message_request_start((gcm_message_request *)requests[i]);
  return rc;
}

static int request_free(ompi_request_t **request) {
  gcm_message_request *r = (gcm_message_request *)*request;
  *request = MPI_REQUEST_NULL;
  opal_mutex_lock(&list_lock);
  const bool under_way_now = r->super.req_ompi.req_state == OMPI_REQUEST_ACTIVE && !r->ended;
  if (under_way_now) r->detached = true;
  opal_mutex_unlock(&list_lock);
  if (under_way_now) return OMPI_SUCCESS;
  while (!REQUEST_COMPLETE(&r->super.req_ompi)) continue; /* another thread is about to complete it */
  gcm_message_request_release(r);
  return OMPI_SUCCESS;
}

/* The PML's request tells, when it ends, whether it was cancelled. */
static int request_cancel(ompi_request_t *request, int flag) {
  (void)flag;
  gcm_message_request *r = (gcm_message_request *)request;
  opal_mutex_lock(&list_lock); /* while it is in the list, nobody frees the PML's request */
  const int rc = r->listed ? ompi_request_cancel(r->inner) : OMPI_SUCCESS;
  opal_mutex_unlock(&list_lock);
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
  r->host = NULL;
  r->next = NULL;
  r->listed = r->ended = r->detached = false;
}
OBJ_CLASS_INSTANCE(gcm_message_request, mca_pml_base_request_t, request_construct, NULL);

gcm_message_request *gcm_message_request_new(const gcm_message_data *data, gcm_type *type, ompi_communicator_t *comm,
                                             bool receives, bool persistent, int *rc) {
  gcm_message_request *r = OBJ_NEW(gcm_message_request);
  *rc = MPI_ERR_NO_MEM;
  if (r == NULL) return NULL;
  r->host = gcm_host_memory(data->bytes);
  if (r->host == NULL) {
    OBJ_RELEASE(r);
    return NULL;
  }
  OMPI_REQUEST_INIT(&r->super.req_ompi, persistent);
  r->super.req_ompi.req_mpi_object.comm = comm;
  r->super.req_type = receives ? MCA_PML_REQUEST_RECV : MCA_PML_REQUEST_SEND;
  r->super.req_comm = comm;
  r->super.req_datatype = type;
  r->data = *data;
  r->receives = receives;
  OBJ_RETAIN(comm);
  if (!ompi_datatype_is_predefined(type)) OBJ_RETAIN(type);
  *rc = MPI_SUCCESS;
  return r;
}

void gcm_message_request_release(gcm_message_request *r) {
  ompi_communicator_t *comm = r->super.req_comm;
  gcm_type *type = r->super.req_datatype;
  if (r->inner != NULL && r->inner != MPI_REQUEST_NULL) (void)ompi_request_free(&r->inner);
  gcm_abi->stage_put(r->host);
  OMPI_REQUEST_FINI(&r->super.req_ompi);
  OBJ_RELEASE(r);
  if (!ompi_datatype_is_predefined(type)) OBJ_RELEASE(type);
  OBJ_RELEASE(comm);
}
