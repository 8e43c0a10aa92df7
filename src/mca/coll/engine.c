/* Collectives in the engine's terms: buffers as bytes in memory, of which only the engine knows how to bring them to
 * other ranks, while only Open MPI knows its types. */
#include "mca/coll/engine.h"

static bool has_gaps(const gcm_type *type, size_t count) {
  return type->super.size > 0 && !ompi_datatype_is_contiguous_memory_layout(type, count > 1 ? 2 : 1);
}

/* The map of a type with gaps; NULL without. False: no memory. */
static bool find_map(gcm_type *type, size_t count, const gc_type_map **map) {
  *map = NULL;
  if (!has_gaps(type, count)) return true;
  *map = gcm_type_map(type);
  return *map != NULL;
}

/* A list for each side, kept by the module, of which MPI allows one collective at a time. */
static bool make_room(gcm_module *module) {
  if (module->block_bytes != NULL && module->block_offsets != NULL && module->block_maps != NULL) return true;
  const int ranks = ompi_comm_size(module->communicator);
  const int peers = gcm_peers(module->communicator);
  const int in = gcm_neighbors_in(module->communicator), out = gcm_neighbors_out(module->communicator);
  const size_t n = (size_t)(in > out ? in : out), m = (size_t)(ranks > peers ? ranks : peers), most = m > n ? m : n;
  if (module->block_bytes == NULL) module->block_bytes = malloc(2 * most * sizeof *module->block_bytes);
  if (module->block_offsets == NULL) module->block_offsets = malloc(2 * most * sizeof *module->block_offsets);
  if (module->block_maps == NULL) module->block_maps = malloc(2 * most * sizeof *module->block_maps);
  module->most_blocks = most;
  return module->block_bytes != NULL && module->block_offsets != NULL && module->block_maps != NULL;
}

typedef struct block {
  gcm_type *type;
  size_t count;
  ptrdiff_t offset;
} block;

/* Returns block i of `degree` blocks that follow each other, where the layout does not list them. */
static block block_at(const gcm_layout *layout, size_t i, int degree) {
  if (layout->counts != NULL || layout->groups > 1) {
    return (block){gcm_group_type(layout, i), gcm_group_count(layout, i), gcm_group_offset(layout, i)};
  }
  const size_t count = layout->count / (size_t)degree;
  return (block){layout->type, count, (ptrdiff_t)(i * count) * gcm_extent(layout->type)};
}

/* neighbors: NULL where there is a block for each rank. */
static bool list_blocks(gcm_module *module, const gcm_layout *layout, int side, const gcm_neighbors *neighbors,
                        gc_buffer *out) {
  const size_t n = neighbors != NULL ? (size_t)neighbors->n : layout->groups;
  if (!make_room(module)) return false;
  size_t *bytes = module->block_bytes + (size_t)side * module->most_blocks;
  ptrdiff_t *offsets = module->block_offsets + (size_t)side * module->most_blocks;
  const gc_type_map **maps = module->block_maps + (size_t)side * module->most_blocks;
  bool gaps = false;
  for (size_t i = 0; i < n; i++) {
    const block b =
        neighbors != NULL ? block_at(layout, (size_t)neighbors->blocks[i], neighbors->degree) : block_at(layout, i, 0);
    bytes[i] = 0;
    offsets[i] = 0;
    maps[i] = NULL;
    if (b.count == 0 || b.type->super.size == 0) continue; /* what else there is means nothing */
    if (!find_map(b.type, b.count, &maps[i])) return false;
    bytes[i] = b.count * b.type->super.size;
    offsets[i] = b.offset + (maps[i] != NULL ? 0 : b.type->super.true_lb);
    gaps = gaps || maps[i] != NULL;
  }
  out->block_bytes = bytes;
  out->block_offsets = offsets;
  out->block_maps = gaps ? maps : NULL;
  return true;
}

/* Reductions know the gaps of their types. */
bool gcm_describe_side(gcm_module *module, const gcm_side *from, int side, bool reduces, const gcm_neighbors *neighbors,
                       gc_buffer *out) {
  const gcm_layout *layout = &from->layout;
  *out = (gc_buffer){.given = layout->groups > 0, .address = from->buffer};
  if (layout->groups == 0) return true;
  if (gcm_is_mixed(from)) return false;
  if (layout->counts != NULL || neighbors != NULL) return list_blocks(module, layout, side, neighbors, out);
  if (!reduces && layout->count > 0 && !find_map(layout->type, layout->count, &out->map)) return false;
  if (out->map == NULL) out->address = gcm_address(from->buffer, layout->type->super.true_lb);
  out->bytes = layout->count * (reduces ? (size_t)gcm_extent(layout->type) : layout->type->super.size);
  return true;
}

/* Returns whether the engine can see the call at all. One block goes to all neighbours of an allgather. */
static bool describe(gcm_module *module, const gcm_plan *plan, gc_call *call) {
  if (gcm_process_closed()) return false; /* in an attribute's delete function in MPI_Finalize */
  if (OMPI_COMM_IS_INTER(module->communicator)) return gcm_describe_between_groups(module, plan, call);
  if (ompi_comm_size(module->communicator) == 1) call->reduces = 0; /* what it reduces is the result already */
  const gcm_neighbors *to = NULL, *from = NULL;
  const bool gathers =
      call->function == GC_FUNCTION_neighbor_allgather || call->function == GC_FUNCTION_neighbor_allgatherv;
  if (gcm_is_neighborhood(call->function)) {
    if (!gcm_find_neighbors(module)) return false;
    from = &module->sources;
    if (!gathers) to = &module->destinations;
    call->sources = module->sources.ranks;
    call->n_sources = module->sources.n;
    call->destinations = module->destinations.ranks;
    call->n_destinations = module->destinations.n;
  }
  return gcm_describe_side(module, &plan->send, 0, call->reduces, to, &call->send) &&
         gcm_describe_side(module, &plan->recv, 1, call->reduces, from, &call->recv);
}

/* Returns why describe() has not described a call. */
static uint32_t why_not_described(const gcm_module *module, const gc_call *call, const gcm_plan *plan) {
  if (gcm_is_partly_host(&plan->send) || gcm_is_partly_host(&plan->recv)) return GC_CAUSE_partly_host;
  if (gcm_is_mixed(&plan->send) || gcm_is_mixed(&plan->recv)) return GC_CAUSE_several_devices;
  const bool between = OMPI_COMM_IS_INTER(module->communicator) && call->reduces && !call->combines;
  return between && !gcm_can_reduce_groups(plan, call) ? GC_CAUSE_between_groups : GC_CAUSE_no_memory;
}

static void tell_slow(gcm_module *module, uint32_t function, const gcm_plan *plan, uint32_t cause) {
  if (gcm_process_closed() || module->comm == NULL || !gcm_plan_on_device(plan)) return;
  gcm_abi->tell_slow(module->comm, function, cause);
}

void gcm_tell_not_counted(gcm_module *module, uint32_t function, const gcm_plan *plan) {
  if (OMPI_COMM_IS_INTER(module->communicator)) tell_slow(module, function, plan, GC_CAUSE_between_groups);
}

/* Return whether what the arguments' addresses stand for stays the same: the program cannot free it. */
static bool has_lasting_type(const gcm_side *side) {
  return side->layout.groups == 0 || ompi_datatype_is_predefined(side->layout.type) || gc_mutant(570);
}
static bool may_come_again(const gc_call *call, const gcm_plan *plan) {
  return has_lasting_type(&plan->send) && has_lasting_type(&plan->recv) &&
         (call->mpi_op == NULL || ompi_op_is_intrinsic(call->mpi_op));
}

int gcm_run_on_engine(gcm_module *module, const gc_arguments *arguments, gc_call *call, const gcm_plan *plan) {
  if (module->comm_later && gcm_plan_on_device(plan)) gcm_join_engine(module);
  if (module->comm == NULL) return GC_STAGE;
  if (!describe(module, plan, call)) {
    gc_publish_host(module->comm, call->order, call->function);
    tell_slow(module, call->function, plan, why_not_described(module, call, plan));
    return GC_STAGE;
  }
  gcm_watch_finalize();
  if (arguments != NULL && may_come_again(call, plan)) call->arguments = arguments;
  const int rc = gcm_abi->run(module->comm, call);
  return rc == MPI_SUCCESS ? gcm_finish_between_groups(module) : rc;
}

int gcm_start_on_engine(gcm_module *module, uint32_t function, gc_call *call, const gcm_plan *plan,
                        gc_pending **pending) {
  if (call != NULL) call->combines = call->reduces && OMPI_COMM_IS_INTER(module->communicator);
  const bool described = call != NULL && describe(module, plan, call);
  if (described) gcm_watch_finalize();
  if (call != NULL && !described) tell_slow(module, call->function, plan, why_not_described(module, call, plan));
  return gcm_abi->start(module->comm, function, described ? call : NULL, pending);
}

int gcm_refuse(gcm_module *module, uint32_t order, uint32_t function) {
  if (module->comm != NULL && !gcm_process_closed()) {
    gcm_watch_finalize();
    gcm_abi->refuse(module->comm, order, function);
  }
  return MPI_ERR_BUFFER;
}

int gcm_reduce_on_engine(const void *in, void *inout, int count, gcm_type *type, gcm_op *op) {
  if (gcm_process_closed()) return GC_STAGE;
  gcm_watch_finalize();
  return gcm_abi->reduce_local(in, inout, (size_t)count, gcm_engine_type(type), gcm_engine_op(op));
}
