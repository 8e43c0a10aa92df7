/* Split collectives: a file has at most one under way, whose staged buffer waits here from its begin to its end. */
#include <stdatomic.h>

#include "base/mutant.h"
#include "mca/common/outer_requests.h"
#include "mca/io/files.h"

typedef struct split {
  const ompi_file_t *file;
  gcm_access access;
  struct split *next;
} split;

static opal_mutex_t list_lock = OPAL_MUTEX_STATIC_INIT;
static split *under_way;
static atomic_int n_under_way; /* as a look without the lock */

static void put_under_way(split *s) {
  opal_mutex_lock(&list_lock);
  s->next = under_way;
  under_way = s;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
  opal_mutex_unlock(&list_lock);
}

/* Returns the one of a file, no longer in the list, or NULL. */
static split *take(const ompi_file_t *file) {
  if (GCM_LIKELY(atomic_load_explicit(&n_under_way, memory_order_relaxed) == 0)) return NULL;
  opal_mutex_lock(&list_lock);
  split **link = &under_way;
  while (*link != NULL && (*link)->file != file) link = &(*link)->next;
  split *s = *link;
  if (s != NULL) {
    *link = s->next;
    atomic_fetch_sub_explicit(&n_under_way, 1, memory_order_relaxed);
  }
  opal_mutex_unlock(&list_lock);
  return s;
}

/* ---- begin ---- */

static split *new_split(const ompi_file_t *file) {
  split *s = calloc(1, sizeof *s);
  if (s == NULL) {
    gcm_log_no_request();
  } else {
    s->file = file;
  }
  return s;
}

/* The component has returned `rc`. Returns it. */
static int begun(split *s, int rc) {
  if (rc == MPI_SUCCESS) {
    put_under_way(s);
  } else {
    gcm_unstage(&s->access.staged);
    free(s);
  }
  return rc;
}

#define GCM_BEGIN(name, reads, PARAMETERS, ARGUMENTS)                         \
  static GCM_NOINLINE int stage_and_##name PARAMETERS {                       \
    split *s = new_split(file);                                               \
    if (s == NULL) return MPI_ERR_NO_MEM;                                     \
    buffer = gcm_begin_access(&s->access, buffer, &count, type, reads);       \
    return begun(s, gcm_functions_of(file)->io_module_file_##name ARGUMENTS); \
  }                                                                           \
  GCM_LOOK(name, PARAMETERS, ARGUMENTS)

#define GCM_BEGIN_NEXT(name, reads, buffer_type)                                              \
  GCM_BEGIN(name, reads, (ompi_file_t * file, buffer_type buffer, int count, gcm_type *type), \
            (file, buffer, count, type))
#define GCM_BEGIN_AT(name, reads, buffer_type)                                                               \
  GCM_BEGIN(name, reads, (ompi_file_t * file, MPI_Offset at, buffer_type buffer, int count, gcm_type *type), \
            (file, at, buffer, count, type))

#define GCM_READS(f) f(read_all) f(read_ordered)
#define GCM_WRITES(f) f(write_all) f(write_ordered)

#define GCM_BEGIN_READ(name) GCM_BEGIN_NEXT(name##_begin, true, void *)
#define GCM_BEGIN_WRITE(name) GCM_BEGIN_NEXT(name##_begin, false, const void *)
GCM_READS(GCM_BEGIN_READ)
GCM_WRITES(GCM_BEGIN_WRITE)
GCM_BEGIN_AT(read_at_all_begin, true, void *)
GCM_BEGIN_AT(write_at_all_begin, false, const void *)

/* ---- end ---- */

#define GCM_END(name, buffer_type)                                                                  \
  static int look_and_##name(ompi_file_t *file, buffer_type buffer, ompi_status_public_t *status) { \
    const gcm_file_functions *functions = gcm_functions_of(file);                                   \
    split *s = take(file);                                                                          \
    if (GCM_LIKELY(s == NULL)) return functions->io_module_file_##name(file, buffer, status);       \
    buffer_type handed = gcm_handed(&s->access.staged.recv, buffer);                                \
    const int rc = functions->io_module_file_##name(file, handed, status);                          \
    const int ended = gcm_end_begun_access(&s->access, rc);                                         \
    free(s);                                                                                        \
    return ended;                                                                                   \
  }

#define GCM_END_READ(name) GCM_END(name##_end, void *)
#define GCM_END_WRITE(name) GCM_END(name##_end, const void *)
GCM_READS(GCM_END_READ)
GCM_WRITES(GCM_END_WRITE)
GCM_END_READ(read_at_all)
GCM_END_WRITE(write_at_all)

/* The program may close a file without the end of a split collective, and another file may be at its address next. The
 * staged buffer is never given back then, as OMPIO may still move data. */
static int look_and_close(ompi_file_t *file) {
  split *s = gc_mutant(525) ? NULL : take(file);
  if (s != NULL) gcm_abandon(&s->access.staged);
  free(s);
  return gcm_functions_of(file)->io_module_file_close(file);
}

/* ---- in the table ---- */

void gcm_stand_before_split_accesses(gcm_file_functions *functions) {
#define GCM_STAND_TWICE(name) GCM_STAND(name##_begin) GCM_STAND(name##_end)
  GCM_READS(GCM_STAND_TWICE)
  GCM_WRITES(GCM_STAND_TWICE)
  GCM_STAND_TWICE(read_at_all)
  GCM_STAND_TWICE(write_at_all)
  GCM_STAND(close)
}
