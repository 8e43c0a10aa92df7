/* Synchronisation of windows of device memory. Each operation is answered when the target has done it, so waiting for
 * one's own operations completes them at both ends. What epochs need besides goes by headers: posts and completes are
 * counted where they arrive, and the target keeps the locks (window_targets.c).
 */
#include <stdio.h>

#include "base/mutant.h"
#include "mca/osc/device_windows.h"
#include "mca/pt2pt/pt2pt.h"

/* The lock that this rank holds of a target. kUnchecked: MPI_MODE_NOCHECK, and nobody was told. */
enum { kUnlocked, kShared, kExclusive, kUnchecked };

/* ---- waiting ---- */

void gcm_break_window(gcm_device_window *w, const char *why) {
  if (!atomic_exchange(&w->is_broken, true)) gcm_abi->log(-1, why);
}

static int say_gone(gcm_device_window *w, int rank) {
  char line[320];
  snprintf(line, sizeof line,
           "rank %d of the window on %s has ended, so one-sided communication with it will never complete: see why "
           "that process ended",
           rank, w->name);
  gcm_break_window(w, line);
  return MPI_ERR_OTHER;
}

static bool is_gone(const gcm_device_window *w, int rank) {
  const gc_pt2pt_abi *engine = gpucoll_pt2pt_abi(GC_ABI_VERSION);
  return engine->is_gone(gcm_blob_of(w->comm, rank));
}

void gcm_watch_rank(gcm_device_window *w, int rank) {
  if (atomic_load_explicit(&w->watched[rank], memory_order_relaxed) || rank == ompi_comm_rank(w->comm)) return;
  (void)is_gone(w, rank);
  atomic_store_explicit(&w->watched[rank], true, memory_order_relaxed);
}

/* Looks whether one of the ranks is known to have ended. */
static int look_at_ranks(gcm_device_window *w, const int *ranks, int n) {
  for (int i = 0; i < n; i++) {
    const int rank = ranks != NULL ? ranks[i] : i;
    if (atomic_load_explicit(&w->watched[rank], memory_order_relaxed) && is_gone(w, rank)) return say_gone(w, rank);
  }
  return MPI_SUCCESS;
}

bool gcm_has_lost_rank(gcm_device_window *w, int rank) { return look_at_ranks(w, &rank, 1) != MPI_SUCCESS; }

int gcm_wait_for_window(gcm_device_window *w, bool (*ready)(gcm_device_window *w, const void *argument),
                        const void *argument, const int *ranks, int n) {
  enum { kLooks = 1024 };
  for (unsigned looks = 1; !ready(w, argument); looks++) {
    if (atomic_load_explicit(&w->is_broken, memory_order_relaxed)) return MPI_ERR_OTHER;
    opal_progress();
    if (looks % kLooks != 0) continue;
    const int rc = look_at_ranks(w, ranks, n);
    if (rc != MPI_SUCCESS) return rc;
  }
  return MPI_SUCCESS;
}

static bool has_done_all(gcm_device_window *w, const void *argument) {
  (void)argument;
  return atomic_load_explicit(&w->n_operations, memory_order_acquire) == 0;
}
static bool has_done_those_on(gcm_device_window *w, const void *argument) {
  return atomic_load_explicit(&w->under_way[*(const int *)argument], memory_order_acquire) == 0;
}

/* Returns a failure of an operation that has not been told. */
static int take_failure(gcm_device_window *w) { return atomic_exchange(&w->failed, MPI_SUCCESS); }

/* Complete this rank's operations on all ranks, or on one. */
static int complete_all(gcm_device_window *w) {
  const int rc = gc_mutant(517) ? MPI_SUCCESS : gcm_wait_for_window(w, has_done_all, NULL, NULL, w->n);
  return rc != MPI_SUCCESS ? rc : take_failure(w);
}
static int complete_on(gcm_device_window *w, int target) {
  const int rc = gc_mutant(517) ? MPI_SUCCESS : gcm_wait_for_window(w, has_done_those_on, &target, &target, 1);
  return rc != MPI_SUCCESS ? rc : take_failure(w);
}

/* ---- fences ---- */

static int fence(int assertion, ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  const int rc = complete_all(w);
  if (atomic_load_explicit(&w->is_broken, memory_order_relaxed)) return rc; /* not all ranks come to the barrier */
  w->fenced = (assertion & MPI_MODE_NOSUCCEED) == 0;
  const int met = w->comm->c_coll->coll_barrier(w->comm, w->comm->c_coll->coll_barrier_module);
  return rc != MPI_SUCCESS ? rc : met;
}

/* ---- post, start, complete, wait ---- */

/* Returns the ranks of a group in the window, to be freed. From now on it is noticed when one of them ends. */
static int *ranks_of(gcm_device_window *w, ompi_group_t *group, int *n) {
  *n = ompi_group_size(group);
  int *ranks = malloc(2 * ((size_t)*n + 1) * sizeof *ranks), *own = ranks + *n;
  if (ranks == NULL) return NULL;
  for (int i = 0; i < *n; i++) own[i] = i;
  (void)ompi_group_translate_ranks(group, *n, own, w->comm->c_local_group, ranks);
  for (int i = 0; i < *n; i++) gcm_watch_rank(w, ranks[i]);
  return ranks;
}

typedef struct counted {
  atomic_int *counts; /* of each rank */
  const int *ranks;
  int n;
} counted;

static bool have_come(gcm_device_window *w, const void *argument) {
  const counted *c = argument;
  int i = 0;
  (void)w;
  /* Acquire: partner is take_header(). */
  while (i < c->n && atomic_load_explicit(&c->counts[c->ranks[i]], memory_order_acquire) > 0) i++;
  return i == c->n;
}
static void take(const counted *c) {
  for (int i = 0; i < c->n; i++) atomic_fetch_sub_explicit(&c->counts[c->ranks[i]], 1, memory_order_relaxed);
}
static int await(gcm_device_window *w, const counted *c) {
  const int rc = gcm_wait_for_window(w, have_come, c, c->ranks, c->n);
  if (rc == MPI_SUCCESS) take(c);
  return rc;
}

static int tell_each(gcm_device_window *w, gcm_window_verb verb, const int *ranks, int n) {
  int rc = MPI_SUCCESS;
  for (int i = 0; i < n && rc == MPI_SUCCESS; i++) rc = gcm_tell(w, verb, ranks[i], false, NULL);
  return rc;
}

static bool holds_some(const gcm_device_window *w) {
  int i = 0;
  while (i < w->n && w->locks[i] == kUnlocked) i++;
  return i < w->n;
}

static int start(ompi_group_t *group, int assertion, ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (w->accessed != NULL || holds_some(w)) return MPI_ERR_RMA_SYNC;
  w->accessed = ranks_of(w, group, &w->n_accessed);
  if (w->accessed == NULL) return MPI_ERR_NO_MEM;
  const counted posts = {w->posts, w->accessed, w->n_accessed};
  return (assertion & MPI_MODE_NOCHECK) != 0 ? MPI_SUCCESS : await(w, &posts);
}

static int complete(ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (w->accessed == NULL) return MPI_ERR_RMA_SYNC;
  int rc = complete_all(w);
  const int told = tell_each(w, GCM_COMPLETE, w->accessed, w->n_accessed);
  free(w->accessed);
  w->accessed = NULL;
  return rc != MPI_SUCCESS ? rc : told;
}

static int post(ompi_group_t *group, int assertion, ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (w->exposed != NULL) return MPI_ERR_RMA_SYNC;
  w->exposed = ranks_of(w, group, &w->n_exposed);
  if (w->exposed == NULL) return MPI_ERR_NO_MEM;
  return (assertion & MPI_MODE_NOCHECK) != 0 ? MPI_SUCCESS : tell_each(w, GCM_POST, w->exposed, w->n_exposed);
}

static void end_exposure(gcm_device_window *w) {
  free(w->exposed);
  w->exposed = NULL;
}

static int wait_for_accesses(ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (w->exposed == NULL) return MPI_ERR_RMA_SYNC;
  const counted completes = {w->completes, w->exposed, gc_mutant(523) ? 0 : w->n_exposed};
  const int rc = await(w, &completes);
  end_exposure(w);
  return rc;
}

static int test_accesses(ompi_win_t *win, int *flag) {
  gcm_device_window *w = gcm_window_of(win);
  if (w->exposed == NULL) return MPI_ERR_RMA_SYNC;
  const counted completes = {w->completes, w->exposed, w->n_exposed};
  opal_progress();
  *flag = have_come(w, &completes);
  if (!*flag) return look_at_ranks(w, w->exposed, w->n_exposed);
  take(&completes);
  end_exposure(w);
  return MPI_SUCCESS;
}

/* ---- locks ---- */

static bool has_answered(gcm_device_window *w, const void *argument) {
  (void)w;
  return gcm_is_complete(argument);
}

static int await_lock(gcm_device_window *w, int target, ompi_request_t *answered) {
  const int rc = gcm_wait_for_window(w, has_answered, answered, &target, 1);
  if (rc == MPI_SUCCESS) return gcm_wait(&answered, MPI_STATUS_IGNORE);
  (void)ompi_request_free(&answered);
  return rc;
}

/* Asks for the lock of a target, and waits until it is held. */
static int take_lock(gcm_device_window *w, int target, bool exclusive) {
  ompi_request_t *answered = NULL;
  int rc = gcm_tell(w, GCM_LOCK, target, exclusive, &answered);
  if (rc == MPI_SUCCESS) rc = await_lock(w, target, answered);
  if (rc == MPI_SUCCESS) w->locks[target] = exclusive ? kExclusive : kShared;
  return rc;
}

static int give_lock(gcm_device_window *w, int target) {
  const uint8_t held = w->locks[target];
  w->locks[target] = kUnlocked;
  return held == kUnchecked ? MPI_SUCCESS : gcm_tell(w, GCM_UNLOCK, target, held == kExclusive, NULL);
}

static int lock(int type, int target, int assertion, ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (w->locks[target] != kUnlocked || w->locked_all || w->accessed != NULL) return MPI_ERR_RMA_SYNC;
  if ((assertion & MPI_MODE_NOCHECK) == 0) return take_lock(w, target, type == MPI_LOCK_EXCLUSIVE);
  w->locks[target] = kUnchecked;
  return MPI_SUCCESS;
}

static int unlock(int target, ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (w->locks[target] == kUnlocked || w->locked_all) return MPI_ERR_RMA_SYNC;
  const int rc = complete_on(w, target);
  const int given = give_lock(w, target);
  return rc != MPI_SUCCESS ? rc : given;
}

static int give_locks(gcm_device_window *w) {
  int rc = MPI_SUCCESS;
  for (int i = 0; i < w->n; i++) {
    const int given = w->locks[i] == kUnlocked ? MPI_SUCCESS : give_lock(w, i);
    if (rc == MPI_SUCCESS) rc = given;
  }
  return rc;
}

/* Takes the locks in one order, as all ranks do: nobody waits for a shared one but behind an exclusive one. */
static int lock_all(int assertion, ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (w->locked_all || w->accessed != NULL || holds_some(w)) return MPI_ERR_RMA_SYNC;
  int rc = MPI_SUCCESS;
  for (int i = 0; i < w->n && rc == MPI_SUCCESS; i++) rc = lock(MPI_LOCK_SHARED, i, assertion, win);
  w->locked_all = rc == MPI_SUCCESS;
  if (rc != MPI_SUCCESS && !gc_mutant(532)) (void)give_locks(w);
  return rc;
}

static int unlock_all(ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (!w->locked_all) return MPI_ERR_RMA_SYNC;
  const int rc = complete_all(w);
  w->locked_all = false;
  const int given = give_locks(w);
  return rc != MPI_SUCCESS ? rc : given;
}

/* ---- flushes ---- */

/* Open MPI does not check the target of a flush. */
static int flush(int target, ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  if (target == MPI_PROC_NULL) return MPI_SUCCESS;
  if (target < 0 || target >= w->n) return MPI_ERR_RANK;
  return w->locks[target] == kUnlocked ? MPI_ERR_RMA_SYNC : complete_on(w, target);
}

static int flush_all(ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  return holds_some(w) ? complete_all(w) : MPI_ERR_RMA_SYNC;
}

/* Orders what this rank does with its memory on the CPU; and what others have changed arrives with progress. */
static int sync_memory(ompi_win_t *win) {
  (void)win;
  atomic_thread_fence(memory_order_seq_cst);
  opal_progress();
  return MPI_SUCCESS;
}

/* ---- what all have ---- */

static bool is_accessed(const gcm_device_window *w, int target) {
  int i = 0;
  while (i < w->n_accessed && w->accessed[i] != target) i++;
  return i < w->n_accessed;
}

bool gcm_may_access(const gcm_device_window *w, int target) {
  if (w->locks[target] != kUnlocked) return true;
  return w->accessed != NULL ? is_accessed(w, target) : w->fenced;
}

void gcm_put_epochs(gcm_window_functions *functions) {
  functions->osc_fence = fence;
  functions->osc_start = start;
  functions->osc_complete = complete;
  functions->osc_post = post;
  functions->osc_wait = wait_for_accesses;
  functions->osc_test = test_accesses;
  functions->osc_lock = lock;
  functions->osc_unlock = unlock;
  functions->osc_lock_all = lock_all;
  functions->osc_unlock_all = unlock_all;
  functions->osc_sync = sync_memory;
  functions->osc_flush = functions->osc_flush_local = flush;
  functions->osc_flush_all = functions->osc_flush_local_all = flush_all;
}
