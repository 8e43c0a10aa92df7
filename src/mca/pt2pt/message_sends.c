/* Sends: how a message is offered to its receiver, or its data given to the PML. */
#include "base/mutant.h"
#include "mca/pt2pt/message_steps.h"
#include "mca/pt2pt/notes.h"
#include "mca/pt2pt/pt2pt.h"

/* ---- their order ---- */

static opal_mutex_t order_lock = OPAL_MUTEX_STATIC_INIT;
static _Thread_local int times_locked; /* by this thread */

void gcm_lock_order(void) {
  if (times_locked++ == 0) OPAL_THREAD_LOCK(&order_lock);
}

void gcm_unlock_order(void) {
  if (--times_locked == 0) OPAL_THREAD_UNLOCK(&order_lock);
}

void gcm_note_message(ompi_communicator_t *comm, int to, int tag) {
  if (!gcm_may_be_offered(tag)) return;
  const gc_message_key key = gcm_key_of(comm, tag);
  const gc_process_blob *blob = gcm_blob_of(comm, to);
  if (gcm_pt2pt->least_in_pieces(blob) != 0) {
    gcm_send_plain_note(comm, to, tag);
  } else {
    gcm_pt2pt->note(blob, &key);
  }
}

/* ---- what the PML carries ---- */

void gcm_tell_slow_message(const gcm_route *route, uint32_t cause) {
  if (!gcm_is_of_program(route->tag) || route->peer == MPI_PROC_NULL) return;
  gcm_abi->tell_slow_message(gcm_context_id(route->comm), route->comm->c_name, cause);
}

/* Returns why the PML carries the data of a send. */
static uint32_t why_slow(const gcm_message_request *r, int answer) {
  if (r->data.partly_host) return GC_CAUSE_message_partly_host;
  if (r->data.mixed) return GC_CAUSE_message_several_devices;
  if (answer != GC_STAGE) return GC_CAUSE_OF(answer);
  return gcm_pt2pt == NULL ? GC_CAUSE_message_off : GC_CAUSE_none;
}

static mca_pml_base_send_mode_t asked_mode(const gcm_route *route) {
  const bool changes = route->mode == MCA_PML_BASE_SEND_SYNCHRONOUS && gc_mutant(202);
  return changes ? MCA_PML_BASE_SEND_STANDARD : route->mode;
}

/* A small envelope tells a receiver with very little room nothing, so the PML tells when it has matched that. Of others
 * the receiver ends the wait. */
static mca_pml_base_send_mode_t envelope_mode(const gcm_message_request *r) {
  const mca_pml_base_send_mode_t mode = asked_mode(&r->route);
  const bool waits = mode == MCA_PML_BASE_SEND_SYNCHRONOUS && r->data.place.bytes >= GC_ENVELOPE_BYTES;
  return waits ? MCA_PML_BASE_SEND_STANDARD : mode;
}

/* ---- envelopes ---- */

static gc_send_mode mode_of(mca_pml_base_send_mode_t mode) {
  switch (mode) {
    case MCA_PML_BASE_SEND_SYNCHRONOUS: return GC_SEND_SYNCHRONOUS;
    case MCA_PML_BASE_SEND_BUFFERED: return GC_SEND_BUFFERED;
    default: return GC_SEND_STANDARD;
  }
}

/* Announces a send to a process of another node that goes in pieces. Returns GC_STAGE where it does not. */
static int announce_pieces(gcm_message_request *r) {
  const gcm_route *route = &r->route;
  if (!gcm_may_be_offered(route->tag) || !r->data.place.on_device || r->data.mixed) return GC_STAGE;
  if (route->mode == MCA_PML_BASE_SEND_BUFFERED) return GC_STAGE;
  if (!gcm_go_in_pieces(route->comm, gcm_blob_of(route->comm, route->peer), r->data.place.bytes)) return GC_STAGE;
  const gcm_pieces_route to = {.comm = route->comm, .peer = route->peer, .tag = route->tag};
  return gcm_offer_pieces(&to, &r->data.place, &r->envelope, &r->pieces);
}

/* Offers a send to its receiver. Returns GC_STAGE or GC_STAGE_BECAUSE() where the PML must carry the data. */
static int offer_message(gcm_message_request *r) {
  const gcm_route *route = &r->route;
  if (!gcm_may_be_offered(route->tag)) return GC_STAGE;
  const gc_message_key key = gcm_key_of(route->comm, route->tag);
  int rc = GC_STAGE;
  if (!r->data.mixed && r->data.place.on_device) {
    rc = gcm_pt2pt->offer(gcm_blob_of(route->comm, route->peer), &key, &r->data.place, mode_of(asked_mode(route)),
                          &r->envelope, &r->transfer);
  }
  if (rc <= GC_STAGE && r->data.place.bytes == GC_ENVELOPE_BYTES) {
    gcm_note_message(route->comm, route->peer, route->tag);
  }
  return rc;
}

static int send_envelope(gcm_message_request *r) {
  const gcm_route *route = &r->route;
  const mca_pml_base_send_mode_t mode = envelope_mode(r);
  int rc = announce_pieces(r);
  if (rc <= GC_STAGE) rc = offer_message(r);
  if (rc == MPI_SUCCESS) {
    const size_t bytes = r->data.place.bytes;
    rc = gcm_pml.pml_isend(r->envelope.bytes, bytes < GC_ENVELOPE_BYTES ? bytes : GC_ENVELOPE_BYTES, gcm_bytes_type(),
                           route->peer, route->tag, mode, route->comm, &r->inner);
  }
  return rc;
}

int gcm_begin_send(gcm_message_request *r) {
  const gcm_route *route = &r->route;
  int rc = send_envelope(r);
  if (rc > GC_STAGE) return rc;
  if (!r->data.place.on_device) {
    return gcm_pml.pml_isend(r->data.buffer, r->data.count, r->data.type, route->peer, route->tag, route->mode,
                             route->comm, &r->inner);
  }
  r->slow = why_slow(r, rc);
  if (!gcm_take_host_memory(r)) return MPI_ERR_NO_MEM;
  const bool is_again = r->started;
  r->started = true;
  rc = is_again && gc_mutant(203) ? MPI_SUCCESS : gcm_load_data(&r->data, r->host, r->data.place.bytes);
  if (rc != MPI_SUCCESS) return rc;
  return gcm_pml.pml_isend(r->host, r->data.place.bytes, gcm_bytes_type(), route->peer, route->tag, asked_mode(route),
                           route->comm, &r->inner);
}
