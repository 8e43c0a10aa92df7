/* MPI_Allreduce: the one collective that the engine runs on the device.
 *
 * Every rank publishes each call on the arrival board, with host buffers by one store, so that ranks whose buffers
 * are of different kinds agree on how to do it (core/abi.h). */
#include "coll/mca/plan.h"

int gcm_allreduce(const void *send, void *recv, int count, gcm_type *type, gcm_op *op, ompi_communicator_t *comm,
                  mca_coll_base_module_t *base) {
  gcm_module *module = (gcm_module *)base;
  const mca_coll_base_comm_coll_t *previous = &module->previous;
  /* Judged by the first byte of data, as in gcm_on_device(). */
  const ptrdiff_t first = type->super.true_lb;
  const bool in_place = send == MPI_IN_PLACE;

  /* Counts are equal on all ranks, so nobody publishes this one. */
  if (count == 0) return MPI_SUCCESS;
  if (GCM_LIKELY(!gc_is_device(gcm_abi, gcm_address(recv, first)) &&
                 (in_place || !gc_is_device(gcm_abi, gcm_address(send, first))))) {
    if (module->comm != NULL) gc_publish_host(module->comm, GC_FUNCTION_ALLREDUCE, (uint64_t)count);
    return previous->coll_allreduce(send, recv, count, type, op, comm, previous->coll_allreduce_module);
  }
  if (module->comm != NULL && gcm_process_closed()) { /* in an attribute's delete function in MPI_Finalize */
    gc_publish_host(module->comm, GC_FUNCTION_ALLREDUCE, (uint64_t)count);
  } else if (module->comm != NULL) {
    gcm_watch_finalize();
    const int rc = gcm_abi->allreduce(module->comm, in_place ? recv : send, recv, (size_t)count, gcm_engine_type(type),
                                      gcm_engine_op(op));
    if (rc != GC_STAGE) return rc;
  }
  return gcm_staged_allreduce(send, recv, count, type, op, comm, base);
}
