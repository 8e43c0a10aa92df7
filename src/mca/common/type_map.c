/* Where the data of a derived type lie, found once for each type: the map is an attribute of the type, and goes with
 * it. An address would not do to know a type by, as a new one may get that of one that was freed.
 *
 * Thread safety: one lock for all of it. Ownership: the maps that there are form a list, from which the type's end
 * takes its own, and the component's close all. */
#include <limits.h>

#include "mca/coll/module.h"

typedef struct kept_map {
  gc_type_map map; /* first: engine.c gets this */
  struct kept_map *next, *previous;
} kept_map;

typedef struct runs_list {
  gc_runs *runs;
  size_t count, room;
} runs_list;

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static kept_map *maps;
static uint64_t last_id;
static int keyval = MPI_KEYVAL_INVALID;

/* ---- collecting runs ---- */

/* Returns whether the run goes on where the last ones end, or lies as far from them as they lie from each other. */
static bool joins_last(runs_list *list, ptrdiff_t offset, size_t bytes) {
  if (list->count == 0) return false;
  gc_runs *last = &list->runs[list->count - 1];
  const ptrdiff_t end = last->offset + (ptrdiff_t)(last->count - 1) * last->stride;
  if (last->count == 1 && end + (ptrdiff_t)last->bytes == offset) {
    last->bytes += bytes;
    return true;
  }
  if (last->bytes != bytes || (last->count > 1 && offset - end != last->stride)) return false;
  last->stride = offset - end;
  last->count++;
  return true;
}

static bool append(runs_list *list, ptrdiff_t offset, size_t bytes) {
  if (bytes == 0 || joins_last(list, offset, bytes)) return true;
  if (list->count == list->room) {
    const size_t room = list->room == 0 ? 4 : 2 * list->room;
    gc_runs *more = realloc(list->runs, room * sizeof *more);
    if (more == NULL) return false;
    list->runs = more;
    list->room = room;
  }
  list->runs[list->count++] = (gc_runs){offset, bytes, 1, 0};
  return true;
}

/* The convertor lists the pieces of an element as addresses, without touching what they point to. */
static bool collect(runs_list *list, const gcm_type *type) {
  opal_convertor_t convertor;
  struct iovec pieces[64];
  /* A base in the middle of the address space, so that negative displacements stay addresses. */
  const uintptr_t base = (uintptr_t)1 << (sizeof(uintptr_t) * CHAR_BIT - 2);
  int done = 0;
  bool ok = true;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  if (opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, 1, (void *)base, 0,
                                               &convertor) != OPAL_SUCCESS) {
    ok = false;
  }
  while (ok && !done) {
    uint32_t n = sizeof pieces / sizeof pieces[0];
    size_t length = SIZE_MAX;
    done = opal_convertor_raw(&convertor, pieces, &n, &length);
    for (uint32_t i = 0; i < n && ok; i++) {
      ok = append(list, (ptrdiff_t)((uintptr_t)pieces[i].iov_base - base), pieces[i].iov_len);
    }
  }
  OBJ_DESTRUCT(&convertor);
  return ok;
}

/* ---- the maps that there are ---- */

static void drop(kept_map *kept) {
  if (kept->previous != NULL) kept->previous->next = kept->next;
  if (kept->next != NULL) kept->next->previous = kept->previous;
  if (maps == kept) maps = kept->next;
  if (gcm_abi != NULL) gcm_abi->forget_map(kept->map.id);
  free((gc_runs *)(uintptr_t)kept->map.runs);
  free(kept);
}

/* After the component's close there are no maps any more, though attributes may still name some. */
static int on_type_end(MPI_Datatype type, int key, void *value, void *extra) {
  (void)type, (void)key, (void)extra;
  opal_mutex_lock(&lock);
  if (maps != NULL) drop(value);
  opal_mutex_unlock(&lock);
  return MPI_SUCCESS;
}

static kept_map *make(const gcm_type *type) {
  kept_map *kept = calloc(1, sizeof *kept);
  runs_list list = {NULL, 0, 0};
  if (kept == NULL) return NULL;
  if (!collect(&list, type)) {
    free(list.runs);
    free(kept);
    return NULL;
  }
  kept->map = (gc_type_map){
      .id = ++last_id,
      .size = type->super.size,
      .extent = type->super.ub - type->super.lb,
      .true_lb = type->super.true_lb,
      .true_extent = (size_t)(type->super.true_ub - type->super.true_lb),
      .runs = list.runs,
      .n_runs = list.count,
  };
  kept->next = maps;
  if (maps != NULL) maps->previous = kept;
  maps = kept;
  return kept;
}

static const gc_type_map *find_or_make(gcm_type *type) {
  kept_map *kept = NULL;
  int found = 0;
  if (keyval == MPI_KEYVAL_INVALID &&
      PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_type_end, &keyval, NULL) != MPI_SUCCESS) {
    return NULL;
  }
  if (PMPI_Type_get_attr(type, keyval, &kept, &found) == MPI_SUCCESS && found) return &kept->map;
  kept = make(type);
  if (kept == NULL) return NULL;
  if (PMPI_Type_set_attr(type, keyval, kept) == MPI_SUCCESS) return &kept->map;
  drop(kept);
  return NULL;
}

/* PMPI, as a profiler must not see calls that the application did not make. */
const gc_type_map *gcm_type_map(gcm_type *type) {
  opal_mutex_lock(&lock);
  const gc_type_map *map = find_or_make(type);
  opal_mutex_unlock(&lock);
  return map;
}

void gcm_forget_type_maps(void) {
  opal_mutex_lock(&lock);
  while (maps != NULL) drop(maps);
  opal_mutex_unlock(&lock);
  keyval = MPI_KEYVAL_INVALID; /* MPI's tables of keys are gone with it */
}
