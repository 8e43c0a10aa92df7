/* Intercommunicators: the engine numbers the ranks of both groups as one, and all that goes from one group to the other
 * is messages, as among neighbours (docs/adr/0024). */
#include "mca/coll/engine.h"

/* ---- who is who ---- */

static uint64_t name_of_first(ompi_group_t *group) {
  const opal_process_name_t name = ompi_group_peer_lookup(group, 0)->super.proc_name;
  return (uint64_t)name.jobid << 32 | (uint64_t)name.vpid;
}

/* The group that comes first is the same in the eyes of both: no process is in both. */
void gcm_number_groups(gcm_module *module) {
  ompi_communicator_t *comm = module->communicator;
  module->first_own = module->first_other = 0;
  if (!OMPI_COMM_IS_INTER(comm)) return;
  if (name_of_first(comm->c_local_group) < name_of_first(comm->c_remote_group)) {
    module->first_other = ompi_comm_size(comm);
  } else {
    module->first_own = ompi_comm_remote_size(comm);
  }
}

ompi_proc_t *gcm_member(const gcm_module *module, int rank) {
  ompi_communicator_t *comm = module->communicator;
  const int here = rank - module->first_own;
  if (here >= 0 && here < ompi_comm_size(comm)) return ompi_group_peer_lookup(comm->c_local_group, here);
  return ompi_group_peer_lookup(comm->c_remote_group, rank - module->first_other);
}

/* ---- calls ---- */

enum { kBesideRoot = -2 }; /* in gc_call.root: the root is in this rank's group */

int gcm_root_among_all(const gcm_module *module, int root) {
  if (root == MPI_ROOT) return module->first_own + ompi_comm_rank(module->communicator);
  return root == MPI_PROC_NULL ? kBesideRoot : module->first_other + root;
}

static void append(gcm_neighbors *list, const gcm_module *module, int other) {
  list->ranks[list->n] = module->first_other + other;
  list->blocks[list->n++] = other;
}

/* The other group, a block for each; and those of it that this rank passes on to what its whole group has. */
static bool find_others(gcm_module *module) {
  if (module->destinations.blocks != NULL) return true;
  const int own = ompi_comm_size(module->communicator), n = ompi_comm_remote_size(module->communicator);
  const int me = ompi_comm_rank(module->communicator);
  gcm_forget_neighbors(module);
  if (!gcm_make_neighbors(&module->sources, n) || !gcm_make_neighbors(&module->destinations, n)) {
    gcm_forget_neighbors(module);
    return false;
  }
  for (int i = 0; i < n; i++) append(&module->sources, module, i);
  for (int i = me; i < n; i += own) append(&module->destinations, module, i);
  return true;
}

static bool sends_from_root(uint32_t function) {
  return function == GC_FUNCTION_bcast || function == GC_FUNCTION_scatter || function == GC_FUNCTION_scatterv;
}
static bool sends_blocks(uint32_t function) {
  return function == GC_FUNCTION_alltoall || function == GC_FUNCTION_alltoallv || function == GC_FUNCTION_alltoallw ||
         function == GC_FUNCTION_scatter || function == GC_FUNCTION_scatterv;
}

/* The ranks with which this rank exchanges: all others, the root, or nobody. */
typedef struct partners {
  const gcm_neighbors *to, *from;
} partners;

static partners partners_of(const gcm_module *module, const gc_call *call, int mpi_root, const gcm_neighbors *nobody,
                            const gcm_neighbors *the_root) {
  const gcm_neighbors *const all = &module->sources;
  if (call->root == -1) return (partners){all, all};
  if (mpi_root == MPI_PROC_NULL) return (partners){nobody, nobody};
  const bool is_root = mpi_root == MPI_ROOT;
  const gcm_neighbors *const other_end = is_root ? all : the_root;
  return sends_from_root(call->function) == is_root ? (partners){other_end, nobody} : (partners){nobody, other_end};
}

bool gcm_describe_between_groups(gcm_module *module, const gcm_plan *plan, gc_call *call) {
  module->partial.to = NULL;
  if (!find_others(module)) return false;
  if (call->combines) return gcm_describe_operands(module, plan, call);
  if (call->reduces) return gcm_describe_group_reduction(module, plan, call);
  const int mpi_root = call->root;
  if (mpi_root != -1) call->root = gcm_root_among_all(module, mpi_root);
  module->root = call->root;
  int first_block = 0;
  const gcm_neighbors nobody = {&module->root, &first_block, 0, 1}, the_root = {&module->root, &first_block, 1, 1};
  const partners with = partners_of(module, call, mpi_root, &nobody, &the_root);
  call->sources = with.from->ranks;
  call->n_sources = with.from->n;
  call->destinations = with.to->ranks;
  call->n_destinations = with.to->n;
  /* MPI_Bcast has one buffer. */
  const gcm_side none = {.buffer = NULL};
  const bool broadcasts = call->function == GC_FUNCTION_bcast && mpi_root == MPI_ROOT;
  const gcm_side *const send = broadcasts ? &plan->recv : &plan->send, *const recv = broadcasts ? &none : &plan->recv;
  return gcm_describe_side(module, send, 0, false, sends_blocks(call->function) ? with.to : NULL, &call->send) &&
         gcm_describe_side(module, recv, 1, false, with.from, &call->recv);
}
