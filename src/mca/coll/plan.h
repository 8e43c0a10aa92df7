/* Plans: the buffers that a collective call reads and writes on this rank. They have only the significant buffers, as
 * layouts that can be looked at without touching memory. Pure functions; the argument rules of MPI (roots,
 * intercommunicators, MPI_IN_PLACE) are here and nowhere else.
 *
 * Always inline: in front of a call with host buffers, a plan is nothing but the two or three checks that it takes.
 * Thread safety: free. Ownership: a layout points to the caller's arrays and types and is used only within the call
 * that made it.
 */
#ifndef GPUCOLL_MCA_COLL_PLAN_H
#define GPUCOLL_MCA_COLL_PLAN_H

#include "mca/coll/module.h"

#define GCM_INLINE inline __attribute__((always_inline))

/* `groups` runs of elements. Run i has counts[i] elements, or `count`; of types[i], or `type`; and starts at
 * far_places[i] bytes, or at places[i] bytes where `types` is set, else at places[i] extents, or at i * apart bytes.
 * Bit i of `absent`: run i belongs to a neighbour that does not exist, and MPI leaves it alone. */
typedef struct gcm_layout {
  size_t groups, count;
  ptrdiff_t apart;
  uint64_t absent;
  gcm_type *type;
  const int *counts, *places;
  const MPI_Aint *far_places;
  gcm_type *const *types;
} gcm_layout;

/* One buffer of a call. No groups: not significant on this rank, handed on as it is. */
typedef struct gcm_side {
  const void *buffer;
  gcm_layout layout;
  bool load;  /* the call reads it, or may leave some of it as it was */
  bool store; /* the call writes it */
} gcm_side;

typedef struct gcm_plan {
  gcm_side send, recv;
} gcm_plan;

/* ---- layouts ---- */

static GCM_INLINE gcm_layout gcm_uniform(int times, int count, gcm_type *type) {
  return (gcm_layout){.groups = 1, .count = (size_t)times * (size_t)count, .type = type};
}
static GCM_INLINE gcm_layout gcm_blocks(int n, const int *counts, const int *places, gcm_type *type) {
  return (gcm_layout){.groups = (size_t)n, .counts = counts, .places = places, .type = type};
}
static GCM_INLINE gcm_layout gcm_typed_blocks(int n, const int *counts, const int *places, gcm_type *const *types) {
  return (gcm_layout){.groups = (size_t)n, .counts = counts, .places = places, .types = types};
}
static GCM_INLINE gcm_layout gcm_far_blocks(int n, const int *counts, const MPI_Aint *places, gcm_type *const *types) {
  return (gcm_layout){.groups = (size_t)n, .counts = counts, .far_places = places, .types = types};
}

enum { kMostAbsent = 64 };
static GCM_INLINE size_t gcm_group_count(const gcm_layout *l, size_t i) {
  if (l->absent != 0 && i < kMostAbsent && (l->absent >> i & 1) != 0) return 0;
  return l->counts ? (size_t)l->counts[i] : l->count;
}
static GCM_INLINE gcm_type *gcm_group_type(const gcm_layout *l, size_t i) { return l->types ? l->types[i] : l->type; }
static GCM_INLINE ptrdiff_t gcm_extent(const gcm_type *type) { return type->super.ub - type->super.lb; }
static GCM_INLINE ptrdiff_t gcm_group_offset(const gcm_layout *l, size_t i) {
  if (l->far_places != NULL) return l->far_places[i];
  if (l->places == NULL) return (ptrdiff_t)i * l->apart;
  return l->types != NULL ? (ptrdiff_t)l->places[i] : (ptrdiff_t)l->places[i] * gcm_extent(l->type);
}

/* `base` may lie outside of the object that base + offset is in, which pointer arithmetic does not allow. */
static GCM_INLINE void *gcm_address(const void *base, ptrdiff_t offset) {
  return (void *)((uintptr_t)base + (uintptr_t)offset);
}

/* The kinds of memory that data at absolute addresses (MPI_BOTTOM) lie in. */
typedef struct gcm_kinds {
  bool device, host;
  bool several_devices; /* unless they are partly the host's */
  int number;           /* of the first device; -1: managed memory alone */
} gcm_kinds;
gcm_kinds gcm_kinds_at_addresses(const gcm_layout *layout); /* kinds.c */

/* Looks at a copy of the layout, so that the plan need not be in memory. */
static GCM_INLINE gcm_kinds gcm_kinds_of(const gcm_side *side) {
  const gcm_layout copy = side->layout;
  return gcm_kinds_at_addresses(&copy);
}

static inline bool gcm_are_mixed(const gcm_kinds *kinds) {
  return kinds->device && (kinds->host || kinds->several_devices);
}
/* Returns whether no kernel reaches all data of the buffer: some are host memory and some are not, or they lie on
 * several devices. Only absolute addresses can lead there. */
static inline bool gcm_is_mixed(const gcm_side *side) {
  if (side->buffer != MPI_BOTTOM) return false;
  const gcm_kinds kinds = gcm_kinds_of(side);
  return gcm_are_mixed(&kinds);
}
static inline bool gcm_is_partly_host(const gcm_side *side) {
  if (side->buffer != MPI_BOTTOM) return false;
  const gcm_kinds kinds = gcm_kinds_of(side);
  return kinds.device && kinds.host;
}

/* The first group that has data; `groups` where none has. */
static GCM_INLINE size_t gcm_first_group(const gcm_layout *l) {
  size_t i = 0;
  while (i < l->groups && (gcm_group_count(l, i) == 0 || gcm_group_type(l, i)->super.size == 0)) i++;
  return i;
}
static GCM_INLINE bool gcm_has_bytes(const gcm_side *side) {
  return gcm_first_group(&side->layout) < side->layout.groups;
}
/* The first byte of data: `buffer` itself may lie outside of them (negative lower bounds, displacements).
 * REQUIRES: gcm_has_bytes. */
static GCM_INLINE void *gcm_data_at(const gcm_side *side, size_t group) {
  const gcm_layout *l = &side->layout;
  return gcm_address(side->buffer, gcm_group_offset(l, group) + gcm_group_type(l, group)->super.true_lb);
}
static GCM_INLINE void *gcm_data(const gcm_side *side) { return gcm_data_at(side, gcm_first_group(&side->layout)); }

/* Returns whether the buffer is device memory, if only in part. Its first byte of data decides. */
static GCM_INLINE bool gcm_on_device(const gcm_side *side) {
  if (side->buffer == MPI_BOTTOM) return gcm_kinds_of(side).device;
  const size_t group = gcm_first_group(&side->layout);
  return group < side->layout.groups && gc_is_device(gcm_abi, gcm_data_at(side, group));
}

/* memory.c: returns whether the data of a buffer are memory that only a device reaches, if only in part. */
bool gcm_only_device_reaches(const void *buffer, size_t count, gcm_type *type);
/* Does the same, and costs next to nothing in a process without devices. */
static GCM_INLINE bool gcm_is_out_of_reach(const void *buffer, size_t count, gcm_type *type) {
  return gcm_has_devices() && gcm_only_device_reaches(buffer, count, type);
}

/* Returns whether the program has passed NULL, which would be taken for host memory, and for MPI_BOTTOM, too. */
static GCM_INLINE bool gcm_is_null(const gcm_side *side) {
  if (GCM_LIKELY(side->buffer != MPI_BOTTOM)) return false;
  const size_t group = gcm_first_group(&side->layout);
  return group < side->layout.groups && gcm_data_at(side, group) == NULL;
}

/* ---- who takes part ---- */

/* Ranks that a rooted or all-to-all operation exchanges data with. */
static GCM_INLINE int gcm_peers(ompi_communicator_t *comm) {
  return OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm);
}

/* Returns whether the communicator has no other rank. */
static GCM_INLINE bool gcm_is_alone(ompi_communicator_t *comm) {
  return !OMPI_COMM_IS_INTER(comm) && ompi_comm_size(comm) == 1;
}

/* Over this rank's own group, also on intercommunicators: MPI_Reduce_scatter's rule. */
static GCM_INLINE size_t gcm_sum(const int *counts, ompi_communicator_t *comm) {
  size_t sum = 0;
  for (int i = 0; i < ompi_comm_size(comm); i++) sum += (size_t)counts[i];
  return sum;
}

/* ---- calls without bytes ---- */

/* The column `has_bytes` of collectives.def. Counts alone do not tell: one rank may have no elements and another some
 * of a type without data. */
static GCM_INLINE bool gcm_has_some(int count, const gcm_type *type) { return count != 0 && type->super.size != 0; }
/* Returns whether a count but the first is not 0. It is asked seldom: most often the first one is not 0, either. */
static __attribute__((noinline, unused)) bool gcm_has_others(const int *counts, ompi_communicator_t *comm) {
  int i = ompi_comm_size(comm) - 1;
  while (i > 0 && counts[i] == 0) i--;
  return i > 0;
}
static GCM_INLINE bool gcm_has_some_of(const int *counts, const gcm_type *type, ompi_communicator_t *comm) {
  return (GCM_LIKELY(counts[0] != 0) || gcm_has_others(counts, comm)) && type->super.size != 0;
}

/* ---- plans ---- */

static GCM_INLINE gcm_side gcm_reads(const void *buffer, gcm_layout layout) {
  return (gcm_side){.buffer = buffer, .layout = layout, .load = true};
}
static GCM_INLINE gcm_side gcm_writes(void *buffer, gcm_layout layout) {
  return (gcm_side){.buffer = buffer, .layout = layout, .store = true};
}
/* The side where it matters, else one that is handed on as it is. Fields, not whole sides, so that nothing of a plan
 * need ever be in memory. */
static GCM_INLINE gcm_side gcm_where(bool matters, gcm_side side) {
  side.layout.groups = matters ? side.layout.groups : 0;
  side.load = side.load && matters;
  side.store = side.store && matters;
  return side;
}

/* Everybody sends and receives. MPI_IN_PLACE as send buffer: the input is where the output goes. */
static GCM_INLINE gcm_plan gcm_plan_exchange(gcm_side send, gcm_side recv) {
  const bool in_place = send.buffer == MPI_IN_PLACE;
  recv.load = recv.load || in_place;
  return (gcm_plan){gcm_where(!in_place, send), recv};
}

/* As exchange, but parts of the receive buffer may stay untouched: the outer borders of a Cartesian grid. */
static GCM_INLINE gcm_plan gcm_plan_partial(gcm_side send, gcm_side recv) {
  recv.load = true;
  return gcm_plan_exchange(send, recv);
}

/* ---- neighbours ---- */

/* Returns the blocks of all neighbours but those beyond the borders of a Cartesian grid. */
static GCM_INLINE gcm_layout gcm_real(gcm_layout layout, ompi_communicator_t *comm) {
  layout.absent = gcm_absent_neighbors(comm);
  return layout;
}
/* Returns them of `n` blocks that follow each other. */
static GCM_INLINE gcm_layout gcm_neighbor_blocks(int n, int count, gcm_type *type, ompi_communicator_t *comm) {
  const uint64_t absent = gcm_absent_neighbors(comm);
  if (absent == 0) return gcm_uniform(n, count, type);
  return (gcm_layout){
      .groups = (size_t)n, .count = (size_t)count, .type = type, .absent = absent, .apart = count * gcm_extent(type)};
}
/* One block for all neighbours. Nobody reads it where there are none: it may be NULL. */
static GCM_INLINE gcm_side gcm_reads_for_neighbors(const void *buffer, gcm_layout layout, ompi_communicator_t *comm) {
  return gcm_where(gcm_has_destinations(comm), gcm_reads(buffer, layout));
}

/* ---- plans of other collectives ---- */

/* Rank 0 receives nothing; in place its input is in the receive buffer all the same. */
static GCM_INLINE gcm_plan gcm_plan_exscan(gcm_side send, gcm_side recv, ompi_communicator_t *comm) {
  return gcm_plan_exchange(send, gcm_where(ompi_comm_rank(comm) != 0 || send.buffer == MPI_IN_PLACE, recv));
}

/* Return this rank's role in a rooted operation. On an intercommunicator the root's own group does not take part. */
static GCM_INLINE bool gcm_is_root(int root, ompi_communicator_t *comm) {
  return OMPI_COMM_IS_INTER(comm) ? root == MPI_ROOT : root == ompi_comm_rank(comm);
}
static GCM_INLINE bool gcm_is_leaf(int root, ompi_communicator_t *comm) {
  return !OMPI_COMM_IS_INTER(comm) || (root != MPI_ROOT && root != MPI_PROC_NULL);
}

/* The column `has_bytes` of rooted ones with equal blocks: the root's of each leaf, or the leaf's. Beside the root of
 * an intercommunicator nobody knows. */
static GCM_INLINE bool gcm_rooted_has_some(int root_count, const gcm_type *root_type, int leaf_count,
                                           const gcm_type *leaf_type, int root, ompi_communicator_t *comm) {
  if (gcm_is_root(root, comm)) return gcm_has_some(root_count, root_type);
  return root == MPI_PROC_NULL || gcm_has_some(leaf_count, leaf_type);
}

/* All leaves send, the root receives; within a communicator the root is a leaf too. */
static GCM_INLINE gcm_plan gcm_plan_gather(gcm_side send, gcm_side recv, int root, ompi_communicator_t *comm) {
  const bool receives = gcm_is_root(root, comm), in_place = receives && send.buffer == MPI_IN_PLACE;
  recv.load = recv.load || in_place;
  return (gcm_plan){gcm_where(gcm_is_leaf(root, comm) && !in_place, send), gcm_where(receives, recv)};
}

/* The root sends, all leaves receive. MPI_IN_PLACE as the root's receive buffer: its part stays where it is. */
static GCM_INLINE gcm_plan gcm_plan_scatter(gcm_side send, gcm_side recv, int root, ompi_communicator_t *comm) {
  return (gcm_plan){gcm_where(gcm_is_root(root, comm), send),
                    gcm_where(gcm_is_leaf(root, comm) && recv.buffer != MPI_IN_PLACE, recv)};
}

/* One buffer, which the root sends from. */
static GCM_INLINE gcm_plan gcm_plan_bcast(void *buffer, gcm_layout layout, int root, ompi_communicator_t *comm) {
  const bool sends = gcm_is_root(root, comm);
  const gcm_side side = {.buffer = buffer, .layout = layout, .load = sends, .store = !sends};
  return (gcm_plan){{.buffer = NULL}, gcm_where(sends || gcm_is_leaf(root, comm), side)};
}

/* Input of `total` elements, output of `mine`; in place the input is in the receive buffer. */
static GCM_INLINE gcm_plan gcm_plan_reduce_scatter(const void *send, void *recv, size_t total, int mine,
                                                   gcm_type *type) {
  const size_t output = send == MPI_IN_PLACE ? total : (size_t)mine;
  return gcm_plan_exchange(gcm_reads(send, (gcm_layout){.groups = 1, .count = total, .type = type}),
                           gcm_writes(recv, (gcm_layout){.groups = 1, .count = output, .type = type}));
}

static GCM_INLINE bool gcm_plan_on_device(const gcm_plan *plan) {
  return gcm_on_device(&plan->send) || gcm_on_device(&plan->recv);
}

static GCM_INLINE bool gcm_plan_has_bytes(const gcm_plan *plan) {
  return gcm_has_bytes(&plan->send) || gcm_has_bytes(&plan->recv);
}

#endif
