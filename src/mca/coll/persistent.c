/* Making persistent collectives: as beginning nonblocking ones, in one order with them (docs/adr/0018).
 *
 * Where all ranks have device memory, the engine keeps it and runs its starts. Else the module before makes it, with
 * staging memory for device buffers, when it is its turn: the module before gives out a tag then, as it does when a
 * nonblocking one begins. It may be started before.
 */
#include "mca/coll/requests.h"

#define GCM_CALL_INIT(name, ARGUMENTS, info, request) \
  previous->coll_##name##_init(GCM_UNWRAP ARGUMENTS, comm, info, request, previous->coll_##name##_init_module)

/* Keeps the objects of a request that the module before has made, where it has: returns its rc, or an MPI error class.
 */
static int keep(int rc, ompi_request_t **request, const gcm_plan *plan, gcm_op *op, ompi_communicator_t *comm) {
  if (rc == MPI_SUCCESS && gcm_has_own_objects(plan, op, comm)) rc = gcm_keep_with(*request, plan, op, comm);
  return rc;
}

/* The application may free `info` before it is made. The last arguments: the column `engine`. */
#define GCM_PERSISTENT(name, PARAMETERS, ARGUMENTS, HAS_BYTES, plan_of_call, HAND_OVER, ...)                      \
  static int stage_##name##_init(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, gcm_request *r) {              \
    const mca_coll_base_comm_coll_t *previous = &r->module->previous;                                             \
    const gcm_plan plan = plan_of_call;                                                                           \
    const int rc = gcm_stage(&r->staged, &plan);                                                                  \
    if (rc != MPI_SUCCESS) return rc;                                                                             \
    HAND_OVER(&r->staged);                                                                                        \
    return GCM_CALL_INIT(name, ARGUMENTS, MPI_INFO_NULL, &r->inner);                                              \
  }                                                                                                               \
  static int make_##name(gcm_request *r) {                                                                        \
    return stage_##name##_init(GCM_FIELDS_OF(r, name, ARGUMENTS), r->module->communicator, r);                    \
  }                                                                                                               \
  int gcm_##name##_init(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, struct ompi_info_t *info,               \
                        ompi_request_t **request, mca_coll_base_module_t *base) {                                 \
    gcm_module *module = (gcm_module *)base;                                                                      \
    const mca_coll_base_comm_coll_t *previous = &module->previous;                                                \
    const gcm_plan plan = plan_of_call;                                                                           \
    const uint32_t function = gcm_made_as(GC_FUNCTION_##name, HAS_BYTES, &plan, comm);                            \
    const bool looks = gcm_plan_on_device(&plan) || GCM_IS_LEFT_OUT(name, &plan) ||                               \
                       gcm_asks_engine(module, GC_FORM_PERSISTENT, function & ~(uint32_t)GC_PERSISTENT);          \
    const bool lacks =                                                                                            \
        looks ? gcm_lacks_buffer(GC_FUNCTION_##name, &plan) : gcm_lacks_all(GC_FUNCTION_##name, &plan, comm);     \
    gc_call call = {.function = GC_FUNCTION_##name, __VA_ARGS__};                                                 \
    if (GCM_LIKELY(!looks && !lacks) && gcm_goes_straight(module, function))                                      \
      return keep(GCM_CALL_INIT(name, ARGUMENTS, info, request), request, &plan, call.mpi_op, comm);              \
    if (lacks) return gcm_refuse(module, GC_ORDER_NONBLOCKING, function);                                         \
    gcm_request *r = gcm_request_new(module, true);                                                               \
    if (r == NULL) return MPI_ERR_NO_MEM;                                                                         \
    r->begin_on_host = make_##name;                                                                               \
    r->arguments.name = (struct gcm_arguments_##name){GCM_UNWRAP ARGUMENTS};                                      \
    if (gcm_keep(&r->kept, &plan, call.mpi_op) != MPI_SUCCESS || GCM_KEEP_ARRAYS(r, &plan, &call) != MPI_SUCCESS) \
      return gcm_request_without_memory(r);                                                                       \
    const bool counted = function != GC_FUNCTION_none;                                                            \
    if (!counted) gcm_tell_not_counted(module, GC_FUNCTION_##name, &plan);                                        \
    return gcm_request_begin(r, function | GC_PERSISTENT, looks && counted ? &call : NULL, &plan, request);       \
  }

static int make_barrier(gcm_request *r) {
  const mca_coll_base_comm_coll_t *previous = &r->module->previous;
  return previous->coll_barrier_init(r->module->communicator, MPI_INFO_NULL, &r->inner,
                                     previous->coll_barrier_init_module);
}

int gcm_barrier_init(ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request,
                     mca_coll_base_module_t *base) {
  gcm_module *module = (gcm_module *)base;
  const mca_coll_base_comm_coll_t *previous = &module->previous;
  if (gcm_goes_straight(module, GC_FUNCTION_none)) {
    const gcm_plan no_buffers = {.send = {.buffer = NULL}};
    const int rc = previous->coll_barrier_init(comm, info, request, previous->coll_barrier_init_module);
    return keep(rc, request, &no_buffers, NULL, comm);
  }
  gcm_request *r = gcm_request_new(module, true);
  if (r == NULL) return MPI_ERR_NO_MEM;
  r->begin_on_host = make_barrier;
  return gcm_request_begin(r, GC_FUNCTION_none | GC_PERSISTENT, NULL, NULL, request);
}

#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine) \
  GCM_PERSISTENT(name, PARAMETERS, ARGUMENTS, has_bytes, plan, GCM_HAND_OVER_BOTH, GCM_UNWRAP engine)
#define GCM_COLLECTIVE_ONE_BUFFER(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine) \
  GCM_PERSISTENT(name, PARAMETERS, ARGUMENTS, has_bytes, plan, GCM_HAND_OVER, GCM_UNWRAP engine)
#include "mca/coll/collectives.def"
