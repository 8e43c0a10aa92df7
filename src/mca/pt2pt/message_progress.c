/* Requests under way: MPI progress ends what the PML has carried, then the transfer or the pieces, and completes them.
 */
#include <stdatomic.h>

#include "base/mutant.h"
#include "mca/pt2pt/message_steps.h"
#include "mca/pt2pt/message_traces.h"
#include "mca/pt2pt/pt2pt.h"
#include "mca/pt2pt/staged_receives.h"

opal_mutex_t gcm_list_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_message_request *under_way, **under_way_end = &under_way;
static atomic_int n_under_way; /* as a look without the lock */
static bool progress_registered;

/* ---- the ends ---- */

void gcm_withdraw(gcm_message_request *r) {
  size_t bytes;
  if (r->transfer != NULL) (void)gcm_pt2pt->end(r->transfer);
  if (r->pieces != NULL) (void)gcm_end_pieces(r->pieces, &bytes);
  r->transfer = NULL;
  r->pieces = NULL;
}

/* Ends the PML's request, which is complete, and brings what it received to where it belongs. */
static void end_inner(gcm_message_request *r) {
  r->status = ompi_status_empty;
  r->rc = gcm_wait(&r->inner, &r->status);
  if (!r->receives && r->rc != MPI_SUCCESS) gcm_withdraw(r);
  if (r->receives && !r->status._cancelled) gcm_end_receive(r);
}

static void end_transfer(gcm_message_request *r) {
  int rc = gcm_pt2pt->end(r->transfer);
  r->transfer = NULL;
  if (rc == MPI_SUCCESS && r->receives) rc = gcm_store_aside(r);
  if (r->rc == MPI_SUCCESS) r->rc = rc;
}

static void end_pieces(gcm_message_request *r) {
  const size_t room = r->data.place.bytes;
  size_t bytes = 0;
  int rc = gcm_end_pieces(r->pieces, &bytes);
  r->pieces = NULL;
  if (r->receives && r->rc == MPI_SUCCESS && rc == MPI_SUCCESS) {
    r->status._ucount = bytes < room ? bytes : room;
    rc = gcm_store_aside(r);
    if (rc == MPI_SUCCESS && bytes > room) rc = MPI_ERR_TRUNCATE;
  }
  if (r->rc == MPI_SUCCESS) r->rc = rc;
}

static void complete(ompi_request_t *request, const ompi_status_public_t *status, int rc) {
  request->req_status = *status;
  request->req_status.MPI_ERROR = gc_mutant(204) ? MPI_SUCCESS : rc;
  if (gc_mutant(201)) request->req_status.MPI_SOURCE = MPI_ANY_SOURCE;
  gcm_complete(request);
}

static void end(gcm_message_request *r) {
  gcm_trace_end(r, r->receives ? &r->status : NULL);
  opal_mutex_lock(&gcm_list_lock);
  r->ended = true;
  const bool detached = r->detached;
  ompi_request_t *other = r->stands_for;
  if (other != NULL) *r->stands_at = other;
  opal_mutex_unlock(&gcm_list_lock);
  const ompi_status_public_t status = r->status;
  const int rc = r->rc;
  if (!detached && other == NULL) {
    complete(&r->super.req_ompi, &status, rc);
    return;
  }
  gcm_message_request_release(r);
  if (other != NULL) complete(other, &status, rc);
}

/* ---- progress ---- */

/* REQUIRES: the lock. */
static void put_in_list(gcm_message_request *r) {
  if (!progress_registered) {
    opal_progress_register(gcm_progress_messages);
    progress_registered = true;
  }
  r->next = NULL;
  r->listed = true;
  r->straight = r->straight || r->transfer != NULL || r->pieces != NULL;
  *under_way_end = r;
  under_way_end = &r->next;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
}

void gcm_watch_message(gcm_message_request *r) {
  opal_mutex_lock(&gcm_list_lock);
  put_in_list(r);
  opal_mutex_unlock(&gcm_list_lock);
}

/* Returns whether there is something to do for the request outside of the lock. */
static bool is_ready(gcm_message_request *r) {
  if (r->cancelling != 0) return false;
  if (gcm_has_inner(r)) return gcm_is_complete(r->inner);
  if (r->pieces != NULL) return gcm_pieces_ended(r->pieces);
  return r->transfer == NULL || gcm_pt2pt->test(r->transfer);
}

static gcm_message_request *take_ready(void) {
  gcm_message_request *ready = NULL, **ready_end = &ready, **link = &under_way;
  while (*link != NULL) {
    gcm_message_request *r = *link;
    if (!is_ready(r)) {
      link = &r->next;
      continue;
    }
    *link = r->next;
    r->next = NULL;
    r->listed = false;
    *ready_end = r;
    ready_end = &r->next;
    atomic_fetch_sub_explicit(&n_under_way, 1, memory_order_relaxed);
  }
  under_way_end = link;
  return ready;
}

static void attend(gcm_message_request *r) {
  if (gcm_has_inner(r)) {
    end_inner(r);
    if (r->transfer != NULL || r->pieces != NULL) {
      gcm_watch_message(r);
      return;
    }
  } else if (r->pieces != NULL) {
    end_pieces(r);
  } else if (r->transfer != NULL) {
    end_transfer(r);
  }
  end(r);
}

int gcm_progress_messages(void) {
  if (GCM_LIKELY(atomic_load_explicit(&n_under_way, memory_order_relaxed) == 0)) return 0;
  int attended = gcm_drive_pieces();
  if (opal_mutex_trylock(&gcm_list_lock) != 0) return attended;
  gcm_message_request *ready = take_ready();
  opal_mutex_unlock(&gcm_list_lock);
  while (ready != NULL) {
    gcm_message_request *r = ready;
    ready = r->next;
    attend(r);
    attended++;
  }
  if (gcm_pt2pt != NULL) gcm_pt2pt->launch();
  return attended;
}

void gcm_stop_messages(void) {
  if (progress_registered) opal_progress_unregister(gcm_progress_messages);
  progress_registered = false;
  gcm_forget_bounded_types();
}

/* ---- receives of the PML's own ---- */

void gcm_stand_for(gcm_message_request *r, ompi_request_t *receive, void **at) {
  opal_mutex_lock(&gcm_list_lock);
  r->stands_for = receive;
  r->stands_at = at;
  *at = r;
  put_in_list(r);
  opal_mutex_unlock(&gcm_list_lock);
}

void gcm_leave_message(gcm_message_request *r) {
  r->stands_for = NULL;
  r->detached = true;
}

int gcm_adopt_receive(void *buffer, size_t count, gcm_type *type, ompi_communicator_t *comm, bool matched,
                      ompi_request_t *receive) {
  gcm_message_data data;
  const gcm_route route = {.comm = comm};
  const int rc = gcm_describe_data(&data, buffer, count, type, false);
  gcm_message_request *r = rc == MPI_SUCCESS ? gcm_message_request_new(&data, &route, true, false) : NULL;
  if (r == NULL) return rc != MPI_SUCCESS ? rc : MPI_ERR_NO_MEM;
  r->inner = receive;
  r->matched = matched;
  r->detached = true;
  gcm_watch_message(r);
  return MPI_SUCCESS;
}
