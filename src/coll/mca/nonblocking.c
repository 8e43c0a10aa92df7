/* Nonblocking and persistent collectives: requests of our own.
 *
 * A nonblocking collective goes straight on to the module that was there before where this rank has no device memory
 * and nothing that it must not overtake is under way. Else the engine decides (docs/adr/0014): it runs it, or it says
 * when it is its turn on the host, and then the module before is called, with staging memory for device buffers.
 * Persistent ones are staged at each start. MPI progress looks through a list of those under way.
 *
 * Thread safety: the list has a lock; what may call MPI or the application is done outside of it.
 */
#include <stdatomic.h>

#include "coll/mca/arguments.h"
#include "coll/mca/engine.h"
#include "coll/mca/staging.h"

/* The MPI layer writes into requests of collectives as ompi_coll_base_nbc_request_t (it keeps operation and types
 * alive there), so ours must be one. */
typedef struct gcm_request {
  ompi_coll_base_nbc_request_t super;
  gcm_module *module;                         /* its communicator is retained while a nonblocking one is under way */
  gc_pending *pending;                        /* the engine's, while it has it */
  int (*begin_on_host)(struct gcm_request *); /* fills in `inner` */
  gcm_arguments arguments;
  gcm_staged staged;
  ompi_request_t *inner;    /* of the module before */
  struct gcm_request *next; /* in the list of those under way */
} gcm_request;
OBJ_CLASS_DECLARATION(gcm_request);

static opal_mutex_t list_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_request *under_way, **under_way_end = &under_way;
static atomic_int n_under_way; /* as a look without the lock */
static bool progress_registered;

/* ---- the list ---- */

static int progress(void);

static void put_under_way(gcm_request *r) {
  opal_mutex_lock(&list_lock);
  if (!progress_registered) {
    opal_progress_register(progress);
    progress_registered = true;
  }
  r->next = NULL;
  *under_way_end = r;
  under_way_end = &r->next;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
  opal_mutex_unlock(&list_lock);
}

/* Other threads write it. Acquire: partner is the engine's release. */
static int state_of(const gc_pending *pending) { return __atomic_load_n(&pending->state, __ATOMIC_ACQUIRE); }

/* Whether there is something to do for it, after the engine has had its turn. */
static bool is_ready(gcm_request *r, const gcm_module **turned) {
  if (r->pending == NULL) return REQUEST_COMPLETE(r->inner);
  if (*turned != r->module) gcm_abi->turn(r->module->comm);
  *turned = r->module;
  return state_of(r->pending) != GC_WAITS;
}

static gcm_request *take_ready(void) {
  const gcm_module *turned = NULL;
  gcm_request *ready = NULL, **ready_end = &ready, **link = &under_way;
  while (*link != NULL) {
    gcm_request *r = *link;
    if (!is_ready(r, &turned)) {
      link = &r->next;
      continue;
    }
    *link = r->next;
    atomic_fetch_sub_explicit(&n_under_way, 1, memory_order_relaxed);
    r->next = NULL;
    *ready_end = r;
    ready_end = &r->next;
  }
  under_way_end = link;
  return ready;
}

/* ---- one request ---- */

static void complete(gcm_request *r, int rc) {
  ompi_request_t *outer = &r->super.super;
  ompi_communicator_t *retained = outer->req_persistent ? NULL : r->module->communicator;
  if (!outer->req_persistent) gcm_unstage(&r->staged);
  outer->req_status.MPI_ERROR = rc;
  ompi_request_complete(outer, true); /* from here on `r` may be gone */
  if (retained != NULL) OBJ_RELEASE(retained);
}

/* Its turn on the host. */
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

static void end_on_host(gcm_request *r) {
  /* Done already: this ends the inner request in whichever way its kind needs, without waiting. */
  int rc = ompi_request_wait(&r->inner, MPI_STATUS_IGNORE);
  if (rc == MPI_SUCCESS) rc = gcm_store(&r->staged);
  complete(r, rc);
}

static void end_on_engine(gcm_request *r) {
  const int rc = gcm_abi->end(r->pending);
  r->pending = NULL;
  complete(r, rc);
}

static void attend(gcm_request *r) {
  if (r->pending == NULL) {
    end_on_host(r);
  } else if (state_of(r->pending) == GC_HOST_TURN) {
    begin_now(r);
  } else {
    end_on_engine(r);
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
  r->module = NULL;
  r->pending = NULL;
  r->begin_on_host = NULL;
  r->inner = MPI_REQUEST_NULL;
  r->next = NULL;
  memset(&r->staged, 0, sizeof r->staged);
}
OBJ_CLASS_INSTANCE(gcm_request, ompi_coll_base_nbc_request_t, request_construct, NULL);

static gcm_request *request_new(gcm_module *module) {
  gcm_request *r = OBJ_NEW(gcm_request);
  if (r == NULL) return NULL;
  r->super.super.req_mpi_object.comm = module->communicator;
  r->module = module;
  return r;
}

/* ---- nonblocking ---- */

static bool goes_straight(gcm_module *module, uint32_t function) {
  return module->comm == NULL || gc_goes_straight(module->comm, function);
}

/* Begins a nonblocking one whose fields are set, and gives the request to the application. `call` is NULL where the
 * engine need not see the buffers. */
static int begin(gcm_request *r, uint32_t function, gc_call *call, const gcm_plan *plan, ompi_request_t **request) {
  if (r->module->comm != NULL) {
    const int rc = gcm_start_on_engine(r->module, function, call, plan, &r->pending);
    if (rc != MPI_SUCCESS) {
      OBJ_RELEASE(r);
      return rc;
    }
  }
  *request = &r->super.super;
  r->super.super.req_state = OMPI_REQUEST_ACTIVE;
  OBJ_RETAIN(r->module->communicator);
  if (r->pending == NULL || state_of(r->pending) == GC_HOST_TURN) {
    begin_now(r);
  } else {
    put_under_way(r);
  }
  return MPI_SUCCESS;
}

#define GCM_CALL_I(name, ARGUMENTS, request) \
  previous->coll_i##name(GCM_UNWRAP ARGUMENTS, comm, request, previous->coll_i##name##_module)

/* Without bytes a rank has nothing to judge by: see engine.h. */
#define GCM_IS_LEFT_OUT(name, plan) \
  (gcm_leaves_ranks_out(GC_FUNCTION_##name) && gc_has_devices(gcm_abi) && !gcm_plan_has_bytes(plan))

/* The last arguments: the column `engine`. */
#define GCM_NONBLOCKING(name, PARAMETERS, ARGUMENTS, plan_of_call, HAND_OVER, ...)                              \
  static int stage_i##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, gcm_request *r) {                  \
    const mca_coll_base_comm_coll_t *previous = &r->module->previous;                                           \
    const gcm_plan plan = plan_of_call;                                                                         \
    const int rc = gcm_stage_and_load(&r->staged, &plan);                                                       \
    if (rc != MPI_SUCCESS) return rc;                                                                           \
    HAND_OVER(&r->staged);                                                                                      \
    return GCM_CALL_I(name, ARGUMENTS, &r->inner);                                                              \
  }                                                                                                             \
  static int begin_i##name(gcm_request *r) {                                                                    \
    return stage_i##name(GCM_FIELDS_OF(r->arguments.name, ARGUMENTS), r->module->communicator, r);              \
  }                                                                                                             \
  int gcm_i##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, ompi_request_t **request,                   \
                  mca_coll_base_module_t *base) {                                                               \
    gcm_module *module = (gcm_module *)base;                                                                    \
    const mca_coll_base_comm_coll_t *previous = &module->previous;                                              \
    const gcm_plan plan = plan_of_call;                                                                         \
    const uint32_t function = gcm_is_counted(GC_FUNCTION_##name, comm) ? GC_FUNCTION_##name : GC_FUNCTION_none; \
    const bool looks = gcm_plan_on_device(&plan) || GCM_IS_LEFT_OUT(name, &plan);                               \
    if (GCM_LIKELY(!looks) && goes_straight(module, function)) return GCM_CALL_I(name, ARGUMENTS, request);     \
    gcm_request *r = request_new(module);                                                                       \
    if (r == NULL) return MPI_ERR_NO_MEM;                                                                       \
    r->begin_on_host = begin_i##name;                                                                           \
    r->arguments.name = (struct gcm_arguments_##name){GCM_UNWRAP ARGUMENTS};                                    \
    gc_call call = {.function = GC_FUNCTION_##name, __VA_ARGS__};                                               \
    return begin(r, function, looks && function != GC_FUNCTION_none ? &call : NULL, &plan, request);            \
  }
#define GCM_FIELDS_OF(s, ARGUMENTS) GCM_FIELDS_OF_(s, GCM_UNWRAP ARGUMENTS)
#define GCM_FIELDS_OF_(...) GCM_FIELDS(__VA_ARGS__)

static int begin_ibarrier(gcm_request *r) {
  const mca_coll_base_comm_coll_t *previous = &r->module->previous;
  return previous->coll_ibarrier(r->module->communicator, &r->inner, previous->coll_ibarrier_module);
}

int gcm_ibarrier(ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *base) {
  gcm_module *module = (gcm_module *)base;
  const mca_coll_base_comm_coll_t *previous = &module->previous;
  if (goes_straight(module, GC_FUNCTION_none))
    return previous->coll_ibarrier(comm, request, previous->coll_ibarrier_module);
  gcm_request *r = request_new(module);
  if (r == NULL) return MPI_ERR_NO_MEM;
  r->begin_on_host = begin_ibarrier;
  return begin(r, GC_FUNCTION_none, NULL, NULL, request);
}

/* ---- persistent ---- */

/* The module before gives out tags when a persistent one is made, as when a nonblocking one is begun. */
static void let_earlier_begin(gcm_module *module) {
  if (module->comm != NULL && module->comm->busy) gcm_abi->drain(module->comm);
}

static int discard(gcm_request *r, int rc) {
  gcm_unstage(&r->staged);
  OBJ_RELEASE(r);
  return rc;
}

static gcm_request *persistent_new(gcm_module *module, const gcm_plan *plan, int *rc) {
  gcm_request *r = request_new(module);
  *rc = r == NULL ? MPI_ERR_NO_MEM : gcm_stage(&r->staged, plan);
  if (*rc != MPI_SUCCESS) {
    if (r != NULL) OBJ_RELEASE(r);
    return NULL;
  }
  OMPI_REQUEST_INIT(&r->super.super, true);
  return r;
}

static int hand_out(gcm_request *r, int rc, ompi_request_t **request) {
  if (rc != MPI_SUCCESS) return discard(r, rc);
  *request = &r->super.super;
  return MPI_SUCCESS;
}

#define GCM_CALL_INIT(name, ARGUMENTS, request) \
  previous->coll_##name##_init(GCM_UNWRAP ARGUMENTS, comm, info, request, previous->coll_##name##_init_module)
#define GCM_PERSISTENT(name, PARAMETERS, ARGUMENTS, plan_of_call, HAND_OVER)                        \
  int gcm_##name##_init(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, struct ompi_info_t *info, \
                        ompi_request_t **request, mca_coll_base_module_t *base) {                   \
    gcm_module *module = (gcm_module *)base;                                                        \
    const mca_coll_base_comm_coll_t *previous = &module->previous;                                  \
    const gcm_plan plan = plan_of_call;                                                             \
    let_earlier_begin(module);                                                                      \
    if (GCM_LIKELY(!gcm_plan_on_device(&plan))) return GCM_CALL_INIT(name, ARGUMENTS, request);     \
    int rc;                                                                                         \
    gcm_request *r = persistent_new(module, &plan, &rc);                                            \
    if (r == NULL) return rc;                                                                       \
    HAND_OVER(&r->staged);                                                                          \
    return hand_out(r, GCM_CALL_INIT(name, ARGUMENTS, &r->inner), request);                         \
  }

int gcm_barrier_init(ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request,
                     mca_coll_base_module_t *base) {
  gcm_module *module = (gcm_module *)base;
  let_earlier_begin(module);
  return module->previous.coll_barrier_init(comm, info, request, module->previous.coll_barrier_init_module);
}

/* ---- the collectives ---- */

#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, plan, engine)                           \
  GCM_NONBLOCKING(name, PARAMETERS, ARGUMENTS, plan, GCM_HAND_OVER_BOTH, GCM_UNWRAP engine) \
  GCM_PERSISTENT(name, PARAMETERS, ARGUMENTS, plan, GCM_HAND_OVER_BOTH)
#define GCM_COLLECTIVE_ONE_BUFFER(name, PARAMETERS, ARGUMENTS, plan, engine)           \
  GCM_NONBLOCKING(name, PARAMETERS, ARGUMENTS, plan, GCM_HAND_OVER, GCM_UNWRAP engine) \
  GCM_PERSISTENT(name, PARAMETERS, ARGUMENTS, plan, GCM_HAND_OVER)
#include "coll/mca/collectives.def"
