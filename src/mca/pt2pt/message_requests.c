#include "mca/pt2pt/message_requests.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/mutant.h"
#include "mca/pt2pt/message_traces.h"
#include "mca/pt2pt/notes.h"
#include "mca/pt2pt/pt2pt.h"
#include "mca/pt2pt/staged_receives.h"

opal_mutex_t gcm_list_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_message_request *under_way, **under_way_end = &under_way;
static atomic_int n_under_way; /* as a look without the lock */
static bool progress_registered;

static int progress(void);
static gcm_type *bytes_type(void) { return (gcm_type *)MPI_BYTE; }

static void *or_complain(void *memory, size_t bytes) {
  char line[160];
  if (memory != NULL) return memory;
  snprintf(line, sizeof line,
           "this rank has no %zu bytes of host memory left to carry a message of device memory: use smaller messages",
           bytes);
  gcm_abi->log(-1, line);
  return NULL;
}

void *gcm_host_memory(size_t bytes) { return or_complain(gcm_abi->stage_get(bytes), bytes); }

/* An envelope has room in it, too. */
static size_t host_bytes(const gcm_message_request *r) {
  const size_t bytes = r->data.place.bytes;
  return gcm_pt2pt != NULL && bytes < GC_ENVELOPE_BYTES ? GC_ENVELOPE_BYTES : bytes;
}

static bool take_host_memory(gcm_message_request *r) {
  const size_t bytes = host_bytes(r);
  if (r->host == NULL) {
    r->host = or_complain(r->receives ? gcm_abi->stage_reserve(bytes) : gcm_abi->stage_get(bytes), bytes);
  }
  return r->host != NULL;
}

/* ---- envelopes ---- */

/* Open MPI's own messages have tags that no program can give. */
static bool may_be_offered(int tag) { return gcm_pt2pt != NULL && tag >= 0; }

static const gc_process_blob *blob_of(ompi_communicator_t *comm, int rank) {
  return gcm_process_blob_of(ompi_comm_peer_lookup(comm, rank));
}

static gc_message_key key_of(ompi_communicator_t *comm, int tag) {
  return (gc_message_key){.context = gcm_context_id(comm), .tag = tag};
}

bool gcm_correct_probe(ompi_communicator_t *comm, ompi_status_public_t *status, bool matched, bool again) {
  if (status->_ucount != GC_ENVELOPE_BYTES || !may_be_offered(status->MPI_TAG)) return true;
  const gc_message_key key = key_of(comm, status->MPI_TAG);
  const gc_process_blob *from = blob_of(comm, status->MPI_SOURCE);
  (void)progress(); /* what the PML has given to receives is no longer to be found */
  const gcm_note_key noted = {comm, status->MPI_SOURCE, status->MPI_TAG, matched};
  const size_t bytes = gcm_pt2pt->least_in_pieces(from) != 0 ? gcm_look_at_notes(&noted, again)
                                                             : gcm_pt2pt->probed(from, &key, matched, again);
  if (bytes != 0) status->_ucount = bytes;
  return bytes != 0;
}

void gcm_note_message(ompi_communicator_t *comm, int to, int tag) {
  if (!may_be_offered(tag)) return;
  const gc_message_key key = key_of(comm, tag);
  const gc_process_blob *blob = blob_of(comm, to);
  if (gcm_pt2pt->least_in_pieces(blob) != 0) {
    gcm_send_plain_note(comm, to, tag);
  } else {
    gcm_pt2pt->note(blob, &key);
  }
}

/* Host memory with gaps, and memory of both kinds, take what comes by host memory of ours. */
static bool receives_aside(const gcm_message_request *r) {
  return r->data.place.on_device ? r->data.place.map != NULL && r->data.mixed : r->data.has_gaps;
}

/* Returns whether the PML receives into host memory of ours: for the device, and where there is no room for an envelope
 * and a PML may keep to itself what it cuts off. */
static bool receives_by_host(const gcm_message_request *r) {
  return r->data.place.on_device || gcm_pml_loses_envelope(r->data.place.bytes);
}

/* Takes the message of an envelope. */
static void take_message(gcm_message_request *r, const gc_process_blob *from) {
  gc_message_data target = r->data.place;
  size_t bytes = 0;
  const bool no_memory = receives_aside(r) && !take_host_memory(r);
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
    const bool has_memory = take_host_memory(r);
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
  if (!gcm_may_be_envelope(bytes) || !may_be_offered(r->status.MPI_TAG)) return false;
  const bool cut = r->rc == MPI_ERR_TRUNCATE && room < bytes;
  if (r->rc != MPI_SUCCESS && !cut) return false;
  const gc_process_blob *from = blob_of(r->route.comm, r->status.MPI_SOURCE);
  const gc_message_key key = key_of(r->route.comm, r->status.MPI_TAG);
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

static mca_pml_base_send_mode_t asked_mode(const gcm_route *route) {
  const bool changes = route->mode == MCA_PML_BASE_SEND_SYNCHRONOUS && gc_mutant(202);
  return changes ? MCA_PML_BASE_SEND_STANDARD : route->mode;
}

static gc_send_mode mode_of(mca_pml_base_send_mode_t mode) {
  switch (mode) {
    case MCA_PML_BASE_SEND_SYNCHRONOUS: return GC_SEND_SYNCHRONOUS;
    case MCA_PML_BASE_SEND_BUFFERED: return GC_SEND_BUFFERED;
    default: return GC_SEND_STANDARD;
  }
}

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

/* Announces a send to a process of another node that goes in pieces. Returns GC_STAGE where it does not. */
static int announce_pieces(gcm_message_request *r) {
  const gcm_route *route = &r->route;
  if (!may_be_offered(route->tag) || !r->data.place.on_device || r->data.mixed) return GC_STAGE;
  if (route->mode == MCA_PML_BASE_SEND_BUFFERED) return GC_STAGE;
  if (!gcm_go_in_pieces(route->comm, blob_of(route->comm, route->peer), r->data.place.bytes)) return GC_STAGE;
  const gcm_pieces_route to = {.comm = route->comm, .peer = route->peer, .tag = route->tag};
  return gcm_offer_pieces(&to, &r->data.place, &r->envelope, &r->pieces);
}

/* Offers a send to its receiver. Returns GC_STAGE or GC_STAGE_BECAUSE() where the PML must carry the data. */
static int offer_message(gcm_message_request *r) {
  const gcm_route *route = &r->route;
  if (!may_be_offered(route->tag)) return GC_STAGE;
  const gc_message_key key = key_of(route->comm, route->tag);
  int rc = GC_STAGE;
  if (!r->data.mixed && r->data.place.on_device) {
    rc = gcm_pt2pt->offer(blob_of(route->comm, route->peer), &key, &r->data.place, mode_of(asked_mode(route)),
                          &r->envelope, &r->transfer);
  }
  if (rc <= GC_STAGE && r->data.place.bytes == GC_ENVELOPE_BYTES) {
    gcm_note_message(route->comm, route->peer, route->tag);
  }
  return rc;
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

/* Takes an offer back that its receiver will not see. */
static void withdraw(gcm_message_request *r) {
  size_t bytes;
  if (r->transfer != NULL) (void)gcm_pt2pt->end(r->transfer);
  if (r->pieces != NULL) (void)gcm_end_pieces(r->pieces, &bytes);
  r->transfer = NULL;
  r->pieces = NULL;
}

/* Ends the PML's request, which is complete, and brings what it received to where it belongs. */
static void end_inner(gcm_message_request *r) {
  const bool by_host = receives_by_host(r);
  r->status = ompi_status_empty;
  r->rc = gcm_wait(&r->inner, &r->status);
  if (!r->receives && r->rc != MPI_SUCCESS) withdraw(r);
  if (!r->receives || r->status._cancelled) return;
  uint8_t packed[GC_ENVELOPE_BYTES] = {0};
  if (!by_host && gcm_pt2pt != NULL && gcm_may_be_envelope(r->status._ucount))
    (void)gcm_load_data(&r->data, packed, r->status._ucount);
  if (!look_for_envelope(r, by_host ? r->host : packed) && by_host) store_received(r);
}

static void end_transfer(gcm_message_request *r) {
  int rc = gcm_pt2pt->end(r->transfer);
  r->transfer = NULL;
  if (rc == MPI_SUCCESS && r->receives && receives_aside(r)) rc = gcm_store_data(&r->data, r->host, r->status._ucount);
  if (r->rc == MPI_SUCCESS) r->rc = rc;
}

static void end_pieces(gcm_message_request *r) {
  const size_t room = r->data.place.bytes;
  size_t bytes = 0;
  int rc = gcm_end_pieces(r->pieces, &bytes);
  r->pieces = NULL;
  if (r->receives && r->rc == MPI_SUCCESS && rc == MPI_SUCCESS) {
    r->status._ucount = bytes < room ? bytes : room;
    if (receives_aside(r)) rc = gcm_store_data(&r->data, r->host, r->status._ucount);
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
    opal_progress_register(progress);
    progress_registered = true;
  }
  r->next = NULL;
  r->listed = true;
  r->straight = r->straight || r->transfer != NULL || r->pieces != NULL;
  *under_way_end = r;
  under_way_end = &r->next;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
}

static void put_under_way(gcm_message_request *r) {
  opal_mutex_lock(&gcm_list_lock);
  put_in_list(r);
  opal_mutex_unlock(&gcm_list_lock);
}

static bool has_inner(const gcm_message_request *r) { return r->inner != NULL && r->inner != MPI_REQUEST_NULL; }

/* Returns whether there is something to do for the request outside of the lock. */
static bool is_ready(gcm_message_request *r) {
  if (r->cancelling != 0) return false;
  if (has_inner(r)) return gcm_is_complete(r->inner);
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
  if (has_inner(r)) {
    end_inner(r);
    if (r->transfer != NULL || r->pieces != NULL) {
      put_under_way(r);
      return;
    }
  } else if (r->pieces != NULL) {
    end_pieces(r);
  } else if (r->transfer != NULL) {
    end_transfer(r);
  }
  end(r);
}

static int progress(void) {
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
  if (progress_registered) opal_progress_unregister(progress);
  progress_registered = false;
  gcm_forget_bounded_types();
}

/* ---- beginning ---- */

static opal_mutex_t order_lock = OPAL_MUTEX_STATIC_INIT;
static _Thread_local int times_locked; /* by this thread */

void gcm_lock_order(void) {
  if (times_locked++ == 0) OPAL_THREAD_LOCK(&order_lock);
}

void gcm_unlock_order(void) {
  if (--times_locked == 0) OPAL_THREAD_UNLOCK(&order_lock);
}

/* A small envelope tells a receiver with very little room nothing, so the PML tells when it has matched that. Of others
 * the receiver ends the wait. */
static mca_pml_base_send_mode_t envelope_mode(const gcm_message_request *r) {
  const mca_pml_base_send_mode_t mode = asked_mode(&r->route);
  const bool waits = mode == MCA_PML_BASE_SEND_SYNCHRONOUS && r->data.place.bytes >= GC_ENVELOPE_BYTES;
  return waits ? MCA_PML_BASE_SEND_STANDARD : mode;
}

static int send_envelope(gcm_message_request *r) {
  const gcm_route *route = &r->route;
  const mca_pml_base_send_mode_t mode = envelope_mode(r);
  int rc = announce_pieces(r);
  if (rc <= GC_STAGE) rc = offer_message(r);
  if (rc == MPI_SUCCESS) {
    const size_t bytes = r->data.place.bytes;
    rc = gcm_pml.pml_isend(r->envelope.bytes, bytes < GC_ENVELOPE_BYTES ? bytes : GC_ENVELOPE_BYTES, bytes_type(),
                           route->peer, route->tag, mode, route->comm, &r->inner);
  }
  return rc;
}

/* REQUIRES: the order is locked. */
static int begin_send(gcm_message_request *r) {
  const gcm_route *route = &r->route;
  int rc = send_envelope(r);
  if (rc > GC_STAGE) return rc;
  if (!r->data.place.on_device) {
    return gcm_pml.pml_isend(r->data.buffer, r->data.count, r->data.type, route->peer, route->tag, route->mode,
                             route->comm, &r->inner);
  }
  r->slow = why_slow(r, rc);
  if (!take_host_memory(r)) return MPI_ERR_NO_MEM;
  const bool is_again = r->started;
  r->started = true;
  rc = is_again && gc_mutant(203) ? MPI_SUCCESS : gcm_load_data(&r->data, r->host, r->data.place.bytes);
  if (rc != MPI_SUCCESS) return rc;
  return gcm_pml.pml_isend(r->host, r->data.place.bytes, bytes_type(), route->peer, route->tag, asked_mode(route),
                           route->comm, &r->inner);
}

static int post(gcm_message_request *r, void *buffer, size_t count, gcm_type *type) {
  const gcm_route *route = &r->route;
  if (route->message != NULL) return gcm_pml.pml_imrecv(buffer, count, type, route->message, &r->inner);
  return gcm_pml.pml_irecv(buffer, count, type, route->peer, route->tag, route->comm, &r->inner);
}

static int begin_receive(gcm_message_request *r) {
  if (!receives_by_host(r)) return post(r, r->data.buffer, r->data.count, r->data.type);
  if (!take_host_memory(r)) return MPI_ERR_NO_MEM;
  if (!gcm_pml_may_overrun) return post(r, r->host, host_bytes(r), bytes_type());
  gcm_type *type = gcm_bounded_type(host_bytes(r));
  if (type == NULL) return MPI_ERR_NO_MEM;
  const int rc = post(r, r->host, 1, type);
  OBJ_RELEASE(type);
  return rc;
}

int gcm_begin_message(gcm_message_request *r) {
  r->ended = false;
  r->rc = MPI_SUCCESS;
  r->slow = GC_CAUSE_none;
  r->straight = false;
  gcm_trace_begin(r);
  if (!r->receives) gcm_lock_order();
  const int rc = r->receives ? begin_receive(r) : begin_send(r);
  if (!r->receives) gcm_unlock_order();
  if (r->slow != GC_CAUSE_none) gcm_tell_slow_message(&r->route, r->slow);
  if (rc != MPI_SUCCESS) {
    withdraw(r);
    r->rc = rc;
    gcm_trace_end(r, NULL);
    return rc;
  }
  r->super.req_ompi.req_state = OMPI_REQUEST_ACTIVE;
  put_under_way(r);
  return MPI_SUCCESS;
}

gcm_message_request *gcm_find_envelope(const gcm_message_data *data, ompi_communicator_t *comm,
                                       const ompi_status_public_t *status, bool matched) {
  uint8_t packed[GC_ENVELOPE_BYTES] = {0};
  const gcm_route route = {.peer = status->MPI_SOURCE, .tag = status->MPI_TAG, .comm = comm};
  /* Where an envelope was cut off, its slot is the first of those that are left. */
  if (status->MPI_ERROR == MPI_ERR_TRUNCATE) (void)progress();
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

void gcm_watch_message(gcm_message_request *r) { put_under_way(r); }

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
  put_under_way(r);
  return MPI_SUCCESS;
}

/* ---- what MPI asks of a request ---- */

static int start_one(gcm_message_request *r) {
  ompi_request_t *outer = &r->super.req_ompi;
  outer->req_complete = REQUEST_PENDING;
  outer->req_status = ompi_status_empty;
  const int rc = gcm_begin_message(r);
  if (rc != MPI_SUCCESS) outer->req_complete = REQUEST_COMPLETED;
  return rc;
}

int gcm_start_messages(size_t count, ompi_request_t **requests) {
  int rc = MPI_SUCCESS;
  for (size_t i = 0; i < count && rc == MPI_SUCCESS; i++) rc = start_one((gcm_message_request *)requests[i]);
  return rc;
}

static int request_free(ompi_request_t **request) {
  gcm_message_request *r = (gcm_message_request *)*request;
  *request = MPI_REQUEST_NULL;
  opal_mutex_lock(&gcm_list_lock);
  const bool under_way_now = r->super.req_ompi.req_state == OMPI_REQUEST_ACTIVE && !r->ended;
  if (under_way_now) r->detached = true;
  opal_mutex_unlock(&gcm_list_lock);
  if (under_way_now) return OMPI_SUCCESS;
  gcm_await_completion(&r->super.req_ompi);
  gcm_message_request_release(r);
  return OMPI_SUCCESS;
}

/* The PML's request tells, when it ends, whether it was cancelled. What is offered cannot be. */
static int request_cancel(ompi_request_t *request, int flag) {
  (void)flag;
  gcm_message_request *r = (gcm_message_request *)request;
  opal_mutex_lock(&gcm_list_lock);
  const bool can = r->listed && has_inner(r) && r->transfer == NULL && r->pieces == NULL;
  if (can) r->cancelling++; /* so that nobody frees the PML's request */
  opal_mutex_unlock(&gcm_list_lock);
  if (!can) return OMPI_SUCCESS;
  const int rc = ompi_request_cancel(r->inner); /* may make progress, and end other receives */
  opal_mutex_lock(&gcm_list_lock);
  r->cancelling--;
  opal_mutex_unlock(&gcm_list_lock);
  return rc;
}

/* ---- making and releasing them ---- */

static void request_construct(gcm_message_request *r) {
  ompi_request_t *outer = &r->super.req_ompi;
  outer->req_type = OMPI_REQUEST_PML;
  outer->req_free = request_free;
  outer->req_cancel = request_cancel;
  outer->req_start = gcm_start_messages;
  outer->req_status = ompi_status_empty;
  r->inner = MPI_REQUEST_NULL;
  r->transfer = NULL;
  r->pieces = NULL;
  r->stands_for = NULL;
  r->host = NULL;
  r->next = NULL;
  r->started = r->straight = r->listed = r->ended = r->detached = false;
  r->traced = (gc_traced){0, 0};
  r->cancelling = 0;
}
OBJ_CLASS_INSTANCE(gcm_message_request, mca_pml_base_request_t, request_construct, NULL);

gcm_message_request *gcm_message_request_new(const gcm_message_data *data, const gcm_route *route, bool receives,
                                             bool persistent) {
  gcm_message_request *r = OBJ_NEW(gcm_message_request);
  if (r == NULL) {
    gcm_abi->log(-1, "this rank has no memory left for a request");
    return NULL;
  }
  OMPI_REQUEST_INIT(&r->super.req_ompi, persistent);
  r->super.req_ompi.req_mpi_object.comm = route->comm;
  r->super.req_type = receives ? MCA_PML_REQUEST_RECV : MCA_PML_REQUEST_SEND;
  r->super.req_comm = route->comm;
  r->super.req_datatype = data->type;
  r->data = *data;
  r->route = *route;
  r->receives = receives;
  r->matched = route->message != NULL;
  OBJ_RETAIN(route->comm);
  if (!ompi_datatype_is_predefined(data->type)) OBJ_RETAIN(data->type);
  return r;
}

void gcm_message_request_release(gcm_message_request *r) {
  ompi_communicator_t *comm = r->route.comm;
  gcm_type *type = r->data.type;
  withdraw(r);
  if (r->host != NULL) gcm_abi->stage_put(r->host);
  OMPI_REQUEST_FINI(&r->super.req_ompi);
  OBJ_RELEASE(r);
  if (!ompi_datatype_is_predefined(type)) OBJ_RELEASE(type);
  OBJ_RELEASE(comm);
}

int gcm_make_message(const void *buffer, size_t count, gcm_type *type, bool on_device, const gcm_route *route,
                     bool receives, bool persistent, ompi_request_t **request) {
  gcm_message_data data;
  int rc = gcm_describe_data(&data, buffer, count, type, on_device);
  if (rc != MPI_SUCCESS) return rc;
  gcm_message_request *r = gcm_message_request_new(&data, route, receives, persistent);
  if (r == NULL) return MPI_ERR_NO_MEM;
  if (!persistent) rc = gcm_begin_message(r);
  if (rc != MPI_SUCCESS) {
    gcm_message_request_release(r);
    return rc;
  }
  *request = &r->super.req_ompi;
  return MPI_SUCCESS;
}
