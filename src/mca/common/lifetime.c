/* The end of MPI: the engine must let go of its peers' memory while MPI progress, communicators and devices still
 * work. MPI_Finalize deletes the attributes of MPI_COMM_SELF before it takes anything down, so that is where it is
 * done; the component's close comes much later.
 */
#include <stdatomic.h>

#include "mca/coll/module.h"

enum { kNotWatched, kWatched };
static atomic_int watched = kNotWatched;
static atomic_bool closed;
static bool told_of_end;

static void no_progress(void) {}
static void mpi_progress(void) { opal_progress(); }

static void close_with(void (*progress)(void)) {
  if (gcm_abi == NULL || atomic_exchange(&closed, true)) return;
  gcm_abi->process_close(progress);
}

/* MPI_Finalize makes progress while it waits for the other processes, which may be waiting for this one. */
static int tell_of_end(void) {
  if (told_of_end || ompi_mpi_state < OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT) return 0;
  told_of_end = true;
  gcm_abi->process_ended();
  return 0;
}

static int on_finalize(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)comm, (void)keyval, (void)value, (void)extra;
  close_with(mpi_progress);
  opal_progress(); /* requests that were never started leave the list while their communicators live */
  opal_progress_register(tell_of_end);
  return MPI_SUCCESS;
}

static bool mpi_is_up(void) {
  const int32_t state = ompi_mpi_state;
  return state >= OMPI_MPI_STATE_INIT_COMPLETED && state < OMPI_MPI_STATE_FINALIZE_STARTED;
}

/* Not possible before MPI_Init is done, and needed only once a device is used: hence from the first such call. PMPI,
 * as a profiler must not see calls that the application did not make. */
void gcm_watch_finalize(void) {
  int expected = kNotWatched, keyval = MPI_KEYVAL_INVALID;
  if (atomic_load_explicit(&watched, memory_order_relaxed) == kWatched || !mpi_is_up()) return;
  if (!atomic_compare_exchange_strong(&watched, &expected, kWatched)) return;
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &keyval, NULL) != MPI_SUCCESS) return;
  (void)PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
  (void)PMPI_Comm_free_keyval(&keyval); /* lives on until the attribute is deleted */
}

bool gcm_process_closed(void) { return atomic_load_explicit(&closed, memory_order_relaxed); }

void gcm_process_close(void) {
  close_with(no_progress); /* no device was used, or not in this process: nothing to wait for */
  opal_progress_unregister(tell_of_end);
  told_of_end = false; /* another session may begin */
  atomic_store(&closed, false);
  atomic_store(&watched, kNotWatched);
}
