#include "mca/coll/kept_objects.h"

#include "base/mutant.h"

/* ---- objects ---- */

/* Calls `see` with each type of a side that the application may free. */
static void see_types(const gcm_side *side, gcm_kept_objects *kept, void (*see)(gcm_kept_objects *, opal_object_t *)) {
  const gcm_layout *l = &side->layout;
  const size_t n = l->types != NULL ? l->groups : l->groups > 0;
  for (size_t i = 0; i < n; i++) {
    gcm_type *type = gcm_group_type(l, i);
    if (type != NULL && !ompi_datatype_is_predefined(type)) see(kept, (opal_object_t *)type);
  }
}

static void see_all(const gcm_plan *plan, gcm_op *op, gcm_kept_objects *kept,
                    void (*see)(gcm_kept_objects *, opal_object_t *)) {
  see_types(&plan->send, kept, see);
  see_types(&plan->recv, kept, see);
  if (op != NULL && !ompi_op_is_intrinsic(op)) see(kept, (opal_object_t *)op);
}

static void count(gcm_kept_objects *kept, opal_object_t *object) {
  (void)object;
  kept->n++;
}

static void retain(gcm_kept_objects *kept, opal_object_t *object) {
  OBJ_RETAIN(object);
  kept->objects[kept->n++] = object;
}

static size_t count_all(const gcm_plan *plan, gcm_op *op) {
  gcm_kept_objects counted = {NULL, 0};
  see_all(plan, op, &counted, count);
  return counted.n;
}

bool gcm_has_own_objects(const gcm_plan *plan, gcm_op *op, ompi_communicator_t *comm) {
  return !OMPI_COMM_IS_INTRINSIC(comm) || count_all(plan, op) > 0;
}

/* One more, for the communicator. */
static int make_room(gcm_kept_objects *kept, size_t n) {
  kept->n = 0;
  kept->objects = malloc((n + 1) * sizeof *kept->objects);
  return kept->objects != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

int gcm_keep(gcm_kept_objects *kept, const gcm_plan *plan, gcm_op *op) {
  const size_t n = count_all(plan, op);
  *kept = (gcm_kept_objects){NULL, 0};
  if (n == 0 || gc_mutant(101)) return MPI_SUCCESS;
  const int rc = make_room(kept, n);
  if (rc == MPI_SUCCESS) see_all(plan, op, kept, retain);
  return rc;
}

void gcm_let_go(gcm_kept_objects *kept) {
  for (size_t i = 0; i < kept->n; i++) OBJ_RELEASE(kept->objects[i]);
  free(kept->objects);
  *kept = (gcm_kept_objects){NULL, 0};
}

/* ---- of other modules' requests ---- */

/* By the request's address: what it keeps, and how it is freed. */
typedef struct kept_with {
  gcm_kept_objects kept;
  ompi_request_free_fn_t free;
} kept_with;

static opal_hash_table_t table;
static bool table_exists;
static opal_mutex_t table_lock = OPAL_MUTEX_STATIC_INIT;

static uint64_t key_of(const ompi_request_t *request) { return (uint64_t)(uintptr_t)request; }

static int put(const ompi_request_t *request, kept_with *with) {
  opal_mutex_lock(&table_lock);
  if (!table_exists) {
    OBJ_CONSTRUCT(&table, opal_hash_table_t);
    opal_hash_table_init(&table, 64);
    table_exists = true;
  }
  const int rc = opal_hash_table_set_value_uint64(&table, key_of(request), with);
  opal_mutex_unlock(&table_lock);
  return rc == OPAL_SUCCESS ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static kept_with *take(const ompi_request_t *request) {
  void *with = NULL;
  opal_mutex_lock(&table_lock);
  opal_hash_table_get_value_uint64(&table, key_of(request), &with);
  opal_hash_table_remove_value_uint64(&table, key_of(request));
  opal_mutex_unlock(&table_lock);
  return with;
}

/* The next user of the request's memory has nothing to do with this: so what was there before comes back first. */
static int free_with(ompi_request_t **request) {
  ompi_request_t *const freed = *request;
  kept_with *with = take(freed);
  freed->req_free = with->free;
  const int rc = with->free(request);
  if (rc != OMPI_SUCCESS) { /* it is under way */
    freed->req_free = free_with;
    (void)put(freed, with);
    return rc;
  }
  gcm_let_go(&with->kept);
  free(with);
  return rc;
}

int gcm_keep_with(ompi_request_t *request, const gcm_plan *plan, gcm_op *op, ompi_communicator_t *comm) {
  if (!request->req_persistent) return MPI_SUCCESS;
  kept_with *with = calloc(1, sizeof *with);
  int rc = with != NULL ? make_room(&with->kept, count_all(plan, op)) : MPI_ERR_NO_MEM;
  if (rc == MPI_SUCCESS) rc = put(request, with);
  if (rc != MPI_SUCCESS) {
    if (with != NULL) free(with->kept.objects);
    free(with);
    return rc;
  }
  see_all(plan, op, &with->kept, retain);
  retain(&with->kept, (opal_object_t *)comm);
  with->free = request->req_free;
  request->req_free = free_with;
  return MPI_SUCCESS;
}

void gcm_forget_kept_objects(void) {
  uint64_t request;
  void *value, *node = NULL;
  if (!table_exists) return;
  int rc = opal_hash_table_get_first_key_uint64(&table, &request, &value, &node);
  while (rc == OPAL_SUCCESS) {
    kept_with *with = value;
    free(with->kept.objects);
    free(with);
    rc = opal_hash_table_get_next_key_uint64(&table, &request, &value, node, &node);
  }
  OBJ_DESTRUCT(&table);
  table_exists = false;
}
