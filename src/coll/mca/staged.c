/* The blocking collectives by staging, generated from their table. Host buffers go straight on; the checks of the
 * buffers' kinds are all that is in front of them. */
#include "coll/mca/staging.h"

/* Stores the result where the call has succeeded, and ends the staging. */
static int finish(gcm_staged *staged, int rc) {
  if (rc == MPI_SUCCESS) rc = gcm_store(staged);
  gcm_unstage(staged);
  return rc;
}

#define GCM_CALL_PREVIOUS(name, ARGUMENTS) \
  previous->coll_##name(GCM_UNWRAP ARGUMENTS, comm, previous->coll_##name##_module)

#define GCM_STAGED(name, PARAMETERS, ARGUMENTS, plan_of_call, HAND_OVER)                                  \
  int gcm_staged_##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, mca_coll_base_module_t *base) { \
    const mca_coll_base_comm_coll_t *previous = &((gcm_module *)base)->previous;                          \
    const gcm_plan plan = plan_of_call;                                                                   \
    if (GCM_LIKELY(!gcm_plan_on_device(&plan))) return GCM_CALL_PREVIOUS(name, ARGUMENTS);                \
    gcm_staged staged;                                                                                    \
    const int rc = gcm_stage_and_load(&staged, &plan);                                                    \
    if (rc != MPI_SUCCESS) return rc;                                                                     \
    HAND_OVER(&staged);                                                                                   \
    return finish(&staged, GCM_CALL_PREVIOUS(name, ARGUMENTS));                                           \
  }
#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, plan) \
  GCM_STAGED(name, PARAMETERS, ARGUMENTS, plan, GCM_HAND_OVER_BOTH)
#define GCM_COLLECTIVE_ONE_BUFFER(name, PARAMETERS, ARGUMENTS, plan) \
  GCM_STAGED(name, PARAMETERS, ARGUMENTS, plan, GCM_HAND_OVER)
#include "coll/mca/collectives.def"

int gcm_reduce_local(const void *in, void *inout, int count, gcm_type *type, gcm_op *op, mca_coll_base_module_t *base) {
  const mca_coll_base_comm_coll_t *previous = &((gcm_module *)base)->previous;
  const gcm_plan plan =
      gcm_plan_partial(gcm_reads(in, gcm_uniform(1, count, type)), gcm_writes(inout, gcm_uniform(1, count, type)));
  if (GCM_LIKELY(!gcm_plan_on_device(&plan))) {
    return previous->coll_reduce_local(in, inout, count, type, op, previous->coll_reduce_local_module);
  }
  gcm_staged staged;
  int rc = gcm_stage_and_load(&staged, &plan);
  if (rc != MPI_SUCCESS) return rc;
  rc = previous->coll_reduce_local(gcm_handed(&staged.send, in), gcm_handed(&staged.recv, inout), count, type, op,
                                   previous->coll_reduce_local_module);
  return finish(&staged, rc);
}
