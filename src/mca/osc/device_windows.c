#include "mca/osc/device_windows.h"

#include <stdio.h>

#include "mca/pt2pt/pt2pt.h"

/* ---- driving ---- */

static opal_mutex_t drive_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_device_window *windows;
static atomic_int n_windows; /* as a look without the lock */
static bool progress_registered;

static int progress(void) {
  if (GCM_LIKELY(atomic_load_explicit(&n_windows, memory_order_relaxed) == 0)) return 0;
  if (gcm_in_callback || opal_mutex_trylock(&drive_lock) != 0) return 0;
  int done = 0;
  for (gcm_device_window *w = windows; w != NULL; w = w->next) done += gcm_serve_window(w);
  opal_mutex_unlock(&drive_lock);
  return done;
}

/* Whoever holds it does not wait for this thread. */
static void take_drive_lock(void) {
  while (opal_mutex_trylock(&drive_lock) != 0) sched_yield();
}

void gcm_drive_window(gcm_device_window *w) {
  take_drive_lock();
  if (!progress_registered) opal_progress_register(progress);
  progress_registered = true;
  w->next = windows;
  windows = w;
  atomic_fetch_add_explicit(&n_windows, 1, memory_order_relaxed);
  opal_mutex_unlock(&drive_lock);
}

void gcm_stop_driving(gcm_device_window *w) {
  take_drive_lock();
  gcm_device_window **link = &windows;
  while (*link != NULL && *link != w) link = &(*link)->next;
  if (*link != NULL) {
    *link = w->next;
    atomic_fetch_sub_explicit(&n_windows, 1, memory_order_relaxed);
  }
  opal_mutex_unlock(&drive_lock);
}

void gcm_stop_windows(void) {
  if (progress_registered) opal_progress_unregister(progress);
  progress_registered = false;
  windows = NULL; /* those that the program has never freed */
  atomic_store_explicit(&n_windows, 0, memory_order_relaxed);
}

/* ---- agreement ---- */

static int allreduce_max(int *values, int n, ompi_communicator_t *comm) {
  return comm->c_coll->coll_allreduce(MPI_IN_PLACE, values, n, MPI_INT, MPI_MAX, comm,
                                      comm->c_coll->coll_allreduce_module);
}

/* Returns the first rank that does not take part in an agreement, as it runs without this version of gpucoll; -1: all
 * take part. */
static int first_without_us(ompi_communicator_t *comm) {
  const gc_pt2pt_abi *engine = gpucoll_pt2pt_abi(GC_ABI_VERSION);
  for (int i = 0; i < ompi_comm_size(comm); i++)
    if (!engine->runs_this_version(gcm_blob_of(comm, i))) return i;
  return -1;
}

static int refuse_alone(const void *base, int other) {
  char line[320];
  snprintf(line, sizeof line,
           "MPI_Win_create is given device memory (%p), but rank %d of its communicator runs without this version of "
           "gpucoll, which all ranks of such a window need: run one version of gpucoll in all processes, or pass host "
           "memory",
           base, other);
  gcm_abi->log(-1, line);
  return MPI_ERR_BUFFER;
}
static int refuse_beside_others(const void *base) {
  char line[400];
  snprintf(line, sizeof line,
           "MPI_Win_create is given device memory (%p), but another rank of its communicator leaves windows to Open "
           "MPI (the parameter pt2pt is off there, or its Open MPI or UCX supports GPUs): set the same in all "
           "processes, or pass host memory",
           base);
  gcm_abi->log(-1, line);
  return MPI_ERR_BUFFER;
}

/* ---- making and freeing ---- */

static void free_window(gcm_device_window *w) {
  if (w == NULL) return;
  free(w->parts);
  free(w->under_way);
  free(w->locks);
  free(w->accessed);
  free(w->exposed);
  free(w->watched);
  free(w->posts);
  free(w->completes);
  free(w);
}

/* Local work only. Returns NULL where there is no memory. */
static gcm_device_window *new_window(void *base, ompi_communicator_t *comm) {
  const int n = ompi_comm_size(comm);
  gcm_device_window *w = calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  snprintf(w->name, sizeof w->name, "%s", comm->c_name);
  w->base = base;
  w->n = n;
  w->incoming_end = &w->incoming;
  w->parts = calloc((size_t)n, sizeof *w->parts);
  w->under_way = calloc((size_t)n, sizeof *w->under_way);
  w->locks = calloc((size_t)n, sizeof *w->locks);
  w->watched = calloc((size_t)n, sizeof *w->watched);
  w->posts = calloc((size_t)n, sizeof *w->posts);
  w->completes = calloc((size_t)n, sizeof *w->completes);
  if (w->parts != NULL && w->under_way != NULL && w->locks != NULL && w->watched != NULL && w->posts != NULL &&
      w->completes != NULL)
    return w;
  free_window(w);
  return NULL;
}

static bool has_ended(gcm_device_window *w, const void *argument) {
  (void)argument;
  return atomic_load_explicit(&w->n_messages, memory_order_acquire) == 0;
}
static bool is_quiet(gcm_device_window *w, const void *argument) {
  (void)argument;
  return atomic_load_explicit(&w->is_quiet, memory_order_acquire);
}

/* Ends the receives of headers. REQUIRES: no other rank sends any more. */
static int end_headers(gcm_device_window *w) {
  int rc = MPI_SUCCESS;
  for (int i = 0; i < GCM_HEADER_SLOTS && rc == MPI_SUCCESS; i++)
    rc = gcm_tell(w, GCM_END, ompi_comm_rank(w->comm), false, NULL);
  if (rc == MPI_SUCCESS) rc = gcm_wait_for_window(w, is_quiet, NULL, NULL, 0);
  return rc == MPI_SUCCESS ? gcm_wait_for_window(w, has_ended, NULL, NULL, 0) : rc;
}

/* Ends a window: after the barrier, no rank has operations on another one. */
static int end_window(gcm_device_window *w) {
  int rc = gcm_wait_for_window(w, has_ended, NULL, NULL, w->n);
  if (rc == MPI_SUCCESS) rc = w->comm->c_coll->coll_barrier(w->comm, w->comm->c_coll->coll_barrier_module);
  return rc == MPI_SUCCESS ? end_headers(w) : rc;
}

/* Returns whether MPI frees a window that the program has left to it. Ranks may do that in different orders. */
static bool is_left(void) { return ompi_mpi_state >= OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT; }

/* Where a process has ended, or MPI ends and the program has not freed the window, the PML may go on using its memory.
 */
static int window_free(ompi_win_t *win) {
  gcm_device_window *w = gcm_window_of(win);
  const bool can_end = !is_left() && !atomic_load(&w->is_broken);
  const int rc = can_end ? end_window(w) : MPI_SUCCESS;
  gcm_stop_driving(w);
  if (!can_end || rc != MPI_SUCCESS) return rc;
  gcm_forget_target(w);
  (void)ompi_comm_free(&w->comm);
  free_window(w);
  return MPI_SUCCESS;
}

static int no_attach(ompi_win_t *win, void *base, size_t bytes) {
  (void)win, (void)base, (void)bytes;
  return MPI_ERR_RMA_FLAVOR;
}
static int no_detach(ompi_win_t *win, const void *base) {
  (void)win, (void)base;
  return MPI_ERR_RMA_FLAVOR;
}

static int exchange_parts(gcm_device_window *w, size_t size, int unit, ompi_communicator_t *comm) {
  w->parts[ompi_comm_rank(comm)] = (gcm_window_part){(int64_t)size, unit};
  return comm->c_coll->coll_allgather(MPI_IN_PLACE, 2, MPI_INT64_T, w->parts, 2, MPI_INT64_T, comm,
                                      comm->c_coll->coll_allgather_module);
}

/* Opens a window that all ranks have memory for. */
static int open_window(gcm_device_window *w, size_t size, int unit, ompi_communicator_t *comm) {
  w->functions.osc_win_attach = no_attach;
  w->functions.osc_win_detach = no_detach;
  w->functions.osc_free = window_free;
  gcm_put_accesses(&w->functions);
  gcm_put_epochs(&w->functions);
  int rc = exchange_parts(w, size, unit, comm);
  if (rc == MPI_SUCCESS) rc = ompi_comm_dup(comm, &w->comm);
  if (rc != MPI_SUCCESS) return rc;
  int failed = gcm_open_target(w);
  rc = allreduce_max(&failed, 1, comm); /* no rank has a window where another one has none */
  if (rc == MPI_SUCCESS) rc = failed;
  if (rc == MPI_SUCCESS) gcm_drive_window(w);
  return rc;
}

static int say_no_memory(void) {
  gcm_abi->log(-1, "some rank has no memory left for a window of device memory: free other memory of the host");
  return MPI_ERR_NO_MEM;
}

/* Makes a window that all ranks have agreed on. Where it fails after the PML has got some of its memory, that stays. */
static int make_window(ompi_win_t *win, void *base, size_t size, int unit, ompi_communicator_t *comm, int *model) {
  gcm_device_window *w = new_window(base, comm);
  int is_missing = w == NULL;
  int rc = allreduce_max(&is_missing, 1, comm);
  if (rc == MPI_SUCCESS && is_missing) rc = say_no_memory();
  if (rc == MPI_SUCCESS) rc = open_window(w, size, unit, comm);
  if (rc == MPI_SUCCESS) {
    win->w_osc_module = &w->functions;
    *model = MPI_WIN_UNIFIED;
  } else if (w != NULL && w->comm == NULL) {
    free_window(w);
  }
  return rc;
}

int gcm_make_device_window(ompi_win_t *win, void *base, size_t size, int unit, ompi_communicator_t *comm, int *model,
                           bool leaves, bool *is_ours) {
  const bool on_device = !leaves && gcm_is_out_of_reach(base, size, MPI_BYTE);
  const int other = first_without_us(comm);
  *is_ours = on_device;
  if (other >= 0) return on_device ? refuse_alone(base, other) : MPI_SUCCESS;
  int some[2] = {on_device, leaves};
  const int rc = allreduce_max(some, 2, comm);
  const bool some_on_device = some[0] != 0, some_leave = some[1] != 0;
  *is_ours = rc != MPI_SUCCESS || (some_leave ? on_device : some_on_device);
  if (rc != MPI_SUCCESS || !*is_ours) return rc;
  return some_leave ? refuse_beside_others(base) : make_window(win, base, size, unit, comm, model);
}
