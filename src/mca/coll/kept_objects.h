/* The types, the operation and the communicator that a persistent request needs as long as it lives, and that MPI lets
 * the application free as soon as the request is made. Open MPI keeps those of nonblocking requests until they are
 * complete, but none of persistent ones, which are complete when they are made.
 *
 * Thread safety: free between different objects; gcm_keep_with() may be called from any thread. Ownership: objects are
 * retained from gcm_keep() to gcm_let_go(). What is predefined is not looked at again.
 */
#ifndef GPUCOLL_MCA_COLL_KEPT_OBJECTS_H
#define GPUCOLL_MCA_COLL_KEPT_OBJECTS_H

#include "mca/coll/plan.h"

typedef struct gcm_kept_objects {
  opal_object_t **objects; /* NULL: none */
  size_t n;
} gcm_kept_objects;

/* Returns whether a call has objects that the application may free. op: NULL where it does not reduce. */
bool gcm_has_own_objects(const gcm_plan *plan, gcm_op *op, ompi_communicator_t *comm);
/* Retains the types and the operation. Return MPI error classes; on an error nothing is retained. */
int gcm_keep(gcm_kept_objects *kept, const gcm_plan *plan, gcm_op *op);
void gcm_let_go(gcm_kept_objects *kept);
/* Retains them, and the communicator, until another module's request is freed. REQUIRES: gcm_has_own_objects(). */
int gcm_keep_with(ompi_request_t *request, const gcm_plan *plan, gcm_op *op, ompi_communicator_t *comm);
/* At the end of MPI, when the objects are gone: forgets what requests keep that were never freed. */
void gcm_forget_kept_objects(void);

#endif
