#include "mca/osc/operations.h"

#include "base/mutant.h"

struct gcm_window_record {
  const ompi_win_t *win;
  gcm_operation *under_way;
  size_t being_stored; /* so many have left the list, but have not ended */
  gcm_window_record *next;
};

static opal_mutex_t records_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_window_record *records;
static atomic_size_t n_under_way; /* as a look without the lock: those being stored as well */
static atomic_uint_fast64_t last_number;

/* ---- records ---- */

/* REQUIRES: the lock. Returns where the record of a window is linked, or would be. */
static gcm_window_record **link_of(const ompi_win_t *win) {
  gcm_window_record **link = &records;
  while (*link != NULL && (*link)->win != win) link = &(*link)->next;
  return link;
}

/* Returns NULL where the window has had no operation. */
static gcm_window_record *find_record(const ompi_win_t *win) {
  opal_mutex_lock(&records_lock);
  gcm_window_record *record = *link_of(win);
  opal_mutex_unlock(&records_lock);
  return record;
}

/* Returns NULL where there is no memory. */
static gcm_window_record *find_or_make_record(const ompi_win_t *win) {
  opal_mutex_lock(&records_lock);
  gcm_window_record **link = link_of(win);
  if (*link == NULL) *link = calloc(1, sizeof **link);
  gcm_window_record *record = *link;
  if (record != NULL) record->win = win;
  opal_mutex_unlock(&records_lock);
  return record;
}

/* ---- the beginning of operations ---- */

int gcm_no_memory_for_operation(void) {
  gcm_abi->log(-1, "this rank has no memory left for a one-sided operation");
  return MPI_ERR_NO_MEM;
}

int gcm_operation_init(gcm_operation *op, ompi_win_t *win, int target, const gcm_plan *plan) {
  op->record = find_or_make_record(win);
  op->target = target;
  return op->record != NULL ? gcm_stage_and_load_among_many(&op->staged, plan) : gcm_no_memory_for_operation();
}

int gcm_operation_new(gcm_operation **made, ompi_win_t *win, int target, const gcm_plan *plan) {
  *made = calloc(1, sizeof **made);
  if (*made == NULL) return gcm_no_memory_for_operation();
  const int rc = gcm_operation_init(*made, win, target, plan);
  if (rc != MPI_SUCCESS) free(*made);
  return rc;
}

void gcm_operation_release(gcm_operation *op) {
  gcm_unstage(&op->staged);
  free(op);
}

void gcm_operation_begun(gcm_operation *op) {
  if (gc_mutant(514)) gcm_unstage(&op->staged);
  opal_mutex_lock(&records_lock);
  gcm_window_record *record = op->record;
  op->number = atomic_load_explicit(&last_number, memory_order_relaxed) + 1;
  op->next = record->under_way;
  op->link = &record->under_way;
  if (op->next != NULL) op->next->link = &op->next;
  record->under_way = op;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
  atomic_store_explicit(&last_number, op->number, memory_order_release);
  opal_mutex_unlock(&records_lock);
}

bool gcm_has_operations(void) { return atomic_load_explicit(&n_under_way, memory_order_acquire) != 0; }
uint64_t gcm_last_operation(void) { return atomic_load_explicit(&last_number, memory_order_acquire); }

/* ---- their end ---- */

/* REQUIRES: the lock. Takes an operation out of the list, to be stored. */
static void take(gcm_operation *op) {
  *op->link = op->next;
  if (op->next != NULL) op->next->link = op->link;
  op->link = NULL;
  op->record->being_stored++;
}

/* Returns the operations to be ended as a chain. */
static gcm_operation *take_operations(gcm_window_record *record, int target, uint64_t last) {
  gcm_operation *taken = NULL;
  opal_mutex_lock(&records_lock);
  for (gcm_operation *op = record->under_way, *next; op != NULL; op = next) {
    next = op->next;
    if (op->number > last || (target != kAllTargets && op->target != target)) continue;
    take(op);
    op->next = taken;
    taken = op;
  }
  opal_mutex_unlock(&records_lock);
  return taken;
}

static void has_stored(gcm_window_record *record, size_t n) {
  opal_mutex_lock(&records_lock);
  record->being_stored -= n;
  atomic_fetch_sub_explicit(&n_under_way, n, memory_order_release); /* partner: gcm_has_operations() */
  opal_mutex_unlock(&records_lock);
}

/* Stores the results of a chain, unless they `failed`, and ends it. From here on its operations may be gone. */
static int store_chain(gcm_window_record *record, gcm_operation *chain, int failed) {
  int rc = failed;
  size_t n = 0;
  for (gcm_operation *op = chain, *next; op != NULL; op = next, n++) {
    next = op->next;
    op->rc = failed != MPI_SUCCESS || gc_mutant(513) ? failed : gcm_store(&op->staged);
    if (rc == MPI_SUCCESS) rc = op->rc;
    if (op->of_request) {
      atomic_store_explicit(&op->stored, true, memory_order_release);
    } else {
      gcm_operation_release(op);
    }
  }
  has_stored(record, n);
  return rc;
}

/* Waits until other threads have stored what they took. */
static void await_stored(gcm_window_record *record) {
  bool waits = true;
  while (waits) {
    opal_mutex_lock(&records_lock);
    waits = record->being_stored != 0;
    opal_mutex_unlock(&records_lock);
    if (waits) sched_yield();
  }
}

/* Ends operations of a record, as gcm_end_operations() does. Those that `failed` are not stored. */
static int end_operations(gcm_window_record *record, int target, uint64_t last, int failed) {
  const int rc = store_chain(record, take_operations(record, target, last), failed);
  await_stored(record);
  return rc;
}

int gcm_end_operations(ompi_win_t *win, int target, uint64_t last) {
  gcm_window_record *record = find_record(win);
  return record != NULL ? end_operations(record, target, last, MPI_SUCCESS) : MPI_SUCCESS;
}

int gcm_end_operation(gcm_operation *op, int failed) {
  gcm_window_record *record = op->record;
  opal_mutex_lock(&records_lock);
  const bool is_ours = op->link != NULL;
  if (is_ours) take(op);
  opal_mutex_unlock(&records_lock);
  if (is_ours) {
    op->rc = failed != MPI_SUCCESS ? failed : gcm_store(&op->staged);
    has_stored(record, 1);
  } else {
    while (!atomic_load_explicit(&op->stored, memory_order_acquire)) sched_yield();
  }
  return failed != MPI_SUCCESS ? failed : op->rc;
}

void gcm_forget_window(ompi_win_t *win) {
  gcm_window_record *record = find_record(win);
  if (record == NULL) return;
  (void)end_operations(record, kAllTargets, UINT64_MAX, MPI_ERR_OTHER);
  opal_mutex_lock(&records_lock);
  *link_of(win) = record->next;
  opal_mutex_unlock(&records_lock);
  free(record);
}
