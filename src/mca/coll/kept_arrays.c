#include "mca/coll/kept_arrays.h"

#include "base/mutant.h"

/* An array may be that of both sides, whose lengths differ where a rank has more sources than destinations. */
static void see(gcm_kept_arrays *kept, const void *given, size_t bytes) {
  if (given == NULL || bytes == 0) return;
  size_t i = 0;
  while (i < kept->n && kept->arrays[i].given != given) i++;
  if (i == kept->n) kept->arrays[kept->n++] = (struct gcm_kept_array){given, 0, NULL};
  if (kept->arrays[i].bytes < bytes) kept->arrays[i].bytes = bytes;
}

static void see_side(gcm_kept_arrays *kept, const gcm_side *side) {
  const gcm_layout *l = &side->layout;
  see(kept, l->counts, l->groups * sizeof *l->counts);
  see(kept, l->places, l->groups * sizeof *l->places);
  see(kept, l->far_places, l->groups * sizeof *l->far_places);
  see(kept, l->types, l->groups * sizeof *l->types);
}

int gcm_keep_arrays(gcm_kept_arrays *kept, const gcm_plan *plan, const int *recvcounts, int ranks) {
  kept->n = 0;
  if (gc_mutant(410)) return MPI_SUCCESS;
  see_side(kept, &plan->send);
  see_side(kept, &plan->recv);
  see(kept, recvcounts, (size_t)ranks * sizeof *recvcounts);
  for (size_t i = 0; i < kept->n; i++) {
    struct gcm_kept_array *array = &kept->arrays[i];
    array->copy = malloc(array->bytes);
    if (array->copy == NULL) {
      gcm_let_arrays_go(kept);
      return MPI_ERR_NO_MEM;
    }
    memcpy(array->copy, array->given, array->bytes);
  }
  return MPI_SUCCESS;
}

void gcm_let_arrays_go(gcm_kept_arrays *kept) {
  for (size_t i = 0; i < kept->n; i++) free(kept->arrays[i].copy);
  kept->n = 0;
}
