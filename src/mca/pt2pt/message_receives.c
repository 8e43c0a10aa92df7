/* Receives: where the PML puts what comes, whether that is an envelope, and how its message is taken. */
#include "base/mutant.h"
#include "mca/pt2pt/message_steps.h"
#include "mca/pt2pt/notes.h"
#include "mca/pt2pt/pt2pt.h"
#include "mca/pt2pt/staged_receives.h"

/* Host memory with gaps, and memory of both kinds, take what comes by host memory of ours. */
static bool receives_aside(const gcm_message_request *r) {
  return r->data.place.on_device ? r->data.place.map != NULL && r->data.mixed : r->data.has_gaps;
}

/* Returns whether the PML receives into host memory of ours: for the device, and where there is no room for an envelope
 * and a PML may keep to itself what it cuts off. */
static bool receives_by_host(const gcm_message_request *r) {
  return r->data.place.on_device || gcm_pml_loses_envelope(r->data.place.bytes);
}

/* ---- beginning ---- */

static int post(gcm_message_request *r, void *buffer, size_t count, gcm_type *type) {
  const gcm_route *route = &r->route;
  if (route->message != NULL) return gcm_pml.pml_imrecv(buffer, count, type, route->message, &r->inner);
  return gcm_pml.pml_irecv(buffer, count, type, route->peer, route->tag, route->comm, &r->inner);
}

int gcm_begin_receive(gcm_message_request *r) {
  if (!receives_by_host(r)) return post(r, r->data.buffer, r->data.count, r->data.type);
  if (!gcm_take_host_memory(r)) return MPI_ERR_NO_MEM;
  if (!gcm_pml_may_overrun) return post(r, r->host, gcm_host_bytes(r), gcm_bytes_type());
  gcm_type *type = gcm_bounded_type(gcm_host_bytes(r));
  if (type == NULL) return MPI_ERR_NO_MEM;
  const int rc = post(r, r->host, 1, type);
  OBJ_RELEASE(type);
  return rc;
}

/* ---- envelopes ---- */

/* Takes the message of an envelope. */
static void take_message(gcm_message_request *r, const gc_process_blob *from) {
  gc_message_data target = r->data.place;
  size_t bytes = 0;
  const bool no_memory = receives_aside(r) && !gcm_take_host_memory(r);
  if (receives_aside(r)) target = (gc_message_data){.memory = r->host, .bytes = target.bytes};
  if (no_memory) target.bytes = 0; /* the sender's wait must end */
  r->rc = gcm_pt2pt->take(from, &r->envelope, &target, &bytes, &r->transfer);
  r->status._ucount = bytes < target.bytes ? bytes : target.bytes;
  if (r->rc == MPI_SUCCESS && bytes > target.bytes) r->rc = no_memory ? MPI_ERR_NO_MEM : MPI_ERR_TRUNCATE;
}

/* Receives, in pieces, the message whose envelope has come; cut: what came of that had no room. */
static void receive_pieces(gcm_message_request *r, gcm_note_name name, bool cut) {
  gc_message_data target = r->data.place;
  if (cut) target.bytes = 0;
  if (!cut && receives_aside(r)) {
    const bool has_memory = gcm_take_host_memory(r);
    target = (gc_message_data){.memory = r->host, .bytes = has_memory ? target.bytes : 0};
    if (!has_memory) r->rc = MPI_ERR_NO_MEM; /* the sender's wait must end */
  }
  const gcm_pieces_route route = {r->route.comm, r->status.MPI_SOURCE, r->status.MPI_TAG, r->matched};
  r->pieces = gcm_take_pieces(&route, name, &target);
  if (r->pieces == NULL) r->rc = MPI_ERR_NO_MEM;
}

/* Does as look_for_envelope() for what has come from another node, of the size of an envelope. */
static bool look_for_pieces(gcm_message_request *r, const gc_process_blob *from, bool cut) {
  const size_t room = r->data.place.bytes, n = cut ? room : GC_ENVELOPE_BYTES;
  const gcm_note_key key = {r->route.comm, r->status.MPI_SOURCE, r->status.MPI_TAG, r->matched};
  gcm_note_name name = {0, 0};
  if (n < GC_LEAST_ENVELOPE_BYTES || gcm_pt2pt->names_pieces(from, &r->envelope, n, &name.serial, &name.mask)) {
    receive_pieces(r, name, cut);
    return true;
  }
  gcm_take_plain_note(&key);
  return false;
}

/* Looks whether a receive that the PML has ended brought an envelope, of which `packed` has the first bytes, and takes
 * its message then. Returns whether it did. */
static bool look_for_envelope(gcm_message_request *r, const void *packed) {
  const size_t room = r->data.place.bytes, bytes = r->status._ucount;
  if (!gcm_may_be_envelope(bytes) || !gcm_may_be_offered(r->status.MPI_TAG)) return false;
  const bool cut = r->rc == MPI_ERR_TRUNCATE && room < bytes;
  if (r->rc != MPI_SUCCESS && !cut) return false;
  const gc_process_blob *from = gcm_blob_of(r->route.comm, r->status.MPI_SOURCE);
  const gc_message_key key = gcm_key_of(r->route.comm, r->status.MPI_TAG);
  if (gcm_pt2pt->least_in_pieces(from) != 0) {
    if (bytes != GC_ENVELOPE_BYTES) return false;
    memcpy(r->envelope.bytes, packed, cut ? room : bytes);
    return look_for_pieces(r, from, cut);
  }
  memset(r->envelope.bytes, 0, sizeof r->envelope.bytes);
  if (cut && (bytes == GC_ENVELOPE_BYTES || (room < GC_LEAST_ENVELOPE_BYTES && !gc_mutant(468)))) {
    memcpy(r->envelope.bytes, packed, room);
    gcm_pt2pt->cut_off(from, &key, &r->envelope, room, bytes, r->matched);
    return false;
  }
  memcpy(r->envelope.bytes, packed, cut ? room : bytes);
  const int is_envelope = gcm_pt2pt->is_envelope(from, &key, &r->envelope, bytes);
  if (is_envelope > 0) take_message(r, from);
  if (is_envelope < 0) r->rc = MPI_ERR_OTHER;
  if (is_envelope == 0 && bytes == GC_ENVELOPE_BYTES) gcm_pt2pt->noted_came(from, &key, r->matched);
  return is_envelope != 0;
}

gcm_message_request *gcm_find_envelope(const gcm_message_data *data, ompi_communicator_t *comm,
                                       const ompi_status_public_t *status, bool matched) {
  uint8_t packed[GC_ENVELOPE_BYTES] = {0};
  const gcm_route route = {.peer = status->MPI_SOURCE, .tag = status->MPI_TAG, .comm = comm};
  /* Where an envelope was cut off, its slot is the first of those that are left. */
  if (status->MPI_ERROR == MPI_ERR_TRUNCATE) (void)gcm_progress_messages();
  gcm_message_request *r = gcm_message_request_new(data, &route, true, false);
  if (r == NULL) return NULL;
  r->matched = matched;
  r->status = *status;
  r->rc = status->MPI_ERROR;
  (void)gcm_load_data(data, packed, status->_ucount);
  if (look_for_envelope(r, packed) && (r->transfer != NULL || r->pieces != NULL || r->rc != status->MPI_ERROR)) {
    r->super.req_ompi.req_state = OMPI_REQUEST_ACTIVE;
    return r;
  }
  gcm_message_request_release(r);
  return NULL;
}

bool gcm_correct_probe(ompi_communicator_t *comm, ompi_status_public_t *status, bool matched, bool again) {
  if (status->_ucount != GC_ENVELOPE_BYTES || !gcm_may_be_offered(status->MPI_TAG)) return true;
  const gc_message_key key = gcm_key_of(comm, status->MPI_TAG);
  const gc_process_blob *from = gcm_blob_of(comm, status->MPI_SOURCE);
  (void)gcm_progress_messages(); /* what the PML has given to receives is no longer to be found */
  const gcm_note_key noted = {comm, status->MPI_SOURCE, status->MPI_TAG, matched};
  const size_t bytes = gcm_pt2pt->least_in_pieces(from) != 0 ? gcm_look_at_notes(&noted, again)
                                                             : gcm_pt2pt->probed(from, &key, matched, again);
  if (bytes != 0) status->_ucount = bytes;
  return bytes != 0;
}

/* ---- the ends ---- */

/* Stores what the PML has received into host memory of ours. */
static void store_received(gcm_message_request *r) {
  const size_t room = r->data.place.bytes;
  if (r->rc == MPI_SUCCESS && r->status._ucount > room) {
    r->rc = MPI_ERR_TRUNCATE;
    r->status._ucount = room;
  }
  if (r->rc != MPI_SUCCESS && r->rc != MPI_ERR_TRUNCATE) return;
  const size_t came = gc_mutant(200) ? room : r->status._ucount;
  const int stored = gcm_store_data(&r->data, r->host, came);
  if (r->rc == MPI_SUCCESS) r->rc = stored;
}

void gcm_end_receive(gcm_message_request *r) {
  const bool by_host = receives_by_host(r);
  uint8_t packed[GC_ENVELOPE_BYTES] = {0};
  if (!by_host && gcm_pt2pt != NULL && gcm_may_be_envelope(r->status._ucount))
    (void)gcm_load_data(&r->data, packed, r->status._ucount);
  if (!look_for_envelope(r, by_host ? r->host : packed) && by_host) store_received(r);
}

int gcm_store_aside(gcm_message_request *r) {
  return receives_aside(r) ? gcm_store_data(&r->data, r->host, r->status._ucount) : MPI_SUCCESS;
}
