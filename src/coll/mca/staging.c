#include "coll/mca/staging.h"

#include <limits.h>
#include <stdio.h>

/* More runs than this are copied by a kernel: a copy costs microseconds however small it is. */
enum { kManyRuns = 4 };

typedef struct run_list {
  gc_runs *runs;
  size_t count, room;
} run_list;

static int append(run_list *list, ptrdiff_t offset, size_t bytes) {
  if (list->count > 0) {
    gc_runs *last = &list->runs[list->count - 1];
    if (last->offset + (ptrdiff_t)last->bytes == offset) {
      last->bytes += bytes;
      return MPI_SUCCESS;
    }
  }
  if (list->count == list->room) {
    const size_t room = list->room == 0 ? 1 : 2 * list->room;
    gc_runs *more = realloc(list->runs, room * sizeof *more);
    if (more == NULL) return MPI_ERR_NO_MEM;
    list->runs = more;
    list->room = room;
  }
  list->runs[list->count++] = (gc_runs){offset, bytes, 1, 0};
  return MPI_SUCCESS;
}

/* The convertor lists the pieces of a derived type as addresses, without touching what they point to. */
static int append_pieces(run_list *list, ptrdiff_t offset, size_t count, const gcm_type *type) {
  opal_convertor_t convertor;
  struct iovec pieces[32];
  /* A base in the middle of the address space, so that negative displacements stay addresses. */
  void *const base = (void *)((uintptr_t)1 << (sizeof(uintptr_t) * CHAR_BIT - 2));
  int done = 0, rc = MPI_SUCCESS;

  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  if (opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, base, 0, &convertor) !=
      OPAL_SUCCESS) {
    OBJ_DESTRUCT(&convertor);
    return MPI_ERR_TYPE;
  }
  while (!done && rc == MPI_SUCCESS) {
    uint32_t n = sizeof pieces / sizeof pieces[0];
    size_t length = SIZE_MAX;
    done = opal_convertor_raw(&convertor, pieces, &n, &length);
    for (uint32_t i = 0; i < n && rc == MPI_SUCCESS; i++) {
      rc = append(list, offset + (ptrdiff_t)((uintptr_t)pieces[i].iov_base - (uintptr_t)base), pieces[i].iov_len);
    }
  }
  OBJ_DESTRUCT(&convertor);
  return rc;
}

static int append_group(run_list *list, const gcm_layout *layout, size_t i) {
  const size_t count = gcm_group_count(layout, i);
  const gcm_type *type = gcm_group_type(layout, i);
  const ptrdiff_t offset = gcm_group_offset(layout, i);
  if (count == 0 || type->super.size == 0) return MPI_SUCCESS;
  if (ompi_datatype_is_contiguous_memory_layout(type, count > 1 ? 2 : 1)) {
    return append(list, offset + type->super.true_lb, count * type->super.size);
  }
  return append_pieces(list, offset, count, type);
}

static void find_span(gcm_staged_buffer *side) {
  ptrdiff_t low = PTRDIFF_MAX, high = PTRDIFF_MIN;
  for (size_t i = 0; i < side->n_runs; i++) {
    const gc_runs *run = &side->runs[i];
    if (run->offset < low) low = run->offset;
    if (run->offset + (ptrdiff_t)run->bytes > high) high = run->offset + (ptrdiff_t)run->bytes;
  }
  side->low = low;
  side->span = (size_t)(high - low);
}

static int stage_side(gcm_staged_buffer *side, const gcm_side *plan) {
  run_list list = {NULL, 0, 0};
  int rc = MPI_SUCCESS;
  memset(side, 0, sizeof *side);
  if (!gcm_on_device(plan)) return MPI_SUCCESS;
  for (size_t i = 0; i < plan->layout.groups && rc == MPI_SUCCESS; i++) rc = append_group(&list, &plan->layout, i);
  side->device = plan->buffer;
  side->runs = list.runs;
  side->n_runs = list.count;
  side->load = plan->load;
  side->store = plan->store;
  if (rc != MPI_SUCCESS) return rc;
  find_span(side);
  side->memory = gcm_abi->stage_get(side->span);
  if (side->memory == NULL) {
    char line[200];
    snprintf(
        line, sizeof line,
        "this rank cannot take a device buffer of %zu bytes through host memory: no host memory is left; use smaller "
        "messages",
        side->span);
    gcm_abi->log(-1, line);
    return MPI_ERR_NO_MEM;
  }
  side->host = gcm_address(side->memory, -side->low);
  return MPI_SUCCESS;
}

static void unstage_side(gcm_staged_buffer *side) {
  if (side->memory != NULL) gcm_abi->stage_put(side->memory);
  free(side->runs);
  memset(side, 0, sizeof *side);
}

static int copy_run(const gcm_staged_buffer *side, const gc_runs *run, bool to_device) {
  void *host = gcm_address(side->host, run->offset), *device = gcm_address(side->device, run->offset);
  return gcm_abi->copy(to_device ? device : host, to_device ? host : device, run->bytes);
}

static int copy_runs(const gcm_staged_buffer *side, bool to_device) {
  int rc = GC_STAGE;
  if (side->n_runs > kManyRuns) {
    rc = gcm_abi->copy_runs(side->host, gcm_address(side->device, 0), side->runs, side->n_runs, to_device);
  }
  if (rc != GC_STAGE) return rc;
  rc = MPI_SUCCESS;
  for (size_t i = 0; i < side->n_runs && rc == MPI_SUCCESS; i++) rc = copy_run(side, &side->runs[i], to_device);
  return rc;
}

static int load_side(const gcm_staged_buffer *side) {
  if (side->memory == NULL || !side->load) return MPI_SUCCESS;
  return copy_runs(side, false);
}

static int store_side(const gcm_staged_buffer *side) {
  if (side->memory == NULL || !side->store) return MPI_SUCCESS;
  return copy_runs(side, true);
}

int gcm_stage(gcm_staged *staged, const gcm_plan *plan) {
  memset(&staged->recv, 0, sizeof staged->recv);
  int rc = stage_side(&staged->send, &plan->send);
  if (rc == MPI_SUCCESS) rc = stage_side(&staged->recv, &plan->recv);
  if (rc != MPI_SUCCESS) gcm_unstage(staged);
  return rc;
}

int gcm_stage_and_load(gcm_staged *staged, const gcm_plan *plan) {
  int rc = gcm_stage(staged, plan);
  if (rc != MPI_SUCCESS) return rc;
  rc = gcm_load(staged);
  if (rc != MPI_SUCCESS) gcm_unstage(staged);
  return rc;
}

int gcm_load(const gcm_staged *staged) {
  const int rc = load_side(&staged->send);
  return rc != MPI_SUCCESS ? rc : load_side(&staged->recv);
}

int gcm_store(const gcm_staged *staged) { return store_side(&staged->recv); }

void gcm_unstage(gcm_staged *staged) {
  unstage_side(&staged->send);
  unstage_side(&staged->recv);
}
