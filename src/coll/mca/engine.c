/* Collectives in the engine's terms: buffers as bytes in memory, of which only the engine knows how to bring them to
 * other ranks, while only Open MPI knows its types. */
#include "coll/mca/engine.h"

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
static bool make_room(gcm_module *module, size_t n) {
  if (module->block_bytes == NULL) module->block_bytes = malloc(2 * n * sizeof *module->block_bytes);
  if (module->block_offsets == NULL) module->block_offsets = malloc(2 * n * sizeof *module->block_offsets);
  if (module->block_maps == NULL) module->block_maps = malloc(2 * n * sizeof *module->block_maps);
  return module->block_bytes != NULL && module->block_offsets != NULL && module->block_maps != NULL;
}

static bool list_blocks(gcm_module *module, const gcm_layout *layout, int side, gc_buffer *out) {
  const size_t n = layout->groups;
  if (!make_room(module, n)) return false;
  size_t *bytes = module->block_bytes + (size_t)side * n;
  ptrdiff_t *offsets = module->block_offsets + (size_t)side * n;
  const gc_type_map **maps = module->block_maps + (size_t)side * n;
  bool gaps = false;
  for (size_t i = 0; i < n; i++) {
    const size_t count = gcm_group_count(layout, i);
    gcm_type *type = gcm_group_type(layout, i);
    bytes[i] = 0;
    offsets[i] = 0;
    maps[i] = NULL;
    if (count == 0 || type->super.size == 0) continue; /* what else there is means nothing */
    if (!find_map(type, count, &maps[i])) return false;
    bytes[i] = count * type->super.size;
    offsets[i] = gcm_group_offset(layout, i) + (maps[i] != NULL ? 0 : type->super.true_lb);
    gaps = gaps || maps[i] != NULL;
  }
  out->block_bytes = bytes;
  out->block_offsets = offsets;
  out->block_maps = gaps ? maps : NULL;
  return true;
}

/* Reductions know the gaps of their types. */
static bool describe_side(gcm_module *module, const gcm_side *from, int side, bool reduces, gc_buffer *out) {
  const gcm_layout *layout = &from->layout;
  *out = (gc_buffer){.given = layout->groups > 0, .address = from->buffer};
  if (layout->groups == 0) return true;
  if (layout->counts != NULL) return list_blocks(module, layout, side, out);
  if (!reduces && layout->count > 0 && !find_map(layout->type, layout->count, &out->map)) return false;
  if (out->map == NULL) out->address = gcm_address(from->buffer, layout->type->super.true_lb);
  out->bytes = layout->count * (reduces ? (size_t)gcm_extent(layout->type) : layout->type->super.size);
  return true;
}

int gcm_run_on_engine(gcm_module *module, gc_call *call, const gcm_plan *plan) {
  if (module->comm == NULL) return GC_STAGE;
  if (gcm_process_closed() || /* in an attribute's delete function in MPI_Finalize */
      !describe_side(module, &plan->send, 0, call->reduces, &call->send) ||
      !describe_side(module, &plan->recv, 1, call->reduces, &call->recv)) {
    gc_publish_host(module->comm, call->function);
    return GC_STAGE;
  }
  gcm_watch_finalize();
  return gcm_abi->run(module->comm, call);
}
