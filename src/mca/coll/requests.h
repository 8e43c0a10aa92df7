/* Requests of our own, for nonblocking and persistent collectives that the engine has to do with, or that are staged.
 *
 * A nonblocking one goes to the engine when it is called, a persistent one when it is made: the engine runs it, or says
 * when it is its turn on the host, where the module before begins the one, or makes the other. MPI progress looks
 * through a list of those under way: begun, started, or not yet made.
 *
 * Thread safety: the list has a lock; what may call MPI or the application is done outside of it. Ownership: a request
 * retains its communicator, a nonblocking one until it is complete, a persistent one until it is freed.
 */
#ifndef GPUCOLL_MCA_COLL_REQUESTS_H
#define GPUCOLL_MCA_COLL_REQUESTS_H

#include "base/mutant.h"
#include "mca/coll/arguments.h"
#include "mca/coll/engine.h"
#include "mca/coll/kept_objects.h"
#include "mca/coll/staging.h"

/* The MPI layer writes into requests of collectives as ompi_coll_base_nbc_request_t (it keeps operation and types of
 * nonblocking ones alive there), so ours must be one. */
typedef struct gcm_request {
  ompi_coll_base_nbc_request_t super;
  gcm_module *module;
  gc_pending *pending;                        /* the engine's, while it has it */
  int (*begin_on_host)(struct gcm_request *); /* begins or makes it: fills in `inner` */
  gcm_arguments arguments;
  gcm_kept_arrays kept_arrays;
  gcm_staged staged;
  ompi_request_t *inner;    /* of the module before */
  struct gcm_request *next; /* in the list of those under way */
  bool listed;              /* there, or taken from it to be made on the host */
  /* For persistent requests. */
  gcm_kept_objects kept;
  bool wanted; /* started before it was made */
  int made;    /* what making it on the host has ended with */
} gcm_request;
OBJ_CLASS_DECLARATION(gcm_request);

/* NULL: no memory. */
gcm_request *gcm_request_new(gcm_module *module, bool persistent);
/* Frees one that has not begun, and returns MPI_ERR_NO_MEM. */
int gcm_request_without_memory(gcm_request *r);
/* Begins a nonblocking one, or makes a persistent one, whose fields are set, and gives the request to the application.
 * `call` is NULL where the engine need not see the buffers. */
int gcm_request_begin(gcm_request *r, uint32_t function, gc_call *call, const gcm_plan *plan, ompi_request_t **request);

/* Returns whether a call without device memory goes on at once to the module below gpucoll. */
static inline bool gcm_goes_straight(gcm_module *module, uint32_t function) {
  return module->comm == NULL || gc_goes_straight(module->comm, function);
}

/* Without bytes a rank has nothing to judge by: see engine.h. */
#define GCM_IS_LEFT_OUT(name, plan) \
  (gcm_leaves_ranks_out(GC_FUNCTION_##name, comm) && gc_has_devices(gcm_abi) && !gcm_plan_has_bytes(plan))

/* Returns whether the engine is asked without device memory. */
static inline bool gcm_asks_engine(gcm_module *module, uint32_t form, uint32_t function) {
  return !gc_mutant(111) && function != GC_FUNCTION_none && module->comm != NULL && gc_has_devices(gcm_abi) &&
         gc_asks_engine(gcm_abi, module->comm, form, function);
}

#define GCM_KEEP_ARRAYS(r, plan, call) \
  gcm_keep_arrays(&(r)->kept_arrays, plan, (call)->recvcounts, ompi_comm_size((r)->module->communicator))
/* The arguments of request `r`, a call of `name`. */
#define GCM_FIELDS_OF(r, name, ARGUMENTS) GCM_FIELDS_OF_((r)->arguments.name, &(r)->kept_arrays, GCM_UNWRAP ARGUMENTS)
#define GCM_FIELDS_OF_(...) GCM_FIELDS(__VA_ARGS__)

#endif
