/* Nonblocking and persistent collectives on device buffers, by staging: a request of our own around the request of
 * the module that was there before. While it is under way it is in a list that MPI progress looks through; when the
 * inner request is done, the result is stored and ours completes.
 *
 * Thread safety: the list has a lock; completing happens outside of it, as it may call the application.
 */
#include <stdatomic.h>

#include "coll/mca/staging.h"

/* The MPI layer writes into requests of collectives as ompi_coll_base_nbc_request_t (it keeps operation and types
 * alive there), so ours must be one. */
typedef struct gcm_request {
  ompi_coll_base_nbc_request_t super;
  gcm_staged staged;
  ompi_request_t *inner;
  struct gcm_request *next; /* in the list of those under way */
} gcm_request;
OBJ_CLASS_DECLARATION(gcm_request);

static opal_mutex_t list_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_request *under_way;
static atomic_int n_under_way; /* as a look without the lock */
static bool progress_registered;

/* ---- completion ---- */

static void complete(gcm_request *r) {
  ompi_request_t *outer = &r->super.super;
  /* Done already: this ends the inner request in whichever way its kind needs, without waiting. */
  int rc = ompi_request_wait(&r->inner, MPI_STATUS_IGNORE);
  if (rc == MPI_SUCCESS) rc = gcm_store(&r->staged);
  if (!outer->req_persistent) gcm_unstage(&r->staged);
  outer->req_status.MPI_ERROR = rc;
  ompi_request_complete(outer, true); /* from here on `r` may be gone */
}

/* Takes what is done out of the list of those under way. */
static gcm_request *take_done(void) {
  gcm_request *done = NULL, **link = &under_way;
  while (*link != NULL) {
    gcm_request *r = *link;
    if (REQUEST_COMPLETE(r->inner)) {
      *link = r->next;
      atomic_fetch_sub_explicit(&n_under_way, 1, memory_order_relaxed);
      r->next = done;
      done = r;
    } else {
      link = &r->next;
    }
  }
  return done;
}

static int progress(void) {
  if (GCM_LIKELY(atomic_load_explicit(&n_under_way, memory_order_relaxed) == 0)) return 0;
  if (opal_mutex_trylock(&list_lock) != 0) return 0;
  gcm_request *done = take_done();
  opal_mutex_unlock(&list_lock);
  int completed = 0;
  while (done != NULL) {
    gcm_request *r = done;
    done = r->next;
    complete(r);
    completed++;
  }
  return completed;
}

void gcm_stop_progress(void) {
  if (progress_registered) opal_progress_unregister(progress);
  progress_registered = false;
}

static void put_under_way(gcm_request *r) {
  opal_mutex_lock(&list_lock);
  if (!progress_registered) {
    opal_progress_register(progress);
    progress_registered = true;
  }
  r->next = under_way;
  under_way = r;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
  opal_mutex_unlock(&list_lock);
}

/* ---- the request ---- */

static int request_free(ompi_request_t **request) {
  gcm_request *r = (gcm_request *)*request;
  if (!REQUEST_COMPLETE(*request)) return MPI_ERR_REQUEST;
  gcm_unstage(&r->staged);
  if (r->inner != NULL && r->inner != MPI_REQUEST_NULL) (void)ompi_request_free(&r->inner);
  OMPI_REQUEST_FINI(&r->super.super);
  OBJ_RELEASE(r);
  *request = MPI_REQUEST_NULL;
  return OMPI_SUCCESS;
}

static int start_one(gcm_request *r) {
  ompi_request_t *outer = &r->super.super;
  int rc = gcm_load(&r->staged);
  if (rc != MPI_SUCCESS) return rc;
  outer->req_complete = REQUEST_PENDING;
  outer->req_state = OMPI_REQUEST_ACTIVE;
  outer->req_status.MPI_ERROR = MPI_SUCCESS;
  /* Nothing to do, as for one rank, is a request without a start that is always complete. */
  if (r->inner->req_start != NULL) rc = r->inner->req_start(1, &r->inner);
  if (rc == MPI_SUCCESS) put_under_way(r);
  return rc;
}

static int request_start(size_t count, ompi_request_t **requests) {
  for (size_t i = 0; i < count; i++) {
    const int rc = start_one((gcm_request *)requests[i]);
    if (rc != MPI_SUCCESS) return rc;
  }
  return MPI_SUCCESS;
}

static void request_construct(gcm_request *r) {
  ompi_request_t *outer = &r->super.super;
  OMPI_REQUEST_INIT(outer, false);
  outer->req_type = OMPI_REQUEST_COLL;
  outer->req_free = request_free;
  outer->req_cancel = NULL;
  outer->req_start = request_start;
  outer->req_status = ompi_status_empty;
  r->inner = MPI_REQUEST_NULL;
  r->next = NULL;
  memset(&r->staged, 0, sizeof r->staged);
}
OBJ_CLASS_INSTANCE(gcm_request, ompi_coll_base_nbc_request_t, request_construct, NULL);

static gcm_request *request_new(const gcm_plan *plan, ompi_communicator_t *comm, bool persistent, int *rc) {
  gcm_request *r = OBJ_NEW(gcm_request);
  *rc = r == NULL ? MPI_ERR_NO_MEM : persistent ? gcm_stage(&r->staged, plan) : gcm_stage_and_load(&r->staged, plan);
  if (*rc != MPI_SUCCESS) {
    if (r != NULL) OBJ_RELEASE(r);
    return NULL;
  }
  r->super.super.req_mpi_object.comm = comm;
  if (persistent) OMPI_REQUEST_INIT(&r->super.super, true);
  return r;
}

static int discard(gcm_request *r, int rc) {
  gcm_unstage(&r->staged);
  OBJ_RELEASE(r);
  return rc;
}

/* After the inner call: gives the request to the application, under way or (persistent) inactive. */
static int hand_out(gcm_request *r, int rc, ompi_request_t **request) {
  if (rc != MPI_SUCCESS) return discard(r, rc);
  *request = &r->super.super;
  if (r->super.super.req_persistent) return MPI_SUCCESS;
  r->super.super.req_state = OMPI_REQUEST_ACTIVE;
  put_under_way(r);
  return MPI_SUCCESS;
}

/* ---- the collectives ---- */

#define GCM_CALL_I(name, ARGUMENTS, request) \
  previous->coll_i##name(GCM_UNWRAP ARGUMENTS, comm, request, previous->coll_i##name##_module)
#define GCM_CALL_INIT(name, ARGUMENTS, request) \
  previous->coll_##name##_init(GCM_UNWRAP ARGUMENTS, comm, info, request, previous->coll_##name##_init_module)

#define GCM_WITH_REQUEST(ARGUMENTS, plan_of_call, HAND_OVER, CALL, name, persistent) \
  const mca_coll_base_comm_coll_t *previous = &((gcm_module *)base)->previous;       \
  const gcm_plan plan = plan_of_call;                                                \
  if (GCM_LIKELY(!gcm_plan_on_device(&plan))) return CALL(name, ARGUMENTS, request); \
  int rc;                                                                            \
  gcm_request *mine = request_new(&plan, comm, persistent, &rc);                     \
  if (mine == NULL) return rc;                                                       \
  HAND_OVER(&mine->staged);                                                          \
  return hand_out(mine, CALL(name, ARGUMENTS, &mine->inner), request);

#define GCM_REQUEST_FORMS(name, PARAMETERS, ARGUMENTS, plan, HAND_OVER)                             \
  int gcm_i##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, ompi_request_t **request,       \
                  mca_coll_base_module_t *base) {                                                   \
    GCM_WITH_REQUEST(ARGUMENTS, plan, HAND_OVER, GCM_CALL_I, name, false)                           \
  }                                                                                                 \
  int gcm_##name##_init(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, struct ompi_info_t *info, \
                        ompi_request_t **request, mca_coll_base_module_t *base) {                   \
    GCM_WITH_REQUEST(ARGUMENTS, plan, HAND_OVER, GCM_CALL_INIT, name, true)                         \
  }
#define GCM_COLLECTIVE_STAGED(name, PARAMETERS, ARGUMENTS, plan) \
  GCM_REQUEST_FORMS(name, PARAMETERS, ARGUMENTS, plan, GCM_HAND_OVER_BOTH)
#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, plan, engine) \
  GCM_COLLECTIVE_STAGED(name, PARAMETERS, ARGUMENTS, plan)
#define GCM_COLLECTIVE_ONE_BUFFER(name, PARAMETERS, ARGUMENTS, plan, engine) \
  GCM_REQUEST_FORMS(name, PARAMETERS, ARGUMENTS, plan, GCM_HAND_OVER)
#include "coll/mca/collectives.def"
