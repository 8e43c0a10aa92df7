/* Where types hold absolute addresses: the only ones that lead to several allocations, of the host and of devices. */
#include "base/mutant.h"
#include "mca/coll/plan.h"

static void see(gcm_kinds *kinds, ptrdiff_t address) {
  const void *memory = gcm_address(MPI_BOTTOM, address);
  if (!gc_is_device(gcm_abi, memory)) {
    kinds->host = true;
    return;
  }
  kinds->device = true;
  const int number = gcm_abi->device_number(memory);
  if (number < 0) return;
  kinds->several_devices = kinds->several_devices || (kinds->number >= 0 && number != kinds->number && !gc_mutant(411));
  if (kinds->number < 0) kinds->number = number;
}

/* Nobody asks on how many devices data are that are partly the host's. */
static bool is_enough(const gcm_kinds *kinds) { return kinds->device && kinds->host; }

/* The runs of one element: those of a type with gaps that follow each other at equal distances may be allocations, too.
 */
static void see_element(gcm_kinds *kinds, ptrdiff_t address, gcm_type *type) {
  const gc_type_map *map = ompi_datatype_is_contiguous_memory_layout(type, 1) ? NULL : gcm_type_map(type);
  if (map == NULL) {
    see(kinds, address + type->super.true_lb);
    return;
  }
  for (size_t i = 0; i < map->n_runs; i++) {
    const gc_runs *runs = &map->runs[i];
    for (size_t r = 0; r < runs->count && !is_enough(kinds); r++) {
      see(kinds, address + runs->offset + (ptrdiff_t)r * runs->stride);
    }
  }
}

gcm_kinds gcm_kinds_at_addresses(const gcm_layout *layout) {
  gcm_kinds kinds = {false, false, false, -1};
  for (size_t i = 0; i < layout->groups && !is_enough(&kinds); i++) {
    gcm_type *type = gcm_group_type(layout, i);
    if (gcm_group_count(layout, i) == 0 || type->super.size == 0) continue;
    see_element(&kinds, gcm_group_offset(layout, i), type);
  }
  return kinds;
}
