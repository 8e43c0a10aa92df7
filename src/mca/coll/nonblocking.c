/* Nonblocking collectives.
 *
 * One goes straight on to the module that was there before where this rank has no device memory and nothing that it
 * must not overtake is under way. Else the engine decides (docs/adr/0014): it runs it, or it says when it is its turn
 * on the host, and then the module before is called, with staging memory for device buffers.
 */
#include "mca/coll/requests.h"

#define GCM_CALL_I(name, ARGUMENTS, request) \
  previous->coll_i##name(GCM_UNWRAP ARGUMENTS, comm, request, previous->coll_i##name##_module)

/* Without bytes there is nothing to do, and nobody counts it: MPI ends such a call on the ranks that have no elements,
 * and on them alone. */
static int end_at_once(ompi_request_t **request) {
  *request = &ompi_request_empty;
  return MPI_SUCCESS;
}

/* A function of its own where devices are in use, as of the blocking ones. The last arguments: the column `engine`. */
#define GCM_NONBLOCKING(name, PARAMETERS, ARGUMENTS, HAS_BYTES, plan_of_call, HAND_OVER, ...)                          \
  static int stage_i##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, gcm_request *r) {                         \
    const mca_coll_base_comm_coll_t *previous = &r->module->previous;                                                  \
    const gcm_plan plan = plan_of_call;                                                                                \
    const int rc = gcm_stage_and_load(&r->staged, &plan);                                                              \
    if (rc != MPI_SUCCESS) return rc;                                                                                  \
    HAND_OVER(&r->staged);                                                                                             \
    return GCM_CALL_I(name, ARGUMENTS, &r->inner);                                                                     \
  }                                                                                                                    \
  static int begin_i##name(gcm_request *r) {                                                                           \
    return stage_i##name(GCM_FIELDS_OF(r, name, ARGUMENTS), r->module->communicator, r);                               \
  }                                                                                                                    \
  static GCM_NOINLINE int look_and_i##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, ompi_request_t **request, \
                                           gcm_module *module) {                                                       \
    const mca_coll_base_comm_coll_t *previous = &module->previous;                                                     \
    const gcm_plan plan = plan_of_call;                                                                                \
    const uint32_t function = gcm_counts_as(GC_FUNCTION_##name, &plan, comm);                                          \
    if (gcm_ends_at_once(function) && !(HAS_BYTES)) return end_at_once(request);                                       \
    const bool looks = gcm_plan_on_device(&plan) || GCM_IS_LEFT_OUT(name, &plan) ||                                    \
                       gcm_asks_engine(module, GC_FORM_NONBLOCKING, function);                                         \
    const bool lacks =                                                                                                 \
        looks ? gcm_lacks_buffer(GC_FUNCTION_##name, &plan) : gcm_lacks_all(GC_FUNCTION_##name, &plan, comm);          \
    if (!looks && !lacks && gcm_goes_straight(module, function)) return GCM_CALL_I(name, ARGUMENTS, request);          \
    if (lacks) return gcm_refuse(module, GC_ORDER_NONBLOCKING, function);                                              \
    gcm_request *r = gcm_request_new(module, false);                                                                   \
    if (r == NULL) return MPI_ERR_NO_MEM;                                                                              \
    r->begin_on_host = begin_i##name;                                                                                  \
    r->arguments.name = (struct gcm_arguments_##name){GCM_UNWRAP ARGUMENTS};                                           \
    gc_call call = {.function = GC_FUNCTION_##name, __VA_ARGS__};                                                      \
    if (GCM_KEEP_ARRAYS(r, &plan, &call) != MPI_SUCCESS) return gcm_request_without_memory(r);                         \
    if (function == GC_FUNCTION_none) gcm_tell_not_counted(module, GC_FUNCTION_##name, &plan);                         \
    return gcm_request_begin(r, function, looks && function != GC_FUNCTION_none ? &call : NULL, &plan, request);       \
  }                                                                                                                    \
  int gcm_i##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, ompi_request_t **request,                          \
                  mca_coll_base_module_t *base) {                                                                      \
    gcm_module *module = (gcm_module *)base;                                                                           \
    const mca_coll_base_comm_coll_t *previous = &module->previous;                                                     \
    if (GCM_LIKELY(!gcm_has_devices()) && !gcm_begins_alone(GC_FUNCTION_##name, comm) && GCM_LIKELY(HAS_BYTES) &&      \
        gcm_goes_straight(module, GC_FUNCTION_##name))                                                                 \
      return GCM_CALL_I(name, ARGUMENTS, request);                                                                     \
    return look_and_i##name(GCM_UNWRAP ARGUMENTS, comm, request, module);                                              \
  }

static int begin_ibarrier(gcm_request *r) {
  const mca_coll_base_comm_coll_t *previous = &r->module->previous;
  return previous->coll_ibarrier(r->module->communicator, &r->inner, previous->coll_ibarrier_module);
}

int gcm_ibarrier(ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *base) {
  gcm_module *module = (gcm_module *)base;
  const mca_coll_base_comm_coll_t *previous = &module->previous;
  if (gcm_goes_straight(module, GC_FUNCTION_none))
    return previous->coll_ibarrier(comm, request, previous->coll_ibarrier_module);
  gcm_request *r = gcm_request_new(module, false);
  if (r == NULL) return MPI_ERR_NO_MEM;
  r->begin_on_host = begin_ibarrier;
  return gcm_request_begin(r, GC_FUNCTION_none, NULL, NULL, request);
}

#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine) \
  GCM_NONBLOCKING(name, PARAMETERS, ARGUMENTS, has_bytes, plan, GCM_HAND_OVER_BOTH, GCM_UNWRAP engine)
#define GCM_COLLECTIVE_ONE_BUFFER(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine) \
  GCM_NONBLOCKING(name, PARAMETERS, ARGUMENTS, has_bytes, plan, GCM_HAND_OVER, GCM_UNWRAP engine)
#include "mca/coll/collectives.def"
