#include "mca/coll/requests.h"

#include <stdatomic.h>

#include "mca/common/outer_requests.h"

static opal_mutex_t list_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_request *under_way, **under_way_end = &under_way;
static atomic_int n_under_way; /* as a look without the lock */
static bool progress_registered;

static bool is_persistent(const gcm_request *r) { return r->super.super.req_persistent; }

/* ---- the list ---- */

static int progress(void);

/* REQUIRES: the lock. */
static void put_in_list(gcm_request *r) {
  if (!progress_registered) {
    opal_progress_register(progress);
    progress_registered = true;
  }
  r->next = NULL;
  r->listed = true;
  *under_way_end = r;
  under_way_end = &r->next;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
}

static void put_under_way(gcm_request *r) {
  opal_mutex_lock(&list_lock);
  put_in_list(r);
  opal_mutex_unlock(&list_lock);
}

/* REQUIRES: the lock. `link` points to it. */
static gcm_request *take_out(gcm_request **link) {
  gcm_request *r = *link;
  *link = r->next;
  if (*link == NULL) under_way_end = link;
  r->next = NULL;
  r->listed = false;
  atomic_fetch_sub_explicit(&n_under_way, 1, memory_order_relaxed);
  return r;
}

/* Other threads write it. Acquire: partner is the engine's release. */
static int state_of(const gc_pending *pending) { return __atomic_load_n(&pending->state, __ATOMIC_ACQUIRE); }

/* Returns whether there is something to do for the request, after the engine has had its turn. */
static bool is_ready(gcm_request *r, const gcm_module **turned) {
  if (r->pending == NULL) return gcm_is_complete(r->inner);
  if (*turned != r->module) gcm_abi->turn(r->module->comm);
  *turned = r->module;
  return state_of(r->pending) != GC_WAITS;
}

static gcm_request *take_ready(void) {
  const gcm_module *turned = NULL;
  gcm_request *ready = NULL, **ready_end = &ready, **link = &under_way;
  while (*link != NULL) {
    if (!is_ready(*link, &turned)) {
      link = &(*link)->next;
      continue;
    }
    gcm_request *r = take_out(link);
    const int state = r->pending != NULL ? state_of(r->pending) : GC_ENDED;
    if (state == GC_READY) continue; /* until it is started */
    r->listed = is_persistent(r) && state == GC_HOST_TURN;
    *ready_end = r;
    ready_end = &r->next;
  }
  return ready;
}

/* ---- the ends ---- */

static void complete(gcm_request *r, int rc) {
  ompi_request_t *outer = &r->super.super;
  ompi_communicator_t *retained = is_persistent(r) ? NULL : r->module->communicator;
  if (!is_persistent(r)) gcm_unstage(&r->staged);
  outer->req_status.MPI_ERROR = rc;
  gcm_complete(outer); /* from here on `r` may be gone */
  if (retained != NULL) OBJ_RELEASE(retained);
}

static void end_on_host(gcm_request *r) {
  /* Done already: this ends the inner request in whichever way its kind needs, without waiting. */
  int rc = ompi_request_wait(&r->inner, MPI_STATUS_IGNORE);
  if (rc == MPI_SUCCESS) rc = gcm_store(&r->staged);
  complete(r, rc);
}

static void end_on_engine(gcm_request *r) {
  const int rc = gcm_abi->end(r->pending);
  if (!is_persistent(r)) r->pending = NULL;
  complete(r, rc);
}

/* ---- its turn on the host ---- */

static void begin_now(gcm_request *r) {
  gc_pending *pending = r->pending;
  r->pending = NULL;
  const int rc = r->begin_on_host(r);
  if (pending != NULL) gcm_abi->host_begun(pending);
  if (rc == MPI_SUCCESS) {
    put_under_way(r);
  } else {
    complete(r, rc);
  }
}

static int start_on_host(gcm_request *r) {
  if (r->made != MPI_SUCCESS) return r->made;
  int rc = gcm_load(&r->staged);
  /* Nothing to do, as for one rank, is a request without a start that is always complete. */
  if (rc == MPI_SUCCESS && r->inner->req_start != NULL) rc = r->inner->req_start(1, &r->inner);
  if (rc == MPI_SUCCESS) put_under_way(r);
  return rc;
}

/* Another thread may start it meanwhile: whether it comes before, the lock tells. */
static void make_now(gcm_request *r) {
  gc_pending *pending = r->pending;
  const int rc = r->begin_on_host(r);
  opal_mutex_lock(&list_lock);
  const bool wanted = r->wanted;
  r->made = rc;
  r->wanted = r->listed = false;
  r->pending = NULL;
  opal_mutex_unlock(&list_lock);
  if (pending != NULL) gcm_abi->host_begun(pending);
  if (!wanted) return; /* the application may have freed it by now */
  const int started = start_on_host(r);
  if (started != MPI_SUCCESS) complete(r, started);
}

/* ---- progress ---- */

static void attend(gcm_request *r) {
  if (r->pending == NULL) {
    end_on_host(r);
  } else if (state_of(r->pending) != GC_HOST_TURN) {
    end_on_engine(r);
  } else if (is_persistent(r)) {
    make_now(r);
  } else {
    begin_now(r);
  }
}

static int progress(void) {
  if (GCM_LIKELY(atomic_load_explicit(&n_under_way, memory_order_relaxed) == 0)) return 0;
  if (opal_mutex_trylock(&list_lock) != 0) return 0;
  gcm_request *ready = take_ready();
  opal_mutex_unlock(&list_lock);
  int attended = 0;
  while (ready != NULL) {
    gcm_request *r = ready;
    ready = r->next;
    attend(r);
    attended++;
  }
  return attended;
}

void gcm_stop_progress(void) {
  if (progress_registered) opal_progress_unregister(progress);
  progress_registered = false;
}

/* ---- what MPI asks of a request ---- */

/* Returns whether the engine has the request, and starts it if so. */
static bool start_on_engine(gcm_request *r) {
  opal_mutex_lock(&list_lock);
  const bool has_it = r->pending != NULL;
  if (has_it) {
    r->wanted = true;
    gcm_abi->restart(r->pending);
    if (!r->listed) put_in_list(r);
  }
  opal_mutex_unlock(&list_lock);
  return has_it;
}

static int start_one(gcm_request *r) {
  ompi_request_t *outer = &r->super.super;
  outer->req_complete = REQUEST_PENDING;
  outer->req_state = OMPI_REQUEST_ACTIVE;
  outer->req_status.MPI_ERROR = MPI_SUCCESS;
  if (start_on_engine(r)) return MPI_SUCCESS;
  const int rc = start_on_host(r);
  if (rc == MPI_SUCCESS) return rc;
  outer->req_complete = REQUEST_COMPLETED;
  outer->req_state = OMPI_REQUEST_INACTIVE;
  return rc;
}

/* Those of a communicator that follow each other are published together. */
static int request_start(size_t count, ompi_request_t **requests) {
  int rc = MPI_SUCCESS;
  for (size_t i = 0; i < count && rc == MPI_SUCCESS; i++) {
    const gcm_module *module = ((gcm_request *)requests[i])->module;
    rc = start_one((gcm_request *)requests[i]);
    const bool more = rc == MPI_SUCCESS && i + 1 < count && ((gcm_request *)requests[i + 1])->module == module;
    if (!more && module->comm != NULL) gcm_abi->publish_starts(module->comm);
  }
  return rc;
}

/* Takes a request back. A collective that is not made yet must be made first: the other ranks count on this one. */
static void take_from_engine(gcm_request *r) {
  opal_mutex_lock(&list_lock); /* another thread may just give it to the host */
  const bool is_made = r->pending == NULL || state_of(r->pending) == GC_READY;
  opal_mutex_unlock(&list_lock);
  if (!is_made) gcm_abi->drain(r->module->comm);
  opal_mutex_lock(&list_lock);
  gcm_request **link = &under_way;
  while (r->listed && *link != NULL && *link != r) link = &(*link)->next;
  if (*link == r) take_out(link);
  opal_mutex_unlock(&list_lock);
  if (r->pending != NULL) gcm_abi->free_persistent(r->pending);
  r->pending = NULL;
}

static int request_free(ompi_request_t **request) {
  gcm_request *r = (gcm_request *)*request;
  if (!gcm_is_complete(*request)) return MPI_ERR_REQUEST;
  ompi_communicator_t *retained = is_persistent(r) ? r->module->communicator : NULL;
  take_from_engine(r);
  gcm_unstage(&r->staged);
  if (r->inner != NULL && r->inner != MPI_REQUEST_NULL) (void)ompi_request_free(&r->inner);
  OMPI_REQUEST_FINI(&r->super.super);
  OBJ_RELEASE(r);
  *request = MPI_REQUEST_NULL;
  if (retained != NULL) OBJ_RELEASE(retained);
  return OMPI_SUCCESS;
}

static void request_construct(gcm_request *r) {
  ompi_request_t *outer = &r->super.super;
  outer->req_type = OMPI_REQUEST_COLL;
  outer->req_free = request_free;
  outer->req_cancel = NULL;
  outer->req_start = request_start;
  outer->req_status = ompi_status_empty;
  r->pending = NULL;
  r->begin_on_host = NULL;
  r->inner = MPI_REQUEST_NULL;
  r->next = NULL;
  r->listed = r->wanted = false;
  r->made = MPI_SUCCESS;
  r->kept = (gcm_kept_objects){NULL, 0};
  r->kept_arrays.n = 0;
  memset(&r->staged, 0, sizeof r->staged);
}
static void request_destruct(gcm_request *r) {
  gcm_let_go(&r->kept);
  gcm_let_arrays_go(&r->kept_arrays);
}
OBJ_CLASS_INSTANCE(gcm_request, ompi_coll_base_nbc_request_t, request_construct, request_destruct);

/* ---- making them ---- */

gcm_request *gcm_request_new(gcm_module *module, bool persistent) {
  gcm_request *r = OBJ_NEW(gcm_request);
  if (r == NULL) {
    gcm_log_no_request();
    return NULL;
  }
  OMPI_REQUEST_INIT(&r->super.super, persistent);
  r->super.super.req_mpi_object.comm = module->communicator;
  r->module = module;
  return r;
}

int gcm_request_without_memory(gcm_request *r) {
  gcm_log_no_request();
  OBJ_RELEASE(r);
  return MPI_ERR_NO_MEM;
}

/* A persistent one that goes through the host already. */
static int make_at_once(gcm_request *r, ompi_request_t **request) {
  make_now(r);
  const int rc = r->made;
  if (rc != MPI_SUCCESS) (void)request_free(request);
  return rc;
}

int gcm_request_begin(gcm_request *r, uint32_t function, gc_call *call, const gcm_plan *plan,
                      ompi_request_t **request) {
  if (r->module->comm_later && call != NULL && gcm_plan_on_device(plan)) gcm_join_engine(r->module);
  if (r->module->comm != NULL) {
    const int rc = gcm_start_on_engine(r->module, function, call, plan, &r->pending);
    if (rc != MPI_SUCCESS) {
      OBJ_RELEASE(r);
      return rc;
    }
  }
  *request = &r->super.super;
  OBJ_RETAIN(r->module->communicator);
  const bool on_host = r->pending == NULL || state_of(r->pending) == GC_HOST_TURN;
  if (is_persistent(r) && on_host) return make_at_once(r, request);
  if (!is_persistent(r)) r->super.super.req_state = OMPI_REQUEST_ACTIVE;
  if (on_host) {
    begin_now(r);
  } else {
    put_under_way(r);
  }
  return MPI_SUCCESS;
}
