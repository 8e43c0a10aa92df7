#include "mca/osc/window_targets.h"

#include <stdio.h>

#include "base/mutant.h"
#include "mca/pt2pt/pt2pt.h"

static bool changes_at_once(const gcm_incoming *in) {
  return in->header.verb == GCM_ACCUMULATE || in->header.verb == GCM_GET_ACCUMULATE || in->header.verb == GCM_SWAP;
}
static bool is_lock(const gcm_incoming *in) { return in->header.verb == GCM_LOCK; }
/* Returns whether the origin sends data behind the header. */
static bool brings_data(const gcm_incoming *in) {
  const uint32_t verb = in->header.verb;
  return verb == GCM_PUT || verb == GCM_ACCUMULATE ||
         (verb == GCM_GET_ACCUMULATE && in->header.op != MPI_NO_OP->o_f_to_c_index);
}

/* ---- what an operation holds ---- */

static void release(gcm_incoming *in) {
  if (in->type != NULL && !ompi_datatype_is_predefined(in->type)) OBJ_RELEASE(in->type);
  if (in->packed != NULL) gcm_abi->stage_put(in->packed);
  if (in->old != NULL) gcm_abi->stage_put(in->old);
  free(in->description);
  free(in);
}

static void complain(const gcm_incoming *in, const char *why) {
  char line[320];
  snprintf(line, sizeof line, "a one-sided operation of rank %d of %s on this rank failed: %s", in->origin,
           in->window->name, why);
  gcm_abi->log(-1, line);
}

static void fail(gcm_incoming *in, int rc, const char *why) {
  if (in->answer.rc != MPI_SUCCESS) return;
  in->answer.rc = rc;
  complain(in, why);
}

/* ---- the steps ---- */

static gcm_window_data at_place(gcm_incoming *in) {
  return (gcm_window_data){gcm_place_of(in), (size_t)in->header.count, in->type};
}
static gcm_window_data bytes_at(void *memory, size_t bytes) {
  return (gcm_window_data){memory, bytes, gcm_bytes_type()};
}

/* Returns what the origin waits for: data, none where the operation has failed, or the answer. */
static gcm_window_data reply_of(gcm_incoming *in) {
  const bool fails = in->answer.rc != MPI_SUCCESS;
  switch (in->header.verb) {
    case GCM_GET: return fails ? bytes_at(NULL, 0) : at_place(in);
    case GCM_GET_ACCUMULATE:
    case GCM_SWAP: return fails ? bytes_at(NULL, 0) : bytes_at(in->old, in->bytes);
    default: return bytes_at(&in->answer, sizeof in->answer);
  }
}

static int send_reply(gcm_incoming *in) {
  const gcm_window_data data = reply_of(in);
  return mca_pml.pml_isend(data.buffer, data.count, data.type, in->origin, in->header.tag + GCM_TAG_OF_REPLY,
                           MCA_PML_BASE_SEND_STANDARD, in->window->comm, &in->moving);
}

/* The origin waits for the reply, so what fails is told by it. */
static void reply(gcm_incoming *in) {
  in->state = GCM_REPLYING;
  int rc = send_reply(in);
  if (rc != MPI_SUCCESS && in->answer.rc == MPI_SUCCESS) {
    fail(in, rc, "this process could not send its data");
    rc = send_reply(in);
  }
  if (rc == MPI_SUCCESS) return;
  complain(in, "Open MPI's own transport refused the reply");
  in->moving = NULL;
}

static void end_data(gcm_incoming *in) {
  in->state = GCM_WAITING;
  if (!changes_at_once(in)) reply(in);
}

/* Data of an accumulate wait in memory of ours for their turn. */
static void take_memory(gcm_incoming *in) {
  if (in->answer.rc != MPI_SUCCESS || !changes_at_once(in)) return;
  in->packed = gcm_abi->stage_get(in->bytes);
  if (in->packed == NULL) fail(in, MPI_ERR_NO_MEM, "no host memory is left for its data; use smaller ones");
}

/* Returns where the data go: nowhere where the operation has failed. */
static gcm_window_data room_of(gcm_incoming *in) {
  if (in->answer.rc != MPI_SUCCESS) return bytes_at(NULL, 0);
  if (changes_at_once(in)) return bytes_at(in->packed, in->bytes);
  return gc_mutant(519) ? bytes_at(gcm_place_of(in), in->bytes) : at_place(in);
}

static int receive_data(gcm_incoming *in) {
  const gcm_window_data room = room_of(in);
  return mca_pml.pml_irecv(room.buffer, room.count, room.type, in->origin, in->header.tag + GCM_TAG_OF_DATA,
                           in->window->comm, &in->moving);
}

static void begin_data(gcm_incoming *in) {
  if (!brings_data(in)) {
    end_data(in);
    return;
  }
  in->state = GCM_RECEIVING;
  take_memory(in);
  int rc = receive_data(in);
  if (rc != MPI_SUCCESS && in->answer.rc == MPI_SUCCESS) {
    fail(in, rc, "this process could not receive its data");
    rc = receive_data(in); /* into nothing: the origin's send must end */
  }
  if (rc == MPI_SUCCESS) return;
  in->moving = NULL;
  end_data(in);
}

/* The type's description is here. */
static void make_type(gcm_incoming *in) {
  void *description = in->description != NULL ? in->description : in->header.room;
  in->type =
      ompi_datatype_create_from_packed_description(&description, ompi_comm_peer_lookup(in->window->comm, in->origin));
  if (in->type == NULL)
    fail(in, MPI_ERR_TYPE,
         "this process cannot make the type that its target buffer has; use one of MPI's other constructors");
  else
    in->bytes = (size_t)in->header.count * in->type->super.size;
  begin_data(in);
}

static void begin(gcm_incoming *in) {
  const uint32_t bytes = in->header.type_bytes;
  if (is_lock(in)) {
    in->state = GCM_WAITING;
  } else if (bytes <= GCM_HEADER_ROOM) {
    make_type(in);
  } else {
    in->state = GCM_DESCRIBING;
    const int rc = gcm_pml.pml_irecv(in->description, bytes, gcm_bytes_type(), in->origin,
                                     in->header.tag + GCM_TAG_OF_TYPE, in->window->comm, &in->moving);
    if (rc == MPI_SUCCESS) return;
    in->moving = NULL;
    fail(in, rc, "this process could not receive its type");
  }
}

/* Returns whether the lock has been taken. */
static bool take_lock(gcm_device_window *w, const gcm_incoming *in) {
  if (!gc_mutant(520) && (w->is_exclusive || (in->header.exclusive && w->n_shared > 0))) return false;
  if (in->header.exclusive)
    w->is_exclusive = true;
  else
    w->n_shared++;
  return true;
}

/* The turn of an operation has come. */
static void take_turn(gcm_incoming *in) {
  if (is_lock(in)) {
    if (take_lock(in->window, in)) reply(in);
    return;
  }
  if (in->answer.rc == MPI_SUCCESS) {
    const int rc = gcm_apply(in);
    if (rc != MPI_SUCCESS) fail(in, rc, "this process could not read or change its memory");
  }
  reply(in);
}

/* Ends what is with the PML. Returns false while it is under way. */
static bool end_moving(gcm_incoming *in) {
  if (in->moving == NULL) return true;
  if (!gcm_is_complete(in->moving)) return false;
  const bool is_cut = in->answer.rc != MPI_SUCCESS;
  const int rc = gcm_wait(&in->moving, MPI_STATUS_IGNORE);
  in->moving = NULL;
  if (rc != MPI_SUCCESS && !is_cut) fail(in, rc, "Open MPI's own transport could not move its data");
  return true;
}

/* Goes one step on. Returns whether it could. */
static bool go_on(gcm_incoming *in, bool has_turn) {
  if (!end_moving(in)) return false;
  switch (in->state) {
    case GCM_DESCRIBING:
      if (in->answer.rc == MPI_SUCCESS)
        make_type(in);
      else
        begin_data(in);
      return true;
    case GCM_RECEIVING: end_data(in); return true;
    case GCM_WAITING:
      if (has_turn) take_turn(in);
      return in->state != GCM_WAITING;
    case GCM_REPLYING: in->state = GCM_DONE; return true;
    default: return false;
  }
}

/* Goes on with all operations. Those that change memory at once take their turns in the order in which they came, and
 * so do locks. */
static int go_on_with_all(gcm_device_window *w) {
  bool may_change = true, may_lock = true;
  int steps = 0;
  for (gcm_incoming **link = &w->incoming; *link != NULL;) {
    gcm_incoming *in = *link;
    bool *turn = is_lock(in) ? &may_lock : &may_change;
    while (go_on(in, *turn || gc_mutant(518))) steps++;
    if ((is_lock(in) || changes_at_once(in)) && in->state < GCM_REPLYING) *turn = false;
    if (in->state != GCM_DONE) {
      link = &in->next;
      continue;
    }
    *link = in->next;
    if (w->incoming_end == &in->next) w->incoming_end = link;
    release(in);
  }
  return steps;
}

/* ---- headers ---- */

static int post_slot(gcm_device_window *w, gcm_header_slot *slot) {
  const int rc = gcm_pml.pml_irecv(&slot->header, sizeof slot->header, gcm_bytes_type(), MPI_ANY_SOURCE, GCM_TAG_HEADER,
                                   w->comm, &slot->receiving);
  if (rc == MPI_SUCCESS) w->n_receiving++;
  return rc;
}

/* Returns false where there is no memory for the operation: it is tried again. */
static bool add(gcm_device_window *w, const gcm_header_slot *slot) {
  gcm_incoming *in = calloc(1, sizeof *in);
  const uint32_t bytes = slot->header.type_bytes;
  if (in == NULL) return false;
  if (bytes > GCM_HEADER_ROOM) in->description = malloc(bytes);
  if (bytes > GCM_HEADER_ROOM && in->description == NULL) {
    free(in);
    return false;
  }
  in->window = w;
  in->origin = slot->origin;
  in->header = slot->header;
  in->answer.rc = MPI_SUCCESS;
  *w->incoming_end = in;
  w->incoming_end = &in->next;
  begin(in);
  return true;
}

/* Acts on a header, which may also be one of synchronisation. */
static bool take_header(gcm_device_window *w, const gcm_header_slot *slot) {
  switch (slot->header.verb) {
    case GCM_UNLOCK:
      if (slot->header.exclusive)
        w->is_exclusive = false;
      else
        w->n_shared--;
      return true;
    case GCM_POST: atomic_fetch_add_explicit(&w->posts[slot->origin], 1, memory_order_release); return true;
    case GCM_COMPLETE: atomic_fetch_add_explicit(&w->completes[slot->origin], 1, memory_order_release); return true;
    case GCM_END: return true;
    default: return add(w, slot);
  }
}

/* No more operations of others are taken: whoever waits for this window here must not wait for ever. */
static void stop_receiving(gcm_device_window *w) {
  char line[320];
  snprintf(line, sizeof line,
           "a window on %s cannot be used any more: Open MPI's own transport receives nothing for it", w->name);
  gcm_break_window(w, line);
}

/* Returns whether the slot has a header. */
static bool has_come(gcm_device_window *w, gcm_header_slot *slot) {
  if (slot->has_come) return true;
  if (slot->receiving == NULL || !gcm_is_complete(slot->receiving)) return false;
  ompi_status_public_t status = ompi_status_empty;
  const int rc = gcm_wait(&slot->receiving, &status);
  slot->receiving = NULL;
  w->n_receiving--;
  slot->origin = status.MPI_SOURCE;
  slot->has_come = rc == MPI_SUCCESS;
  if (rc != MPI_SUCCESS) stop_receiving(w);
  return slot->has_come;
}

/* Takes the headers that have come, in the order of the slots, which is that of the PML. */
static int take_headers(gcm_device_window *w) {
  int taken = 0;
  for (;; taken++) {
    gcm_header_slot *slot = &w->slots[w->next_slot];
    if (!has_come(w, slot) || !take_header(w, slot)) return taken;
    slot->has_come = false;
    w->next_slot = (w->next_slot + 1) % GCM_HEADER_SLOTS;
    if (slot->header.verb != GCM_END && post_slot(w, slot) != MPI_SUCCESS) stop_receiving(w);
  }
}

int gcm_serve_window(gcm_device_window *w) {
  const int taken = take_headers(w);
  const int steps = w->incoming != NULL ? go_on_with_all(w) : 0;
  if (w->n_receiving == 0 && w->incoming == NULL) atomic_store_explicit(&w->is_quiet, true, memory_order_release);
  return taken + steps;
}

int gcm_open_target(gcm_device_window *w) {
  int rc = MPI_SUCCESS;
  for (int i = 0; i < GCM_HEADER_SLOTS && rc == MPI_SUCCESS; i++) rc = post_slot(w, &w->slots[i]);
  return rc;
}

void gcm_forget_target(gcm_device_window *w) {
  while (w->incoming != NULL) {
    gcm_incoming *in = w->incoming;
    w->incoming = in->next;
    release(in);
  }
}
