#include "mca/pt2pt/exchanges.h"

#include <stdatomic.h>

/* Open MPI 5.0 takes requests with errors for those of a PML. */
typedef struct exchange {
  mca_pml_base_request_t super;
  ompi_request_t *received, *sent; /* MPI_REQUEST_NULL: that side is MPI_PROC_NULL */
  void *packed;
  bool ended;    /* it is complete, or about to be */
  bool detached; /* the application has freed it while it was under way */
  struct exchange *next;
} exchange;

static opal_mutex_t list_lock = OPAL_MUTEX_STATIC_INIT;
static exchange *under_way;
static atomic_int n_under_way; /* as a look without the lock */
static bool progress_registered;

static void release(exchange *e) {
  ompi_communicator_t *comm = e->super.req_comm;
  if (e->packed != NULL) gcm_abi->stage_put(e->packed);
  OMPI_REQUEST_FINI(&e->super.req_ompi);
  OBJ_RELEASE(e);
  OBJ_RELEASE(comm);
}

/* ---- progress ---- */

static bool has_ended(const ompi_request_t *request) { return request == MPI_REQUEST_NULL || gcm_is_complete(request); }

/* Returns an exchange of which both sides have ended, no longer in the list, or NULL. */
static exchange *take_ready(void) {
  opal_mutex_lock(&list_lock);
  exchange **link = &under_way;
  while (*link != NULL && !(has_ended((*link)->received) && has_ended((*link)->sent))) link = &(*link)->next;
  exchange *e = *link;
  if (e != NULL) {
    *link = e->next;
    atomic_fetch_sub_explicit(&n_under_way, 1, memory_order_relaxed);
  }
  opal_mutex_unlock(&list_lock);
  return e;
}

static void end(exchange *e) {
  ompi_request_t *outer = &e->super.req_ompi;
  ompi_status_public_t status = ompi_request_empty.req_status;
  const int sent = e->sent == MPI_REQUEST_NULL ? MPI_SUCCESS : gcm_wait(&e->sent, MPI_STATUS_IGNORE);
  const int received = e->received == MPI_REQUEST_NULL ? MPI_SUCCESS : gcm_wait(&e->received, &status);
  opal_mutex_lock(&list_lock);
  e->ended = true;
  const bool detached = e->detached;
  opal_mutex_unlock(&list_lock);
  if (detached) {
    release(e);
    return;
  }
  outer->req_status = status;
  outer->req_status.MPI_ERROR = received != MPI_SUCCESS ? received : sent;
  gcm_complete(outer);
}

static int progress(void) {
  int ended = 0;
  while (atomic_load_explicit(&n_under_way, memory_order_relaxed) != 0) {
    exchange *e = take_ready();
    if (e == NULL) break;
    end(e);
    ended++;
  }
  return ended;
}

static void put_under_way(exchange *e) {
  opal_mutex_lock(&list_lock);
  if (!progress_registered) opal_progress_register(progress);
  progress_registered = true;
  e->next = under_way;
  under_way = e;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
  opal_mutex_unlock(&list_lock);
}

void gcm_stop_exchanges(void) {
  if (progress_registered) opal_progress_unregister(progress);
  progress_registered = false;
}

/* ---- what MPI asks of a request ---- */

static int request_free(ompi_request_t **request) {
  exchange *e = (exchange *)*request;
  *request = MPI_REQUEST_NULL;
  opal_mutex_lock(&list_lock);
  const bool under_way_now = !e->ended;
  if (under_way_now) e->detached = true;
  opal_mutex_unlock(&list_lock);
  if (under_way_now) return OMPI_SUCCESS;
  gcm_await_completion(&e->super.req_ompi);
  release(e);
  return OMPI_SUCCESS;
}

static void construct(exchange *e) {
  ompi_request_t *outer = &e->super.req_ompi;
  outer->req_type = OMPI_REQUEST_PML;
  outer->req_free = request_free;
  outer->req_cancel = NULL;
  outer->req_start = NULL;
  outer->req_status = ompi_status_empty;
  e->received = e->sent = MPI_REQUEST_NULL;
  e->packed = NULL;
  e->ended = e->detached = false;
}
static OBJ_CLASS_INSTANCE(exchange, mca_pml_base_request_t, construct, NULL);

/* ---- beginning ---- */

static exchange *new_exchange(gcm_type *type, void *packed, ompi_communicator_t *comm) {
  exchange *e = OBJ_NEW(exchange);
  if (e == NULL) return NULL;
  OMPI_REQUEST_INIT(&e->super.req_ompi, false);
  e->super.req_ompi.req_mpi_object.comm = comm;
  e->super.req_ompi.req_state = OMPI_REQUEST_ACTIVE;
  e->super.req_type = MCA_PML_REQUEST_RECV;
  e->super.req_comm = comm;
  e->super.req_datatype = type;
  e->packed = packed;
  OBJ_RETAIN(comm);
  return e;
}

/* Begins both sides; the receive is taken back where the send fails. */
static int begin(exchange *e, void *buffer, size_t count, gcm_type *type, const gcm_exchange_route *r) {
  int rc = MPI_SUCCESS;
  if (r->from != MPI_PROC_NULL) {
    rc = MCA_PML_CALL(irecv(buffer, count, type, r->from, r->recv_tag, r->comm, &e->received));
  }
  if (rc == MPI_SUCCESS && r->to != MPI_PROC_NULL) {
    rc = MCA_PML_CALL(isend(e->packed, count * type->super.size, (gcm_type *)MPI_PACKED, r->to, r->send_tag,
                            MCA_PML_BASE_SEND_STANDARD, r->comm, &e->sent));
  }
  if (rc != MPI_SUCCESS && e->received != MPI_REQUEST_NULL) {
    (void)ompi_request_cancel(e->received);
    (void)ompi_request_free(&e->received);
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
    release(e);
    return rc;
  }
  put_under_way(e);
  *request = &e->super.req_ompi;
  return MPI_SUCCESS;
}
