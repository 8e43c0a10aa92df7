/* The component's own declarations: the engine's table, the module of a communicator, and who offers what.
 *
 * Thread safety: gcm_abi is set in the component's open, before MPI threads exist, and cleared in its close. A module
 * belongs to its communicator: MPI allows one collective at a time on it.
 * Ownership: a module retains the modules whose functions it stands in front of and owns the engine's communicator;
 * both go in its destructor, by local work only.
 */
#ifndef GPUCOLL_MCA_COLL_MODULE_H
#define GPUCOLL_MCA_COLL_MODULE_H

#include "abi/abi.h"
#include "mca/common/compat.h"

typedef struct ompi_datatype_t gcm_type;
typedef struct ompi_op_t gcm_op;

/* Neighbours that are there: block blocks[i] of a buffer of `degree` blocks belongs to ranks[i]. */
typedef struct gcm_neighbors {
  int *ranks, *blocks;
  int n, degree;
} gcm_neighbors;

/* A blocking reduction between groups, as each group reduces for itself: group_reductions.c. */
typedef struct gcm_partial {
  void *memory; /* of the device; NULL until needed */
  size_t bytes;
  const void *send;
  size_t count;
  gcm_type *type;
  gcm_op *op;
  bool to_first; /* only the first rank of the group needs the result */
  /* The copy to be made at the end: none where `to` is NULL. */
  void *to;
  const void *from;
  size_t copied;
} gcm_partial;

typedef struct gcm_module {
  mca_coll_base_module_t super;
  mca_coll_base_comm_coll_t previous; /* who served each function before; NULL where nobody did */
  ompi_communicator_t *communicator;
  gc_comm *comm;       /* NULL: one rank that has not used it yet, or the engine cannot: everything is staged */
  bool comm_later;     /* whether the first call with device memory makes it */
  size_t *block_bytes; /* engine.c's lists, of most_blocks for each side; NULL until needed */
  ptrdiff_t *block_offsets;
  const gc_type_map **block_maps;
  size_t most_blocks;
  /* In a topology; or the other group, and those of it that this rank passes results to. Empty until needed. */
  gcm_neighbors sources, destinations;
  /* Among the ranks of both groups of an intercommunicator: where each begins, the present root, and whom this rank
   * gets results from. */
  int first_own, first_other, root, partner;
  gcm_partial partial;
} gcm_module;
OBJ_CLASS_DECLARATION(gcm_module);

extern const gc_abi *gcm_abi;
extern __attribute__((visibility("hidden"))) const gc_pointer_hint *gcm_hint; /* gcm_abi's, two loads nearer */
extern bool gcm_engine_runs; /* else: no communicators of the engine, everything is staged */
extern mca_coll_base_component_t mca_coll_gpucoll_component;

/* Answers as gc_has_devices() does, in as few instructions as can be, for what host buffers pass through: while `ask`
 * is set, the range's end is not 0 either. Relaxed: gc_is_device() acquires. */
static inline bool gcm_has_devices(void) { return __atomic_load_n(&gcm_hint->device_hi, __ATOMIC_RELAXED) != 0; }

#define GCM_UNWRAP(...) __VA_ARGS__

/* module.c: makes the engine's communicator where it is to be made later. */
void gcm_join_engine(gcm_module *module);

/* parameters.c: registers every parameter as an MCA variable and hands set values to the engine. An error: a value was
 * not accepted, here or in the environment, and the sentence has been logged. */
int gcm_register_parameters(void);

/* performance.c: registers every counter as a performance variable. */
void gcm_register_counters(void);

/* selection.c: whether the user asked for exactly `--mca coll gpucoll`; and then: makes the other components available
 * again. */
bool gcm_asked_literally(void);
int gcm_widen_selection(void);

/* bootstrap.c: what processes learn about each other. */
int gcm_publish_process(void);                                       /* before the modex is committed */
void gcm_forget_processes(void);                                     /* frees the cache of peers */
extern const gc_host_calls gcm_host_calls;                           /* ctx: the gcm_module */
const gc_process_blob *gcm_process_blob_of(const ompi_proc_t *proc); /* NULL: it runs without gpucoll */

/* lifetime.c: makes MPI_Finalize tell the engine while everything still works. Cheap once done. */
void gcm_watch_finalize(void);
void gcm_process_close(void);  /* at the latest in the component's close; at most once */
bool gcm_process_closed(void); /* the engine's part is over: stage, and tell the other ranks so */

/* interpose.c: carries messages of device memory from now on, and no more. */
void gcm_look_at_messages(void);
void gcm_leave_messages(void);
/* mca/pt2pt: the communicator ends, and what is known of its messages with it. */
void gcm_forget_notes(ompi_communicator_t *comm);

/* module.c */
mca_coll_base_module_t *gcm_comm_query(ompi_communicator_t *comm, int *priority);

/* neighbors.c: how many blocks there are in the buffers of MPI's neighbourhood collectives, with those that belong to
 * no rank; and the module's lists. False: no memory. */
int gcm_neighbors_in(const ompi_communicator_t *comm);
int gcm_neighbors_out(const ompi_communicator_t *comm);
bool gcm_has_edges(const ompi_communicator_t *comm);
bool gcm_has_destinations(const ompi_communicator_t *comm);
/* A bit for each of the first 64 blocks that belong to no rank: beyond the borders of a Cartesian grid. */
uint64_t gcm_absent_neighbors(const ompi_communicator_t *comm);
bool gcm_make_neighbors(gcm_neighbors *list, int degree);
bool gcm_find_neighbors(gcm_module *module);
void gcm_forget_neighbors(gcm_module *module);

/* groups.c: how the ranks of an intercommunicator are numbered; and a member by that number, or of any communicator. */
void gcm_number_groups(gcm_module *module);
ompi_proc_t *gcm_member(const gcm_module *module, int rank);

/* group_reductions.c */
void gcm_forget_partial(gcm_module *module);

/* types.c: the engine's names of a type and an operation, or -1 where it has none. */
int gcm_engine_type(const gcm_type *type);
int gcm_engine_op(gcm_op *op);

/* memory.c: returns whether the CPU reaches the data of a buffer that is taken for device memory: managed memory. Data
 * at absolute addresses (MPI_BOTTOM) count as out of its reach, as some of them may be. */
bool gcm_host_reaches(const void *buffer, const gcm_type *type);

/* type_map.c: where the data of a type lie. Valid until the type is freed. NULL: no memory. REQUIRES: its size is not
 * 0. Thread safety: any thread. */
const gc_type_map *gcm_type_map(gcm_type *type);
void gcm_forget_type_maps(void);

/* blocking.c */
int gcm_reduce_local(const void *in, void *inout, int count, gcm_type *type, gcm_op *op, mca_coll_base_module_t *base);

/* blocking.c, nonblocking.c, persistent.c: each collective in the forms that MPI has. */
#define GCM_COLLECTIVE(name, PARAMETERS, ARGUMENTS, has_bytes, plan, engine)                        \
  int gcm_##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, mca_coll_base_module_t *base);   \
  int gcm_i##name(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, ompi_request_t **request,       \
                  mca_coll_base_module_t *base);                                                    \
  int gcm_##name##_init(GCM_UNWRAP PARAMETERS, ompi_communicator_t *comm, struct ompi_info_t *info, \
                        ompi_request_t **request, mca_coll_base_module_t *base);
#include "mca/coll/collectives.def"
int gcm_ibarrier(ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *base);
int gcm_barrier_init(ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request,
                     mca_coll_base_module_t *base);
void gcm_stop_progress(void); /* no request of ours is under way any more */

/* Causes of slow calls, for gc_abi.tell_slow(). */
enum {
#define GC_CAUSE(name, instead, why, advice) GC_CAUSE_##name,
#include "base/observe/causes.def"
#undef GC_CAUSE
  GC_CAUSE_none
};

#endif
