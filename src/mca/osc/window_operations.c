/* The origin's side of operations. Each has a request of ours, which completes when the target has done it: the program
 * has that of MPI_Rput and the like, and nobody the others. */
#include <stdio.h>

#include "base/mutant.h"
#include "mca/osc/device_windows.h"
#include "mca/osc/operations.h"
#include "mca/pt2pt/message_data.h"
#include "mca/pt2pt/pt2pt.h"

enum { kHeader, kType, kData, kReply }; /* places among the inner requests */

typedef struct operation {
  gcm_outer_request super;
  gcm_device_window *window;
  int target;
  unsigned looks; /* for the end of the target, by MPI_Wait and the like */
  bool lost;
  gcm_type *type;  /* of the target, until its description is sent; NULL: no reference */
  size_t expected; /* bytes of the reply */
  gcm_window_answer answer;
  gcm_window_header header;
} operation;

static void construct(operation *o) {
  o->window = NULL;
  o->looks = 0;
  o->lost = false;
  o->type = NULL;
  o->expected = 0;
  o->answer.rc = MPI_SUCCESS;
}
static void destruct(operation *o) {
  if (o->type != NULL) OBJ_RELEASE(o->type);
}
static OBJ_CLASS_INSTANCE(operation, gcm_outer_request, construct, destruct);

/* Returns whether it is an operation of MPI's, which synchronisation waits for. */
static bool is_access(const operation *o) { return o->header.verb < GCM_LOCK; }

/* ---- the end ---- */

static void complain(const operation *o, const char *why) {
  char line[320];
  snprintf(line, sizeof line, "a one-sided operation on rank %d of %s failed: %s", o->target, o->window->name, why);
  gcm_abi->log(-1, line);
}

/* Returns whether the target has ended: then what the program waits for by its request ends, too. */
static bool is_lost(gcm_outer_request *r) {
  enum { kLooks = 1024 };
  operation *o = (operation *)r;
  if (++o->looks % kLooks == 0 && !gc_mutant(531)) o->lost = gcm_has_lost_rank(o->window, o->target);
  return o->lost;
}

/* Ends the inner requests. Returns the class of the first failure. */
static int end_inner(operation *o) {
  int first = MPI_SUCCESS;
  for (int i = 0; i < GCM_MOST_INNER; i++) {
    ompi_request_t **inner = &o->super.inner[i];
    ompi_status_public_t status = ompi_status_empty;
    if (*inner == MPI_REQUEST_NULL) continue;
    const int rc = gcm_wait(inner, &status);
    if (first == MPI_SUCCESS) first = rc;
    if (i == kReply && rc == MPI_SUCCESS && status._ucount != o->expected && first == MPI_SUCCESS)
      first = MPI_ERR_OTHER;
  }
  return first;
}

static int result_of(operation *o) {
  if (o->lost) {
    OBJ_RETAIN(o); /* the PML may go on using its memory */
    return MPI_ERR_OTHER;
  }
  const int rc = end_inner(o);
  if (rc != MPI_SUCCESS) complain(o, "Open MPI's own transport or the target could not move its data");
  if (rc == MPI_SUCCESS && o->answer.rc != MPI_SUCCESS)
    complain(o, "the target could not do it: see what that rank has written");
  return rc != MPI_SUCCESS ? rc : o->answer.rc;
}

/* The window may be gone once nothing is counted any more. */
static void end(gcm_outer_request *r) {
  operation *o = (operation *)r;
  gcm_device_window *w = o->window;
  const int rc = result_of(o);
  int none = MPI_SUCCESS;
  r->super.req_ompi.req_status.MPI_ERROR = rc;
  if (rc != MPI_SUCCESS && r->detached) atomic_compare_exchange_strong(&w->failed, &none, rc);
  if (is_access(o)) {
    atomic_fetch_sub_explicit(&w->under_way[o->target], 1, memory_order_release);
    atomic_fetch_sub_explicit(&w->n_operations, 1, memory_order_release);
  }
  atomic_fetch_sub_explicit(&w->n_messages, 1, memory_order_release);
}

/* ---- the beginning ---- */

static bool has_room(gcm_device_window *w, const void *argument) {
  enum { kMost = 4096 };
  (void)argument;
  return atomic_load_explicit(&w->n_messages, memory_order_relaxed) < kMost;
}

/* Returns the first tag of an operation. One that comes again is long done, or they are matched in their order. */
static int next_tag(gcm_device_window *w) {
  const unsigned most = (unsigned)mca_pml.pml_max_tag / GCM_TAGS - 1;
  return (int)(1 + atomic_fetch_add_explicit(&w->tags, 1, memory_order_relaxed) % most) * GCM_TAGS;
}

static operation *new_operation(gcm_device_window *w, gcm_window_verb verb, int target, bool has_request) {
  operation *o = OBJ_NEW(operation);
  if (o == NULL) return NULL;
  gcm_outer_init(&o->super, OMPI_REQUEST_WIN);
  o->super.end = end;
  o->super.detached = !has_request;
  o->window = w;
  o->target = target;
  o->header.verb = verb;
  o->header.tag = next_tag(w);
  o->header.count = o->header.op = o->header.exclusive = 0;
  o->header.at = 0;
  o->header.type_bytes = 0;
  return o;
}

static void put_under_way(operation *o) {
  gcm_device_window *w = o->window;
  atomic_fetch_add_explicit(&w->n_messages, 1, memory_order_relaxed);
  if (is_access(o)) {
    atomic_fetch_add_explicit(&w->n_operations, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->under_way[o->target], 1, memory_order_relaxed);
  }
  gcm_outer_begun(&o->super);
}

static bool has_sent(const operation *o) {
  ompi_request_t *const *inner = o->super.inner;
  return inner[kHeader] != MPI_REQUEST_NULL || inner[kType] != MPI_REQUEST_NULL || inner[kData] != MPI_REQUEST_NULL;
}

/* Ends an operation that could not begin. Where the PML has some of its messages, nobody knows what the target does. Of
 * a receive alone nobody else knows. */
static int give_up(operation *o, int rc) {
  ompi_request_t **reply = &o->super.inner[kReply];
  if (has_sent(o)) {
    atomic_store(&o->window->is_broken, true);
    return rc;
  }
  if (*reply != MPI_REQUEST_NULL) {
    (void)ompi_request_cancel(*reply);
    (void)gcm_wait(reply, MPI_STATUS_IGNORE);
  }
  gcm_outer_release(&o->super);
  return rc;
}

static int send_header(operation *o, size_t bytes_of_room, mca_pml_base_send_mode_t mode) {
  return gcm_pml.pml_isend(&o->header, offsetof(gcm_window_header, room) + bytes_of_room, gcm_bytes_type(), o->target,
                           GCM_TAG_HEADER, mode, o->window->comm, &o->super.inner[kHeader]);
}

static int receive_answer(operation *o) {
  o->expected = sizeof o->answer;
  return gcm_pml.pml_irecv(&o->answer, sizeof o->answer, gcm_bytes_type(), o->target, o->header.tag + GCM_TAG_OF_REPLY,
                           o->window->comm, &o->super.inner[kReply]);
}

int gcm_tell(gcm_device_window *w, gcm_window_verb verb, int target, bool exclusive, ompi_request_t **answered) {
  gcm_watch_rank(w, target);
  operation *o = new_operation(w, verb, target, answered != NULL);
  if (o == NULL) return gcm_no_memory_for_operation();
  o->header.exclusive = exclusive;
  /* Nobody waits for the end of GCM_UNLOCK but who frees the window. */
  int rc = send_header(o, 0, verb == GCM_UNLOCK ? MCA_PML_BASE_SEND_SYNCHRONOUS : MCA_PML_BASE_SEND_STANDARD);
  if (rc == MPI_SUCCESS && answered != NULL) rc = receive_answer(o);
  if (rc != MPI_SUCCESS) return give_up(o, rc);
  if (answered != NULL) *answered = &o->super.super.req_ompi;
  put_under_way(o);
  return MPI_SUCCESS;
}

/* ---- accesses ---- */

/* Writes the target's type into the header. Where it does not fit, *rest is to be sent. */
static int describe_type(operation *o, gcm_type *type, const void **rest) {
  const void *description = NULL;
  if (ompi_datatype_get_pack_description(type, &description) != OMPI_SUCCESS) return MPI_ERR_TYPE;
  const size_t bytes = ompi_datatype_pack_description_length(type);
  o->header.type_bytes = (uint32_t)bytes;
  *rest = NULL;
  if (bytes <= GCM_HEADER_ROOM) {
    memcpy(o->header.room, description, bytes);
    return MPI_SUCCESS;
  }
  *rest = description;
  o->type = type;
  OBJ_RETAIN(type);
  return MPI_SUCCESS;
}

/* Packs one element of any memory. */
static int load_element(const void *element, gcm_type *type, void *packed) {
  gcm_message_data data;
  const int rc = gcm_describe_data(&data, element, 1, type, gcm_is_device_message(element, 1, type));
  return rc != MPI_SUCCESS ? rc : gcm_load_data(&data, packed, type->super.size);
}

static int load_elements(operation *o, const gcm_operation_call *call) {
  uint8_t *elements = o->header.room + gcm_elements_at(&o->header);
  const int rc = load_element(call->compared, call->type, elements);
  return rc != MPI_SUCCESS ? rc : load_element(call->origin.buffer, call->type, elements + call->type->super.size);
}

/* Fills in the header, and stores how much of its room goes. */
static int fill_header(operation *o, const gcm_operation_call *call, const void **rest, size_t *bytes_of_room) {
  gcm_window_header *h = &o->header;
  h->at = call->at * o->window->parts[gc_mutant(522) ? ompi_comm_rank(o->window->comm) : call->target].unit;
  h->count = call->count;
  h->op = call->op != NULL ? call->op->o_f_to_c_index : 0;
  const int rc = describe_type(o, call->type, rest);
  *bytes_of_room = *rest == NULL ? h->type_bytes : 0;
  if (rc != MPI_SUCCESS || call->verb != GCM_SWAP) return rc;
  *bytes_of_room = gcm_elements_at(h) + 2 * call->type->super.size;
  return load_elements(o, call);
}

static int receive_reply(operation *o, const gcm_operation_call *call) {
  const gcm_window_data *result = &call->result;
  if (result->type == NULL) return receive_answer(o);
  o->expected = (size_t)call->count * call->type->super.size;
  return mca_pml.pml_irecv(result->buffer, result->count, result->type, o->target, o->header.tag + GCM_TAG_OF_REPLY,
                           o->window->comm, &o->super.inner[kReply]);
}

/* Sends what belongs to the header. */
static int send_rest(operation *o, const gcm_operation_call *call, const void *rest) {
  ompi_communicator_t *comm = o->window->comm;
  const gcm_window_data *origin = &call->origin;
  int rc = MPI_SUCCESS;
  if (rest != NULL)
    rc = gcm_pml.pml_isend(rest, o->header.type_bytes, gcm_bytes_type(), o->target, o->header.tag + GCM_TAG_OF_TYPE,
                           MCA_PML_BASE_SEND_STANDARD, comm, &o->super.inner[kType]);
  if (rc == MPI_SUCCESS && origin->type != NULL && call->verb != GCM_SWAP)
    rc = mca_pml.pml_isend(origin->buffer, origin->count, origin->type, o->target, o->header.tag + GCM_TAG_OF_DATA,
                           MCA_PML_BASE_SEND_STANDARD, comm, &o->super.inner[kData]);
  return rc;
}

static int begin(operation *o, const gcm_operation_call *call) {
  const void *rest = NULL;
  size_t bytes_of_room = 0;
  int rc = fill_header(o, call, &rest, &bytes_of_room);
  if (rc == MPI_SUCCESS) rc = receive_reply(o, call);
  if (rc == MPI_SUCCESS) rc = send_rest(o, call, rest);
  /* Last, as the target waits for all the rest once it has it. */
  return rc == MPI_SUCCESS ? send_header(o, bytes_of_room, MCA_PML_BASE_SEND_STANDARD) : rc;
}

int gcm_begin_operation(const ompi_win_t *win, const gcm_operation_call *call, ompi_request_t **request) {
  gcm_device_window *w = gcm_window_of(win);
  gcm_watch_rank(w, call->target);
  int rc = gcm_wait_for_window(w, has_room, NULL, NULL, w->n);
  if (rc != MPI_SUCCESS) return rc;
  operation *o = new_operation(w, call->verb, call->target, request != NULL);
  if (o == NULL) return gcm_no_memory_for_operation();
  o->super.super.req_ompi.req_mpi_object.win = (ompi_win_t *)(uintptr_t)win;
  rc = begin(o, call);
  if (rc != MPI_SUCCESS) return give_up(o, rc);
  if (request != NULL) {
    o->super.is_lost = is_lost;
    *request = &o->super.super.req_ompi;
  }
  put_under_way(o);
  return MPI_SUCCESS;
}
