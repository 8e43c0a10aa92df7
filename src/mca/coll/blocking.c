/* The blocking collectives, generated from their table. Host buffers go straight on: the checks of the buffers' kinds
 * and one store on the arrival board are all that is in front of them. Device buffers go to the engine, where all ranks
 * can, else by staging. */
#include "base/mutant.h"
#include "mca/coll/again.h"
#include "mca/coll/engine.h"
#include "mca/coll/staging.h"

/* Stores the result where the call has succeeded, and ends the staging. */
static int finish(gcm_staged *staged, int rc) {
  if (rc == MPI_SUCCESS) rc = gcm_store(staged);
  gcm_unstage(staged);
  return rc;
}

#define GCM_CALL_PREVIOUS(name, ARGUMENTS) \
  module->previous.coll_##name(GCM_UNWRAP ARGUMENTS, comm, module->previous.coll_##name##_module)

/* Functions of their own: for a program without devices, which needs no plan; for host buffers beside devices, whose
 * plan is never in memory; and for what may run on devices. Without bytes there is nothing to do, and nobody counts it:
 * MPI ends such a call on the ranks that have no elements, and on them alone. A call that comes again goes to
 * the engine without a plan. ASKS: the engine is asked even without device memory. ON_HOST: before host buffers go on.
 * ON_DEVICE: may return. */
#define GCM_BLOCKING(name, PARAMETERS, ARGUMENTS, HAS_BYTES, plan_of_call, ASKS, ON_HOST, ON_DEVICE, HAND_OVER)   \
  static GCM_NOINLINE int run_##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, gcm_module *module) {      \
    const gc_arguments its = {GC_FUNCTION_##name, {GCM_WORDS ARGUMENTS}};                                         \
    const gc_arguments *const arguments = gcm_has_no_lists(GC_FUNCTION_##name) ? &its : NULL;                     \
    const int again = gcm_run_again(module, arguments);                                                           \
    if (again != GC_ANEW && again != GC_STAGE) return again;                                                      \
    const gcm_plan plan = plan_of_call;                                                                           \
    const bool counted = gcm_is_counted(GC_FUNCTION_##name, HAS_BYTES, &plan, comm);                              \
    if (gcm_lacks_buffer(GC_FUNCTION_##name, &plan))                                                              \
      return gcm_refuse(module, GCM_ORDER(name), counted ? GC_FUNCTION_##name : GC_FUNCTION_none);                \
    if (counted && again == GC_ANEW) ON_DEVICE;                                                                   \
    if (!counted) gcm_tell_not_counted(module, GC_FUNCTION_##name, &plan);                                        \
    gcm_staged staged;                                                                                            \
    const int rc = gcm_stage_and_load(&staged, &plan);                                                            \
    if (rc != MPI_SUCCESS) return rc;                                                                             \
    HAND_OVER(&staged);                                                                                           \
    return finish(&staged, GCM_CALL_PREVIOUS(name, ARGUMENTS));                                                   \
  }                                                                                                               \
  static GCM_NOINLINE int look_and_##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, gcm_module *module) { \
    if (!(HAS_BYTES) && !gc_mutant(103) && !gc_mutant(469)) return MPI_SUCCESS;                                   \
    const gcm_plan plan = plan_of_call;                                                                           \
    const bool counted = gcm_is_counted(GC_FUNCTION_##name, HAS_BYTES, &plan, comm);                              \
    if (gcm_plan_on_device(&plan) || gcm_lacks_all(GC_FUNCTION_##name, &plan, comm) || (counted && (ASKS)))       \
      return run_##name(GCM_UNWRAP ARGUMENTS, comm, module);                                                      \
    if (counted) ON_HOST;                                                                                         \
    return GCM_CALL_PREVIOUS(name, ARGUMENTS);                                                                    \
  }                                                                                                               \
  int gcm_##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, mca_coll_base_module_t *base) {                \
    gcm_module *module = (gcm_module *)base;                                                                      \
    if (!GCM_LIKELY(!gcm_has_devices()) || gcm_comes_alone(GC_FUNCTION_##name, comm) || !GCM_LIKELY(HAS_BYTES))   \
      return look_and_##name(GCM_UNWRAP ARGUMENTS, comm, module);                                                 \
    ON_HOST;                                                                                                      \
    return GCM_CALL_PREVIOUS(name, ARGUMENTS);                                                                    \
  }

#define GCM_ORDER(name) gcm_order_of(GC_FUNCTION_##name, comm)
#define GCM_PUBLISH_HOST(name)                                                                    \
  do {                                                                                            \
    if (module->comm != NULL) gc_publish_host(module->comm, GCM_ORDER(name), GC_FUNCTION_##name); \
  } while (0)
#define GCM_ASKS_ENGINE(name)                                                       \
  (gcm_leaves_ranks_out(GC_FUNCTION_##name, comm) && !gcm_plan_has_bytes(&plan)) || \
      (module->comm != NULL && gc_asks_engine(gcm_abi, module->comm, GC_FORM_BLOCKING, GC_FUNCTION_##name))
#define GCM_TRY_ENGINE(name, ...)                                                           \
  do {                                                                                      \
    gc_call call = {.function = GC_FUNCTION_##name, .order = GCM_ORDER(name), __VA_ARGS__}; \
    const int answer = gcm_run_on_engine(module, arguments, &call, &plan);                  \
    if (answer != GC_STAGE) return answer;                                                  \
  } while (0)

#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine)                                \
  GCM_BLOCKING(name, PARAMETERS, ARGUMENTS, has_bytes, plan, GCM_ASKS_ENGINE(name), GCM_PUBLISH_HOST(name), \
               GCM_TRY_ENGINE(name, GCM_UNWRAP engine), GCM_HAND_OVER_BOTH)
#define GCM_COLLECTIVE_ONE_BUFFER(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine)                     \
  GCM_BLOCKING(name, PARAMETERS, ARGUMENTS, has_bytes, plan, GCM_ASKS_ENGINE(name), GCM_PUBLISH_HOST(name), \
               GCM_TRY_ENGINE(name, GCM_UNWRAP engine), GCM_HAND_OVER)
#include "mca/coll/collectives.def"

int gcm_reduce_local(const void *in, void *inout, int count, gcm_type *type, gcm_op *op, mca_coll_base_module_t *base) {
  const mca_coll_base_comm_coll_t *previous = &((gcm_module *)base)->previous;
  const gcm_plan plan =
      gcm_plan_partial(gcm_reads(in, gcm_uniform(1, count, type)), gcm_writes(inout, gcm_uniform(1, count, type)));
  if (GCM_LIKELY(!gcm_plan_on_device(&plan))) {
    return previous->coll_reduce_local(in, inout, count, type, op, previous->coll_reduce_local_module);
  }
  int rc = gcm_reduce_on_engine(in, inout, count, type, op);
  if (rc != GC_STAGE) return rc;
  gcm_staged staged;
  rc = gcm_stage_and_load(&staged, &plan);
  if (rc != MPI_SUCCESS) return rc;
  rc = previous->coll_reduce_local(gcm_handed(&staged.send, in), gcm_handed(&staged.recv, inout), count, type, op,
                                   previous->coll_reduce_local_module);
  return finish(&staged, rc);
}
