/* Receives into host memory: they go to the PML as they came. Only where one has brought an envelope of a message of
 * device memory, the message is taken from there, and the receive ends when its data are there.
 *
 * A nonblocking receive stays the PML's request. A callback looks at it when it ends, and a function of ours frees it:
 * a program may free it before it ends, and the message is received all the same. */
#include "base/mutant.h"
#include "mca/pt2pt/message_requests.h"
#include "mca/pt2pt/pt2pt.h"

static int make(void *buffer, size_t count, gcm_type *type, const gcm_route *route, bool persistent,
                ompi_request_t **request) {
  return gcm_make_message(buffer, count, type, false, route, true, persistent, request);
}

_Thread_local bool gcm_in_callback;
bool gcm_pml_delivers_cut_messages, gcm_pml_may_overrun;
static bool ob1_runs; /* its requests say where they receive to */

void gcm_look_at_pml(void) {
  const char *const name = mca_pml_base_selected_component.pmlm_version.mca_component_name;
  gcm_pml_delivers_cut_messages = ob1_runs = strcmp(name, "ob1") == 0;
  gcm_pml_may_overrun = strcmp(name, "ucx") != 0 && strcmp(name, "cm") != 0;
}

/* Where a receive of the PML's receives to. */
typedef struct target {
  void *buffer;
  size_t count;
  gcm_type *type;
  ompi_communicator_t *comm;
  bool matched; /* by a probe */
} target;

/* Returns whether a receive that has ended may have brought an envelope: by its size, and by how its data begin, where
 * that is easy to tell. */
static GCM_INLINE bool may_have_envelope(const void *buffer, const gcm_type *type, const ompi_status_public_t *status,
                                         int rc) {
  if (GCM_LIKELY(!gcm_may_be_envelope(status->_ucount))) return false;
  if (status->_ucount == GC_ENVELOPE_BYTES || rc != MPI_SUCCESS) return true; /* or it was noted, or is cut off */
  if ((type->super.flags & OPAL_DATATYPE_FLAG_NO_GAPS) != OPAL_DATATYPE_FLAG_NO_GAPS) return true;
  const uint8_t *first = gcm_address(buffer, type->super.true_lb);
  return first[0] == GC_ENVELOPE_MAGIC_0 && first[1] == GC_ENVELOPE_MAGIC_1;
}

/* Returns a request that receives what the envelope was for, or NULL where there was none. */
static GCM_NOINLINE gcm_message_request *find_message(const target *t, const ompi_status_public_t *status) {
  gcm_message_data data;
  if (status->_cancelled) return NULL;
  if (gcm_describe_data(&data, t->buffer, t->count, t->type, false) != MPI_SUCCESS) return NULL;
  return gcm_find_envelope(&data, t->comm, status, t->matched);
}

/* ---- blocking ones ---- */

/* Ends a receive that the PML has ended with `rc`, and that may have brought an envelope. */
static GCM_NOINLINE int receive_message(const target *t, int rc, const ompi_status_public_t *found,
                                        ompi_status_public_t *status) {
  ompi_status_public_t ended = *found;
  ended.MPI_ERROR = rc;
  gcm_message_request *r = find_message(t, &ended);
  if (r == NULL) return rc;
  ompi_request_t *request = &r->super.req_ompi;
  gcm_watch_message(r);
  return gcm_wait(&request, status);
}

/* Receives by a request, where the PML would keep an envelope to itself. */
static GCM_NOINLINE int receive_by_request(const target *t, int from, int tag, ompi_message_t **message,
                                           ompi_status_public_t *status) {
  ompi_request_t *request;
  const gcm_route route = {.peer = from, .tag = tag, .comm = t->comm, .message = message};
  const int made = make(t->buffer, t->count, t->type, &route, false, &request);
  return made != MPI_SUCCESS ? made : gcm_wait(&request, status);
}

int gcm_recv_host(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                  ompi_status_public_t *status) {
  if (!gcm_is_of_program(tag)) return gcm_pml.pml_recv(buffer, count, type, from, tag, comm, status);
  if (!ob1_runs && gcm_pml_loses_envelope(count * type->super.size)) {
    return receive_by_request(&(target){buffer, count, type, comm, false}, from, tag, NULL, status);
  }
  ompi_status_public_t mine, *const found = status != MPI_STATUS_IGNORE ? status : &mine;
  found->_ucount = 0;
  const int rc = gcm_pml.pml_recv(buffer, count, type, from, tag, comm, found);
  if (GCM_LIKELY(!may_have_envelope(buffer, type, found, rc))) return rc;
  return receive_message(&(target){buffer, count, type, comm, false}, rc, found, status);
}

int gcm_mrecv_host(void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_status_public_t *status) {
  const target t = {buffer, count, type, (*message)->comm, true};
  if (gcm_pml_loses_envelope(count * type->super.size)) return receive_by_request(&t, 0, 0, message, status);
  ompi_status_public_t mine, *const found = status != MPI_STATUS_IGNORE ? status : &mine;
  found->_ucount = 0;
  const int rc = gcm_pml.pml_mrecv(buffer, count, type, message, found);
  return GCM_LIKELY(!may_have_envelope(buffer, type, found, rc)) ? rc : receive_message(&t, rc, found, status);
}

/* ---- nonblocking ones ---- */

/* Keeps what is known of a receive of the PML's until it is freed. Requests of ob1 tell their target themselves: there
 * is no record of it. */
typedef struct record {
  target target;
  ompi_request_free_fn_t free; /* the PML's */
  void *state;
} record;

/* One function each for all receives of ob1's: any thread stores what it finds in a new one. */
static ompi_request_free_fn_t free_of_ob1;
static ompi_request_start_fn_t start_of_ob1;

static GCM_INLINE ompi_request_free_fn_t get_free_of_ob1(void) {
  return __atomic_load_n(&free_of_ob1, __ATOMIC_RELAXED);
}
static ompi_request_start_fn_t get_start_of_ob1(void) { return __atomic_load_n(&start_of_ob1, __ATOMIC_RELAXED); }

static record *record_of(const ompi_request_t *receive) { return receive->req_complete_cb_data; }

/* States of a receive. NULL: it is posted; one of these; the receive itself: it has ended, or is about to; else the
 * request of ours that takes its message. */
static char matched_before, being_looked_at, left_by_program;

static bool is_posted(const void *state) { return state == NULL || state == &matched_before; }

/* REQUIRES: gcm_list_lock for what it leads to. */
static void **state_of(ompi_request_t *receive) {
  return ob1_runs ? &receive->req_complete_cb_data : &record_of(receive)->state;
}

static target target_of(const ompi_request_t *receive) {
  if (!ob1_runs) return record_of(receive)->target;
  const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)receive;
  const bool matched = receive->req_complete_cb_data == &matched_before;
  return (target){base->req_addr, base->req_count, base->req_datatype, base->req_comm, matched};
}

/* The program may free the type and the communicator before the receive ends. */
static bool keep_record(ompi_request_t *receive, const target *t) {
  record *kept = malloc(sizeof *kept);
  if (kept == NULL) return false;
  *kept = (record){.target = *t, .free = receive->req_free};
  OBJ_RETAIN(t->comm);
  if (!ompi_datatype_is_predefined(t->type)) OBJ_RETAIN(t->type);
  receive->req_complete_cb_data = kept;
  return true;
}

static ompi_request_free_fn_t let_record_go(ompi_request_t *receive) {
  record *kept = record_of(receive);
  const ompi_request_free_fn_t free_of_pml = kept->free;
  if (!ompi_datatype_is_predefined(kept->target.type)) OBJ_RELEASE(kept->target.type);
  OBJ_RELEASE(kept->target.comm);
  free(kept);
  return free_of_pml;
}

static GCM_INLINE int give_back(ompi_request_t **request) {
  ompi_request_t *receive = *request;
  receive->req_free = GCM_LIKELY(ob1_runs) ? get_free_of_ob1() : let_record_go(receive);
  if (!ob1_runs) receive->req_complete_cb_data = NULL; /* other PMLs use it for requests of their own */
  return receive->req_free(request);
}

/* Frees a receive that has not ended: a request of ours, which nobody waits for, ends it. */
static GCM_NOINLINE int let_go(ompi_request_t **request) {
  ompi_request_t *receive = *request;
  void **state = state_of(receive);
  opal_mutex_lock(&gcm_list_lock);
  while (*state == &being_looked_at) { /* by another thread */
    opal_mutex_unlock(&gcm_list_lock);
    opal_mutex_lock(&gcm_list_lock);
  }
  const target t = target_of(receive);
  void *const was = *state;
  if (is_posted(was)) *state = &left_by_program;
  if (!is_posted(was) && was != receive) gcm_leave_message(was);
  opal_mutex_unlock(&gcm_list_lock);
  if (is_posted(was)) {
    *request = MPI_REQUEST_NULL;
    return gcm_adopt_receive(t.buffer, t.count, t.type, t.comm, t.matched, receive);
  }
  if (was == receive) gcm_await_completion(receive);
  return give_back(request);
}

static int free_receive(ompi_request_t **request) {
  return GCM_LIKELY(gcm_is_complete(*request)) ? give_back(request) : let_go(request);
}

static GCM_NOINLINE int free_persistent(ompi_request_t **request) {
  (*request)->req_start = get_start_of_ob1();
  return free_receive(request);
}

/* Has the message of an envelope taken; 1: the receive must not end yet. */
static GCM_NOINLINE int look_for_message(ompi_request_t *receive) {
  void **state = state_of(receive);
  opal_mutex_lock(&gcm_list_lock);
  const target t = target_of(receive);
  const bool stays = is_posted(*state);
  if (stays) *state = &being_looked_at;
  opal_mutex_unlock(&gcm_list_lock);
  if (!stays) return 0;
  gcm_in_callback = true;
  gcm_message_request *r = find_message(&t, &receive->req_status);
  gcm_in_callback = false;
  if (r != NULL) {
    gcm_stand_for(r, receive, state);
    return 1;
  }
  opal_mutex_lock(&gcm_list_lock);
  *state = receive;
  opal_mutex_unlock(&gcm_list_lock);
  return 0;
}

static GCM_INLINE bool ob1_may_have_envelope(const ompi_request_t *receive) {
  const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)receive;
  return may_have_envelope(base->req_addr, base->req_datatype, &receive->req_status, receive->req_status.MPI_ERROR);
}

/* The PML is about to complete a receive; 1: it does not. */
static int on_receive(ompi_request_t *receive) {
  if (GCM_LIKELY(!gcm_may_be_envelope(receive->req_status._ucount))) return 0;
  return GCM_LIKELY(ob1_runs && !ob1_may_have_envelope(receive)) ? 0 : look_for_message(receive);
}

static GCM_INLINE void watch_ob1(ompi_request_t *receive) {
  __atomic_store_n(&free_of_ob1, receive->req_free, __ATOMIC_RELAXED);
  receive->req_free = free_receive;
  receive->req_complete_cb = on_receive;
}

static GCM_NOINLINE int watch_other(ompi_request_t *receive, const target *t) {
  if (!keep_record(receive, t)) return MPI_ERR_NO_MEM;
  receive->req_free = free_receive;
  receive->req_complete_cb = on_receive;
  return MPI_SUCCESS;
}

/* Receives the message of a receive that has ended already, if it brought an envelope. */
static GCM_NOINLINE int replace_ended(ompi_request_t **request, const target *t) {
  ompi_request_t *receive = *request;
  gcm_message_request *r = find_message(t, &receive->req_status);
  if (r == NULL) return MPI_SUCCESS;
  (void)ompi_request_free(&receive);
  *request = &r->super.req_ompi;
  gcm_watch_message(r);
  return MPI_SUCCESS;
}

/* Has a receive of the PML's, which may have ended by now, looked at when it ends. */
static GCM_NOINLINE int look_at_end(ompi_request_t **request, const target *t) {
  ompi_request_t *receive = *request;
  if (gcm_is_complete(receive)) {
    const ompi_status_public_t *const found = &receive->req_status;
    return may_have_envelope(t->buffer, t->type, found, found->MPI_ERROR) ? replace_ended(request, t) : MPI_SUCCESS;
  }
  if (!ob1_runs) return watch_other(receive, t);
  if (t->matched) receive->req_complete_cb_data = &matched_before;
  watch_ob1(receive);
  return MPI_SUCCESS;
}

/* With several threads another one may complete a request before it can be told whom to call. */
static GCM_INLINE bool can_look_at_end(size_t count, const gcm_type *type) {
  return !opal_using_threads() && !gcm_pml_loses_envelope(count * type->super.size);
}

/* Makes a receive of ob1's that is told whom to call before it is started: so no other thread completes it first. */
static int make_watched(const target *t, int from, int tag, ompi_request_t **request) {
  const int rc = gcm_pml.pml_irecv_init(t->buffer, t->count, t->type, from, tag, t->comm, request);
  if (rc == MPI_SUCCESS) watch_ob1(*request);
  return rc;
}

static GCM_NOINLINE int start_new(const target *t, int from, int tag, ompi_request_t **request) {
  int rc = make_watched(t, from, tag, request);
  if (rc != MPI_SUCCESS) return rc;
  (*request)->req_persistent = false;
  rc = gcm_pml.pml_start(1, request);
  if (rc != MPI_SUCCESS) (void)ompi_request_free(request);
  return rc;
}

/* Other components of Open MPI, such as osc/pt2pt, give a persistent receive a callback of their own before they start
 * it, and send each other no device memory: the receive is the PML's alone from then on. */
static bool is_taken_over(const ompi_request_t *receive) {
  return receive->req_complete_cb != NULL && receive->req_complete_cb != on_receive && !gc_mutant(370);
}

int gcm_start_receives(size_t count, ompi_request_t **receives) {
  for (size_t i = 0; i < count; i++) {
    if (is_taken_over(receives[i])) {
      receives[i]->req_free = get_free_of_ob1();
      receives[i]->req_start = get_start_of_ob1();
    } else {
      receives[i]->req_complete_cb_data = NULL;
      receives[i]->req_complete_cb = on_receive;
    }
  }
  return gcm_pml.pml_start(count, receives);
}

static GCM_NOINLINE int replace_ended_of_ob1(ompi_request_t **request) {
  const target t = target_of(*request);
  return replace_ended(request, &t);
}

static GCM_NOINLINE int irecv_otherwise(void *buffer, size_t count, gcm_type *type, int from, int tag,
                                        ompi_communicator_t *comm, ompi_request_t **request) {
  const target t = {buffer, count, type, comm, false};
  if (ob1_runs) return start_new(&t, from, tag, request);
  if (can_look_at_end(count, type)) {
    const int rc = gcm_pml.pml_irecv(buffer, count, type, from, tag, comm, request);
    return rc != MPI_SUCCESS ? rc : look_at_end(request, &t);
  }
  const gcm_route route = {.peer = from, .tag = tag, .comm = comm};
  return make(buffer, count, type, &route, false, request);
}

/* ob1 with one thread has no more to do than must be. */
int gcm_irecv_host(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                   ompi_request_t **request) {
  if (!gcm_is_of_program(tag)) return gcm_pml.pml_irecv(buffer, count, type, from, tag, comm, request);
  if (!ob1_runs || opal_using_threads()) return irecv_otherwise(buffer, count, type, from, tag, comm, request);
  const int rc = gcm_pml.pml_irecv(buffer, count, type, from, tag, comm, request);
  if (rc != MPI_SUCCESS) return rc;
  ompi_request_t *receive = *request;
  if (!gcm_is_complete(receive)) {
    watch_ob1(receive);
    return MPI_SUCCESS;
  }
  return GCM_LIKELY(!ob1_may_have_envelope(receive)) ? MPI_SUCCESS : replace_ended_of_ob1(request);
}

int gcm_imrecv_host(void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_request_t **request) {
  if (!gcm_may_be_envelope((*message)->count)) return gcm_pml.pml_imrecv(buffer, count, type, message, request);
  if (GCM_LIKELY(can_look_at_end(count, type))) {
    const target t = {buffer, count, type, (*message)->comm, true};
    const int rc = gcm_pml.pml_imrecv(buffer, count, type, message, request);
    return rc != MPI_SUCCESS ? rc : look_at_end(request, &t);
  }
  const gcm_route route = {.comm = (*message)->comm, .message = message};
  return make(buffer, count, type, &route, false, request);
}

int gcm_irecv_init_host(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                        ompi_request_t **request) {
  if (!gcm_is_of_program(tag)) return gcm_pml.pml_irecv_init(buffer, count, type, from, tag, comm, request);
  if (ob1_runs) {
    const int rc = make_watched(&(target){buffer, count, type, comm, false}, from, tag, request);
    if (rc != MPI_SUCCESS) return rc;
    (*request)->req_free = free_persistent;
    __atomic_store_n(&start_of_ob1, (*request)->req_start, __ATOMIC_RELAXED);
    (*request)->req_start = gcm_start_receives;
    return MPI_SUCCESS;
  }
  const gcm_route route = {.peer = from, .tag = tag, .comm = comm};
  return make(buffer, count, type, &route, true, request);
}
