/* Sends of host memory and probes: they go to the PML as they came. What is sent of just the size of an envelope is
 * noted, so that probes can tell the two; a probe that has found an envelope tells the size of its message. */
#include <sched.h>
#include <stdint.h>

#include "mca/pt2pt/message_requests.h"
#include "mca/pt2pt/pt2pt.h"

/* ---- sending ---- */

static GCM_INLINE bool has_size_of_envelope(size_t count, const gcm_type *type) {
  return count * type->super.size == GC_ENVELOPE_BYTES;
}

int gcm_send_host(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                  ompi_communicator_t *comm) {
  if (GCM_LIKELY(!has_size_of_envelope(count, type))) {
    return gcm_pml.pml_send(buffer, count, type, to, tag, mode, comm);
  }
  ompi_request_t *request;
  const int rc = gcm_isend_host(buffer, count, type, to, tag, mode, comm, &request);
  return rc != MPI_SUCCESS ? rc : gcm_wait(&request, MPI_STATUS_IGNORE);
}

static GCM_NOINLINE int isend_noted(const void *buffer, size_t count, gcm_type *type, int to, int tag,
                                    mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                                    ompi_request_t **request) {
  gcm_lock_order();
  gcm_note_message(comm, to, tag);
  const int rc = gcm_pml.pml_isend(buffer, count, type, to, tag, mode, comm, request);
  gcm_unlock_order();
  return rc;
}

/* One call at the end, and no other, as in interpose.c. */
int gcm_isend_host(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                   ompi_communicator_t *comm, ompi_request_t **request) {
  const bool noted = has_size_of_envelope(count, type) && tag >= 0;
  return (GCM_LIKELY(!noted) ? gcm_pml.pml_isend : isend_noted)(buffer, count, type, to, tag, mode, comm, request);
}

int gcm_isend_init_host(const void *buffer, size_t count, gcm_type *type, int to, int tag,
                        mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, ompi_request_t **request) {
  if (!has_size_of_envelope(count, type)) {
    return gcm_pml.pml_isend_init(buffer, count, type, to, tag, mode, comm, request);
  }
  const gcm_route route = {.peer = to, .tag = tag, .mode = mode, .comm = comm};
  return gcm_make_message(buffer, count, type, false, &route, false, true, request);
}

/* ---- probing ---- */

static void give(ompi_status_public_t *status, ompi_status_public_t *found) {
  if (status == MPI_STATUS_IGNORE) return;
  found->MPI_ERROR = status->MPI_ERROR;
  *status = *found;
}

/* Returns whether to probe again: another thread has received the message, and its size is no longer known. That thread
 * may have lost its processor on the way, so this one gives its own. The times are bounded. ob1 reads the size from a
 * fragment that another thread may just have given back, and then tells less than nothing. */
static bool is_gone(ompi_communicator_t *comm, ompi_status_public_t *found, int times) {
  enum { kQuickTimes = 100, kMostTimes = 10000 };
  const bool known = found->_ucount <= PTRDIFF_MAX && gcm_correct_probe(comm, found, false, times > 0);
  if (known || !opal_using_threads() || times >= kMostTimes) return false;
  if (times >= kQuickTimes) sched_yield();
  return true;
}

/* Stores the size in the message, as not all PMLs do: its receive finds there whether it may be an envelope. */
static void give_message(ompi_status_public_t *status, ompi_communicator_t *comm, ompi_status_public_t *found,
                         ompi_message_t *message) {
  message->count = found->_ucount;
  (void)gcm_correct_probe(comm, found, true, false);
  give(status, found);
}

int gcm_iprobe(int from, int tag, ompi_communicator_t *comm, int *matched, ompi_status_public_t *status) {
  ompi_status_public_t found = ompi_status_empty;
  for (int times = 0;; times++) {
    const int rc = gcm_pml.pml_iprobe(from, tag, comm, matched, &found);
    if (rc != MPI_SUCCESS || !*matched) return rc;
    if (is_gone(comm, &found, times)) continue;
    give(status, &found);
    return MPI_SUCCESS;
  }
}

int gcm_probe(int from, int tag, ompi_communicator_t *comm, ompi_status_public_t *status) {
  ompi_status_public_t found = ompi_status_empty;
  for (int times = 0;; times++) {
    const int rc = gcm_pml.pml_probe(from, tag, comm, &found);
    if (rc != MPI_SUCCESS) return rc;
    if (is_gone(comm, &found, times)) continue;
    give(status, &found);
    return MPI_SUCCESS;
  }
}

/* No other thread's probe comes between the PML's and ours. */
int gcm_improbe(int from, int tag, ompi_communicator_t *comm, int *matched, ompi_message_t **message,
                ompi_status_public_t *status) {
  ompi_status_public_t found = ompi_status_empty;
  gcm_lock_order();
  const int rc = gcm_pml.pml_improbe(from, tag, comm, matched, message, &found);
  if (rc == MPI_SUCCESS && *matched) give_message(status, comm, &found, *message);
  gcm_unlock_order();
  return rc;
}

int gcm_mprobe(int from, int tag, ompi_communicator_t *comm, ompi_message_t **message, ompi_status_public_t *status) {
  ompi_status_public_t found = ompi_status_empty;
  if (opal_using_threads()) {
    int matched = 0, rc;
    while ((rc = gcm_improbe(from, tag, comm, &matched, message, status)) == MPI_SUCCESS && !matched) opal_progress();
    return rc;
  }
  const int rc = gcm_pml.pml_mprobe(from, tag, comm, message, &found);
  if (rc == MPI_SUCCESS) give_message(status, comm, &found, *message);
  return rc;
}
