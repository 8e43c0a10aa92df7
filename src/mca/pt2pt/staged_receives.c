#include "mca/pt2pt/staged_receives.h"

/* Programs receive few sizes again and again. */
enum { kKept = 16 };
static struct {
  size_t bytes;
  gcm_type *type;
} kept[kKept];
static unsigned next;
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

static gcm_type *make(size_t bytes) {
  gcm_type *type = ompi_datatype_create(1);
  if (type == NULL) return NULL;
  if (ompi_datatype_add(type, (gcm_type *)MPI_BYTE, bytes, 0, 1) != OMPI_SUCCESS ||
      ompi_datatype_commit(&type) != OMPI_SUCCESS) {
    OBJ_RELEASE(type);
    return NULL;
  }
  type->super.flags &= (uint16_t) ~(OPAL_DATATYPE_FLAG_CONTIGUOUS | OPAL_DATATYPE_FLAG_NO_GAPS);
  return type;
}

/* REQUIRES: the lock. */
static gcm_type *find(size_t bytes) {
  for (unsigned i = 0; i < kKept; i++)
    if (kept[i].type != NULL && kept[i].bytes == bytes) return kept[i].type;
  gcm_type *type = make(bytes);
  if (type == NULL) return NULL;
  const unsigned place = next++ % kKept;
  if (kept[place].type != NULL) OBJ_RELEASE(kept[place].type);
  kept[place].bytes = bytes;
  kept[place].type = type;
  return type;
}

gcm_type *gcm_bounded_type(size_t bytes) {
  opal_mutex_lock(&lock);
  gcm_type *type = find(bytes);
  if (type != NULL) OBJ_RETAIN(type);
  opal_mutex_unlock(&lock);
  return type;
}

void gcm_forget_bounded_types(void) {
  for (unsigned i = 0; i < kKept; i++) {
    if (kept[i].type != NULL) OBJ_RELEASE(kept[i].type);
    kept[i].type = NULL;
  }
}
