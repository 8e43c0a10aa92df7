/* The way to the engine, for a collective of which this rank has device memory.
 *
 * Every rank publishes each call on the arrival board, with host buffers by one store, so that ranks whose buffers
 * are of different kinds agree on how to do it (abi/abi.h).
 * Thread safety: as the module's.
 */
#ifndef GPUCOLL_MCA_COLL_ENGINE_H
#define GPUCOLL_MCA_COLL_ENGINE_H

#include "base/mutant.h"
#include "mca/coll/plan.h"

/* The column `engine` of collectives.def: what the engine must know besides the plan. */
#define GCM_MOVES .root = -1
#define GCM_MOVES_AT(rank) .root = (rank)
#define GCM_REDUCES(its_type, its_op) GCM_REDUCES_AT(its_type, its_op, -1)
#define GCM_REDUCES_AT(its_type, its_op, rank) \
  .root = (rank), .reduces = 1, .type = gcm_engine_type(its_type), .op = gcm_engine_op(its_op), .mpi_op = (its_op)

/* Among neighbours. */
static inline bool gcm_is_neighborhood(uint32_t function) {
  return function == GC_FUNCTION_neighbor_allgather || function == GC_FUNCTION_neighbor_allgatherv ||
         function == GC_FUNCTION_neighbor_alltoall || function == GC_FUNCTION_neighbor_alltoallv ||
         function == GC_FUNCTION_neighbor_alltoallw;
}
/* Blocking ones that not all ranks come here with: MPI ends such a call on a rank without elements, though in a graph
 * ranks that no edges join to it may have some, and beside the root of an intercommunicator nobody asks for elements.
 */
static inline bool gcm_is_among_edges(uint32_t function, const ompi_communicator_t *comm) {
  return (function == GC_FUNCTION_neighbor_allgather || function == GC_FUNCTION_neighbor_alltoall) &&
         !OMPI_COMM_IS_CART(comm);
}
static inline bool gcm_is_beside_root(uint32_t function, const ompi_communicator_t *comm) {
  return (function == GC_FUNCTION_bcast || function == GC_FUNCTION_reduce || function == GC_FUNCTION_gather ||
          function == GC_FUNCTION_scatter) &&
         OMPI_COMM_IS_INTER(comm);
}
static inline bool gcm_comes_alone(uint32_t function, const ompi_communicator_t *comm) {
  return gcm_is_among_edges(function, comm) || gcm_is_beside_root(function, comm);
}
/* Answers the same for nonblocking ones, and for the making of persistent ones. */
static inline bool gcm_begins_alone(uint32_t function, const ompi_communicator_t *comm) {
  return (function == GC_FUNCTION_bcast || function == GC_FUNCTION_reduce) && OMPI_COMM_IS_INTER(comm);
}
static inline bool gcm_is_made_alone(uint32_t function, const ompi_communicator_t *comm) {
  return function == GC_FUNCTION_reduce && OMPI_COMM_IS_INTER(comm);
}
/* Nonblocking ones that MPI ends at once on ranks without elements; and those of which it makes none there. */
static inline bool gcm_ends_at_once(uint32_t function) {
  return function == GC_FUNCTION_allreduce || function == GC_FUNCTION_bcast || function == GC_FUNCTION_reduce ||
         function == GC_FUNCTION_reduce_scatter || function == GC_FUNCTION_reduce_scatter_block ||
         function == GC_FUNCTION_scan;
}
static inline bool gcm_is_not_made(uint32_t function) {
  return function == GC_FUNCTION_allreduce || function == GC_FUNCTION_reduce || function == GC_FUNCTION_reduce_scatter;
}
/* How a blocking one is counted on the board. */
static inline uint32_t gcm_order_of(uint32_t function, const ompi_communicator_t *comm) {
  return gcm_is_among_edges(function, comm) ? GC_ORDER_NEIGHBORS : GC_ORDER_BLOCKING;
}
/* Returns whether the root of an intercommunicator's rooted collective has nobody beside it. */
static inline bool gcm_root_is_alone(uint32_t function, const gcm_plan *plan, ompi_communicator_t *comm) {
  const bool from_root = function == GC_FUNCTION_bcast || function == GC_FUNCTION_scatter;
  const bool root_is_there = from_root ? plan->recv.store : plan->send.load;
  return (root_is_there ? ompi_comm_remote_size(comm) : ompi_comm_size(comm)) == 1;
}
/* Returns whether a blocking call is counted at all: on all ranks alike, or on all that edges join. Those have the same
 * has_bytes, as MPI wants one signature of what is sent and received, while a plan leaves out what no edge leads to.
 * Without bytes nobody counts it: some of them may pass no elements, and never come here. */
static GCM_INLINE bool gcm_is_counted(uint32_t function, bool has_bytes, const gcm_plan *plan,
                                      ompi_communicator_t *comm) {
  if (gcm_is_beside_root(function, comm)) return gcm_root_is_alone(function, plan, comm);
  if (!gcm_is_among_edges(function, comm)) return true;
  return gcm_has_edges(comm) && (gc_mutant(443) ? gcm_plan_has_bytes(plan) : has_bytes || gc_mutant(469));
}
/* Answers the same for a nonblocking one, and for the making of a persistent one: its function, or none. */
static GCM_INLINE uint32_t gcm_counts_as(uint32_t function, const gcm_plan *plan, ompi_communicator_t *comm) {
  return gcm_begins_alone(function, comm) && !gcm_root_is_alone(function, plan, comm) ? GC_FUNCTION_none : function;
}
static GCM_INLINE uint32_t gcm_made_as(uint32_t function, bool has_bytes, const gcm_plan *plan,
                                       ompi_communicator_t *comm) {
  const bool alone = gcm_is_made_alone(function, comm) && !gcm_root_is_alone(function, plan, comm);
  return alone || (!has_bytes && gcm_is_not_made(function)) ? GC_FUNCTION_none : function | GC_PERSISTENT;
}
/* Returns whether some ranks may have bytes in it while others have none. Ranks without bytes cannot tell whether
 * the call has device memory, and would keep the others from the device, so their calls go to the engine, too. */
static inline bool gcm_leaves_ranks_out(uint32_t function, const ompi_communicator_t *comm) {
  return function == GC_FUNCTION_gatherv || function == GC_FUNCTION_scatterv || function == GC_FUNCTION_alltoallv ||
         function == GC_FUNCTION_alltoallw || gcm_is_neighborhood(function) || OMPI_COMM_IS_INTER(comm);
}

/* Returns whether a buffer that the call needs is NULL. Neighbourhood calls may have none. Without devices this is a
 * matter of MPI alone. */
static GCM_INLINE bool gcm_lacks_buffer(uint32_t function, const gcm_plan *plan) {
  return gcm_has_devices() && !gcm_is_neighborhood(function) && (gcm_is_null(&plan->send) || gcm_is_null(&plan->recv));
}

/* Returns whether a call whose other buffers, if any, are host memory lacks a buffer. MPI may not look at a buffer
 * that is NULL on one rank alone. */
static GCM_INLINE bool gcm_lacks_all(uint32_t function, const gcm_plan *plan, ompi_communicator_t *comm) {
  return gcm_lacks_buffer(function, plan) && !gcm_is_alone(comm);
}

/* One side of a call. neighbors: whose blocks these are, or NULL where there is a block for each rank or only one.
 * False: the engine cannot see it, or there is no memory. */
bool gcm_describe_side(gcm_module *module, const gcm_side *from, int side, bool reduces, const gcm_neighbors *neighbors,
                       gc_buffer *out);
/* groups.c: the same of a whole call on an intercommunicator; of blocking reductions, with what is to be done once they
 * have run: MPI_SUCCESS or an MPI error class. */
bool gcm_describe_between_groups(gcm_module *module, const gcm_plan *plan, gc_call *call);
int gcm_root_among_all(const gcm_module *module, int root);
/* group_reductions.c: of blocking ones, and of those that combine. Not each blocking one has a way over the devices. */
bool gcm_can_reduce_groups(const gcm_plan *plan, const gc_call *call);
bool gcm_describe_operands(gcm_module *module, const gcm_plan *plan, gc_call *call);
bool gcm_describe_group_reduction(gcm_module *module, const gcm_plan *plan, gc_call *call);
int gcm_finish_between_groups(gcm_module *module);
/* Completes `call`, of which function and the column `engine` are set, and runs it. GC_STAGE: all ranks go through the
 * host; else the call is done, or the MPI error class is its end. `arguments`: those that it was made from; NULL where
 * they have lists. */
int gcm_run_on_engine(gcm_module *module, const gc_arguments *arguments, gc_call *call, const gcm_plan *plan);
/* Starts a nonblocking call by gc_abi.start; call: NULL where the engine need not see the buffers. REQUIRES: the
 * module has a communicator of the engine. */
int gcm_start_on_engine(gcm_module *module, uint32_t function, gc_call *call, const gcm_plan *plan,
                        gc_pending **pending);
/* Tells why a call of device memory that not all ranks count goes through the host. */
void gcm_tell_not_counted(gcm_module *module, uint32_t function, const gcm_plan *plan);
/* A call that lacks a buffer: the others must not wait for this rank. Its MPI error class. `order`: as of
 * gc_abi.refuse; a blocking function that is not counted is GC_FUNCTION_none. */
int gcm_refuse(gcm_module *module, uint32_t order, uint32_t function);
/* MPI_Reduce_local, of which a buffer is device memory. GC_STAGE: goes through the host. */
int gcm_reduce_on_engine(const void *in, void *inout, int count, gcm_type *type, gcm_op *op);

#endif
