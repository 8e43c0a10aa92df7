#include "mca/coll/plan.h"

static void construct(gcm_module *m) {
  memset(&m->previous, 0, sizeof m->previous);
  m->communicator = NULL;
  m->comm = NULL;
  m->comm_later = false;
  m->block_bytes = NULL;
  m->block_offsets = NULL;
  m->block_maps = NULL;
  m->sources = m->destinations = (gcm_neighbors){0};
  m->first_own = m->first_other = m->root = m->partner = 0;
  m->partial = (gcm_partial){0};
}

/* Runs inside MPI_Comm_free and MPI_Finalize, on other ranks at other times: local work only. */
static void destruct(gcm_module *m) {
  if (m->comm != NULL && gcm_abi != NULL) gcm_abi->comm_free(m->comm);
  m->comm = NULL;
  gcm_forget_notes(m->communicator);
  free(m->block_bytes);
  free(m->block_offsets);
  free(m->block_maps);
  gcm_forget_neighbors(m);
  gcm_forget_partial(m);
#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine) \
  GCM_UNCHAIN(&m->previous, name);                                           \
  GCM_UNCHAIN(&m->previous, i##name);                                        \
  GCM_UNCHAIN(&m->previous, name##_init);
#include "mca/coll/collectives.def"
  GCM_UNCHAIN(&m->previous, reduce_local);
  GCM_UNCHAIN(&m->previous, ibarrier);
  GCM_UNCHAIN(&m->previous, barrier_init);
}
OBJ_CLASS_INSTANCE(gcm_module, mca_coll_base_module_t, construct, destruct);

static void chain_all(gcm_module *m, ompi_communicator_t *comm) {
#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine) \
  GCM_CHAIN(&m->super, &m->previous, comm, name, gcm_##name);                \
  GCM_CHAIN(&m->super, &m->previous, comm, i##name, gcm_i##name);            \
  GCM_CHAIN(&m->super, &m->previous, comm, name##_init, gcm_##name##_init);
#include "mca/coll/collectives.def"
  GCM_CHAIN(&m->super, &m->previous, comm, reduce_local, gcm_reduce_local);
  GCM_CHAIN(&m->super, &m->previous, comm, ibarrier, gcm_ibarrier);
  GCM_CHAIN(&m->super, &m->previous, comm, barrier_init, gcm_barrier_init);
}

/* An intercommunicator's ranks are those of both groups. */
static int count_ranks(ompi_communicator_t *comm) {
  return ompi_comm_size(comm) + (OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : 0);
}

/* Local work only. */
static void make_engine_comm(gcm_module *m) {
  ompi_communicator_t *const comm = m->communicator;
  const gc_comm_description description = {
      .context_id = gcm_context_id(comm),
      .rank = m->first_own + ompi_comm_rank(comm),
      .size = count_ranks(comm),
      .two_groups = OMPI_COMM_IS_INTER(comm),
      .calls = &gcm_host_calls,
      .ctx = m,
      .name = comm->c_name[0] != '\0' ? comm->c_name : "an intercommunicator (its groups' ranks in one row)",
      .threads = ompi_mpi_thread_provided > MPI_THREAD_SINGLE,
  };
  m->comm = gcm_abi->comm_new(&description);
}

void gcm_join_engine(gcm_module *module) {
  if (!module->comm_later || gcm_process_closed()) return;
  module->comm_later = false;
  make_engine_comm(module);
}

/* May run inside MPI progress (MPI_Comm_idup). With several ranks, all calls are counted from the first on; one rank
 * has nobody to count with, and programs make many such communicators that never see device memory. */
static int enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm) {
  gcm_module *m = (gcm_module *)base;
  m->communicator = comm;
  chain_all(m, comm);
  gcm_number_groups(m);
  m->comm_later = gcm_engine_runs && count_ranks(comm) == 1;
  if (gcm_engine_runs && !m->comm_later) make_engine_comm(m);
  return OMPI_SUCCESS;
}

mca_coll_base_module_t *gcm_comm_query(ompi_communicator_t *comm, int *priority) {
  (void)comm;
  const int64_t wanted = gcm_abi->param_value("priority");
  if (wanted < 0) return NULL;
  gcm_module *m = OBJ_NEW(gcm_module);
  if (m == NULL) return NULL;
  m->super.coll_module_enable = enable;
  *priority = (int)wanted;
  return &m->super;
}
