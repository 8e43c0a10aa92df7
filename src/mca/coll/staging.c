#include "mca/coll/staging.h"

#include <stdio.h>

#include "base/mutant.h"
#include "mca/common/sparse_memory.h"

/* More runs than this are copied by a kernel: a copy costs microseconds however small it is. */
enum { kManyRuns = 4 };
/* Buffers whose runs lie further apart get no memory for what is between them. */
static const size_t kMostSpan = (size_t)1 << 36;
/* Buffers up to this may be of malloc(): a quarter of the least block of the engine's pool. */
enum { kMostOfHeap = 16384 };

typedef struct run_list {
  gc_runs *runs;
  size_t count, room;
} run_list;

static int say_no_list(size_t bytes) {
  char line[256], amount[40] = "memory";
  if (bytes > 0) snprintf(amount, sizeof amount, "%zu bytes of memory", bytes);
  snprintf(line, sizeof line,
           "this rank has no %s left to list where the data of a device buffer lie, which goes through the host: pass "
           "fewer elements, or types whose data lie together",
           amount);
  gcm_abi->log(-1, line);
  return MPI_ERR_NO_MEM;
}

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
    if (more == NULL) return say_no_list(room * sizeof *more);
    list->runs = more;
    list->room = room;
  }
  list->runs[list->count++] = (gc_runs){offset, bytes, 1, 0};
  return MPI_SUCCESS;
}

/* `count` elements of a type with gaps. */
static int append_elements(run_list *list, ptrdiff_t offset, size_t count, gcm_type *type) {
  const gc_type_map *map = gcm_type_map(type);
  int rc = map == NULL ? say_no_list(0) : MPI_SUCCESS;
  for (size_t e = 0; e < count && rc == MPI_SUCCESS; e++, offset += map->extent) {
    for (size_t i = 0; i < map->n_runs && rc == MPI_SUCCESS; i++) {
      const gc_runs *runs = &map->runs[i];
      for (size_t r = 0; r < runs->count && rc == MPI_SUCCESS; r++) {
        rc = append(list, offset + runs->offset + (ptrdiff_t)r * runs->stride, runs->bytes);
      }
    }
  }
  return rc;
}

static int append_group(run_list *list, const gcm_layout *layout, size_t i) {
  const size_t count = gcm_group_count(layout, i);
  gcm_type *type = gcm_group_type(layout, i);
  const ptrdiff_t offset = gcm_group_offset(layout, i);
  if (count == 0 || type->super.size == 0) return MPI_SUCCESS;
  if (ompi_datatype_is_contiguous_memory_layout(type, count > 1 ? 2 : 1)) {
    return append(list, offset + type->super.true_lb, count * type->super.size);
  }
  return append_elements(list, offset, count, type);
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

/* Where the memory of a buffer is from: here, or malloc(), else the engine's pool. */
static bool is_sparse(const gcm_staged_buffer *side) {
  return side->n_runs > 1 && side->span > kMostSpan && !gc_mutant(541);
}
static bool is_of_heap(const gcm_staged_buffer *side) { return side->among_many && side->span <= kMostOfHeap; }

static int say_no_memory(const gcm_staged_buffer *side) {
  char line[256];
  snprintf(line, sizeof line, "this rank cannot take a device buffer of %zu bytes through host memory: %s", side->span,
           is_sparse(side) ? "its type leads to memory as far apart, and no address space is free for all of it; give "
                             "each part a call of its own"
                           : "no host memory is left; pass smaller buffers");
  gcm_abi->log(-1, line);
  return MPI_ERR_NO_MEM;
}

static int take_memory(gcm_staged_buffer *side) {
  if (is_sparse(side))
    side->memory = gcm_take_sparse_memory(side->device, side->runs, side->n_runs);
  else
    side->memory = is_of_heap(side) ? malloc(side->span) : gcm_abi->stage_get(side->span);
  if (side->memory == NULL) return say_no_memory(side);
  side->host = is_sparse(side) ? side->memory : gcm_address(side->memory, -side->low);
  return MPI_SUCCESS;
}

static void put_memory(const gcm_staged_buffer *side) {
  if (side->memory == NULL) return;
  if (is_sparse(side))
    gcm_give_sparse_memory(side->memory, side->runs, side->n_runs);
  else if (is_of_heap(side))
    free(side->memory);
  else
    gcm_abi->stage_put(side->memory);
}

static int stage_side(gcm_staged_buffer *side, const gcm_side *plan, bool among_many) {
  run_list list = {NULL, 0, 0};
  int rc = MPI_SUCCESS;
  memset(side, 0, sizeof *side);
  if (!gcm_on_device(plan)) return MPI_SUCCESS;
  for (size_t i = 0; i < plan->layout.groups && rc == MPI_SUCCESS; i++) rc = append_group(&list, &plan->layout, i);
  side->among_many = among_many;
  side->device = plan->buffer;
  side->runs = list.runs;
  side->n_runs = list.count;
  side->mixed = gcm_is_mixed(plan);
  side->load = plan->load;
  side->store = plan->store;
  if (rc != MPI_SUCCESS) return rc;
  find_span(side);
  return take_memory(side);
}

static void unstage_side(gcm_staged_buffer *side) {
  put_memory(side);
  free(side->runs);
  memset(side, 0, sizeof *side);
}

static int copy_run(const gcm_staged_buffer *side, const gc_runs *run, bool to_device) {
  void *host = gcm_address(side->host, run->offset), *device = gcm_address(side->device, run->offset);
  if (side->mixed && !gc_is_device(gcm_abi, device)) {
    memcpy(to_device ? device : host, to_device ? host : device, run->bytes);
    return MPI_SUCCESS;
  }
  return gcm_abi->copy(to_device ? device : host, to_device ? host : device, run->bytes);
}

static int copy_strided(const gcm_staged_buffer *side, bool to_device) {
  int rc = GC_STAGE;
  if (side->n_runs > kManyRuns && !side->mixed) {
    rc = gcm_abi->copy_strided(side->host, gcm_address(side->device, 0), side->runs, side->n_runs, to_device);
  }
  if (rc != GC_STAGE) return rc;
  rc = MPI_SUCCESS;
  for (size_t i = 0; i < side->n_runs && rc == MPI_SUCCESS; i++) rc = copy_run(side, &side->runs[i], to_device);
  return rc;
}

static int load_side(const gcm_staged_buffer *side) {
  if (side->memory == NULL || !side->load) return MPI_SUCCESS;
  return copy_strided(side, false);
}

static int store_side(const gcm_staged_buffer *side) {
  if (side->memory == NULL || !side->store) return MPI_SUCCESS;
  return copy_strided(side, true);
}

/* An address that stands for a buffer may be that of the other side, as it need not lie in the memory behind it
 * (displacements, absolute addresses). Open MPI's nonblocking modules take equal addresses for MPI_IN_PLACE. */
static int tell_apart(gcm_staged *staged, const gcm_plan *plan) {
  gcm_staged_buffer *side = staged->recv.memory != NULL ? &staged->recv : &staged->send;
  const gcm_staged_buffer before = *side;
  if (before.memory == NULL) return MPI_SUCCESS;
  if (gcm_handed(&staged->send, plan->send.buffer) != gcm_handed(&staged->recv, plan->recv.buffer)) return MPI_SUCCESS;
  const int rc = take_memory(side); /* another one, as this one is still taken */
  put_memory(&before);
  return rc;
}

static int stage(gcm_staged *staged, const gcm_plan *plan, bool among_many) {
  memset(&staged->recv, 0, sizeof staged->recv);
  int rc = stage_side(&staged->send, &plan->send, among_many);
  if (rc == MPI_SUCCESS) rc = stage_side(&staged->recv, &plan->recv, among_many);
  if (rc == MPI_SUCCESS) rc = tell_apart(staged, plan);
  if (rc != MPI_SUCCESS) gcm_unstage(staged);
  return rc;
}

static int stage_and_load(gcm_staged *staged, const gcm_plan *plan, bool among_many) {
  int rc = stage(staged, plan, among_many);
  if (rc != MPI_SUCCESS) return rc;
  rc = gcm_load(staged);
  if (rc != MPI_SUCCESS) gcm_unstage(staged);
  return rc;
}

int gcm_stage(gcm_staged *staged, const gcm_plan *plan) { return stage(staged, plan, false); }
int gcm_stage_and_load(gcm_staged *staged, const gcm_plan *plan) { return stage_and_load(staged, plan, false); }
int gcm_stage_and_load_among_many(gcm_staged *staged, const gcm_plan *plan) {
  return stage_and_load(staged, plan, true);
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

void gcm_abandon(gcm_staged *staged) {
  staged->send.memory = staged->recv.memory = NULL;
  gcm_unstage(staged);
}
