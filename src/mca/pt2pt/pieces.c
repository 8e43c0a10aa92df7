#include "mca/pt2pt/pieces.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/mutant.h"
#include "mca/pt2pt/message_requests.h"
#include "mca/pt2pt/pt2pt.h"

/* A receiver sends this as its answer to an envelope. */
typedef struct answer {
  uint64_t serial; /* of the message's note */
  uint64_t bytes;  /* that go */
  uint64_t piece;  /* how many of them at a time */
} answer;

struct gcm_pieces {
  gcm_pieces_route route;
  gc_message_data place;
  bool sends, is_left; /* is_left: the caller has freed it, and nobody waits for it */
  gcm_note_name name;  /* of its note */
  gcm_note note;       /* of a receiver's */
  gcm_note_found noted;
  size_t bytes;        /* of the message */
  gc_pieces *engine;   /* NULL: there is nothing to move, or it could not begin */
  size_t n;            /* pieces */
  size_t given, moved; /* of them, to the PML and by it */
  ompi_request_t *with_pml[GC_PIECES_WINDOW];
  size_t lengths[GC_PIECES_WINDOW];
  answer reply;
  ompi_request_t *replying; /* NULL: no answer is being sent */
  int rc;
  atomic_bool ended; /* release: whoever sees it may free it */
  gcm_pieces *next;
};

/* The messages between this process and another one on one communicator, one way. */
typedef struct lane {
  ompi_communicator_t *comm;
  int peer;
  bool sends;
  gcm_pieces *announced; /* a sender's, without an answer; a receiver's, without a note */
  gcm_pieces *moving;    /* in the order of the answers */
  size_t with_pml;       /* pieces of them */
  answer came;
  bool holds_answer;         /* it is that of a message which is still to be admitted */
  ompi_request_t *answering; /* a sender's receive of an answer; NULL: none is posted */
  uint32_t looks;
  struct lane *next;
} lane;

static opal_mutex_t drive_lock =
    OPAL_MUTEX_STATIC_INIT; /* of the lanes; only tried: the PML makes progress meanwhile */
static lane *lanes;

static opal_mutex_t new_lock = OPAL_MUTEX_STATIC_INIT; /* of what follows; nothing is called while it is held */
static gcm_pieces *all_new, **all_new_end = &all_new;
static atomic_int n_alive; /* messages: as a look without a lock */

/* ---- lists ---- */

static void append(gcm_pieces **list, gcm_pieces *p) {
  while (*list != NULL) list = &(*list)->next;
  p->next = NULL;
  *list = p;
}

static void unlink_pieces(gcm_pieces **list, const gcm_pieces *p) {
  while (*list != p) list = &(*list)->next;
  *list = p->next;
}

/* REQUIRES: new_lock. Returns whether it was among the new ones. */
static bool take_new(const gcm_pieces *p) {
  gcm_pieces **link = &all_new;
  while (*link != NULL && *link != p) link = &(*link)->next;
  if (*link == NULL) return false;
  *link = p->next;
  if (all_new_end == &p->next) all_new_end = link;
  return true;
}

static void put_new(gcm_pieces *p) {
  atomic_fetch_add_explicit(&n_alive, 1, memory_order_relaxed);
  opal_mutex_lock(&new_lock);
  *all_new_end = p;
  all_new_end = &p->next;
  opal_mutex_unlock(&new_lock);
}

/* The end of a message: from here on it may be gone. */
static void finish(gcm_pieces *p) {
  atomic_fetch_sub_explicit(&n_alive, 1, memory_order_relaxed);
  opal_mutex_lock(&new_lock);
  const bool is_left = p->is_left;
  if (!is_left) atomic_store_explicit(&p->ended, true, memory_order_release);
  opal_mutex_unlock(&new_lock);
  if (is_left) free(p);
}

/* ---- sentences ---- */

static void complain(const gcm_pieces *p, const char *why) {
  char line[512];
  const char *name = p->route.comm->c_name;
  snprintf(line, sizeof line, "a message of %zu bytes %s rank %d of %s with tag %d failed: %s", p->bytes,
           p->sends ? "to" : "from", p->route.peer, name[0] != '\0' ? name : "a communicator without a name",
           p->route.tag, why);
  gcm_abi->log(-1, line);
}

static void fail(gcm_pieces *p, int rc, const char *why) {
  if (p->rc != MPI_SUCCESS) return;
  p->rc = rc;
  complain(p, why);
}

/* ---- one message ---- */

static gcm_pieces *new_pieces(const gcm_pieces_route *route, const gc_message_data *data, bool sends) {
  gcm_pieces *p = calloc(1, sizeof *p);
  if (p == NULL) {
    gcm_abi->log(-1, "this rank has no memory left for a message to or from another node");
    return NULL;
  }
  p->route = *route;
  p->place = *data;
  p->sends = sends;
  p->bytes = data->bytes;
  return p;
}

bool gcm_go_in_pieces(ompi_communicator_t *comm, const gc_process_blob *to, size_t bytes) {
#ifdef OMPI_COMM_CHECK_ASSERT_ALLOW_OVERTAKE
  if (OMPI_COMM_CHECK_ASSERT_ALLOW_OVERTAKE(comm)) return false; /* pieces must not */
#endif
  const size_t least = gcm_pt2pt->least_in_pieces(to);
  return least != 0 && bytes >= least;
}

int gcm_offer_pieces(const gcm_pieces_route *to, const gc_message_data *data, gc_envelope *envelope,
                     gcm_pieces **pieces) {
  gcm_pieces *p = new_pieces(to, data, true);
  if (p == NULL) return MPI_ERR_NO_MEM;
  const int rc = gcm_send_note(to->comm, to->peer, to->tag, data->bytes, &p->name.serial);
  if (rc != MPI_SUCCESS) {
    free(p);
    return rc;
  }
  gcm_pt2pt->name_pieces(p->name.serial, envelope);
  put_new(p);
  *pieces = p;
  return MPI_SUCCESS;
}

/* Returns whether it is known what message has come. */
static bool look_for_note(gcm_pieces *p, bool again) {
  const gcm_note_key key = {p->route.comm, p->route.peer, p->route.tag, p->route.matched};
  if (p->noted == GCM_NOTE_LATE) p->noted = gcm_take_note(&key, p->name, again, &p->note);
  return p->noted != GCM_NOTE_LATE;
}

/* Takes the note at once: a probe that follows must not find it. */
gcm_pieces *gcm_take_pieces(const gcm_pieces_route *from, gcm_note_name name, const gc_message_data *target) {
  gcm_pieces *p = new_pieces(from, target, false);
  if (p == NULL) return NULL;
  p->name = name;
  p->noted = GCM_NOTE_LATE;
  (void)look_for_note(p, false);
  put_new(p);
  return p;
}

bool gcm_pieces_ended(const gcm_pieces *p) { return atomic_load_explicit(&p->ended, memory_order_acquire); }

int gcm_end_pieces(gcm_pieces *p, size_t *bytes) {
  opal_mutex_lock(&new_lock);
  const bool is_new = take_new(p);
  const bool is_mine = is_new || atomic_load_explicit(&p->ended, memory_order_relaxed);
  p->is_left = !is_mine;
  opal_mutex_unlock(&new_lock);
  if (!is_mine) return MPI_SUCCESS; /* whoever drives it frees it */
  if (is_new) atomic_fetch_sub_explicit(&n_alive, 1, memory_order_relaxed);
  const int rc = p->rc;
  *bytes = p->bytes;
  free(p);
  return rc;
}

static bool is_left(gcm_pieces *p) {
  opal_mutex_lock(&new_lock);
  const bool left = p->is_left;
  opal_mutex_unlock(&new_lock);
  return left;
}

static void begin_moving(gcm_pieces *p, size_t bytes, size_t piece) {
  p->n = bytes / piece + (bytes % piece != 0);
  if (bytes == 0) return;
  const int rc = gcm_pt2pt->pieces_begin(&p->place, bytes, piece, p->sends, &p->engine);
  if (rc != MPI_SUCCESS) fail(p, rc, "this process could not begin it, as it says above");
}

/* Returns whether the next piece may go to the PML. One of a sender that could not begin is empty. */
static bool next_piece(gcm_pieces *p, void **memory, size_t *bytes) {
  if (p->given == p->n || p->given - p->moved == GC_PIECES_WINDOW) return false;
  if (p->engine != NULL) return gcm_pt2pt->pieces_next(p->engine, memory, bytes) != 0;
  *memory = &p->reply;
  *bytes = 0;
  return true;
}

/* Gives the PML one more piece. Returns whether there was one. */
static bool give_piece(lane *l, gcm_pieces *p) {
  void *memory = NULL;
  size_t bytes = 0;
  if (l->with_pml == GC_PIECES_WINDOW || !next_piece(p, &memory, &bytes)) return false;
  const size_t place = p->given++ % GC_PIECES_WINDOW;
  p->lengths[place] = bytes;
  l->with_pml++;
  const int rc = l->sends ? gcm_pml.pml_isend(memory, bytes, gcm_bytes_type(), l->peer, GCM_TAG_PIECE,
                                              MCA_PML_BASE_SEND_STANDARD, l->comm, &p->with_pml[place])
                          : gcm_pml.pml_irecv(memory, bytes, gcm_bytes_type(), l->peer, GCM_TAG_PIECE, l->comm,
                                              &p->with_pml[place]);
  if (rc != MPI_SUCCESS) {
    p->with_pml[place] = NULL;
    fail(p, rc, "Open MPI's own transport refused a piece of it");
  }
  return true;
}

/* Takes the oldest piece back, where the PML has moved it. */
static bool take_piece_back(lane *l, gcm_pieces *p) {
  if (p->moved == p->given) return false;
  const size_t place = p->moved % GC_PIECES_WINDOW;
  bool moves = p->with_pml[place] != NULL;
  if (moves) {
    if (!gcm_is_complete(p->with_pml[place])) return false;
    ompi_status_public_t status = ompi_status_empty;
    const int rc = gcm_wait(&p->with_pml[place], &status);
    moves = rc == MPI_SUCCESS && (p->sends || status._ucount == p->lengths[place]);
    if (rc != MPI_SUCCESS)
      fail(p, rc, "Open MPI's own transport could not move a piece of it");
    else if (!moves)
      fail(p, MPI_ERR_OTHER, "the sender could not send it: its own error says why");
  }
  p->moved++;
  l->with_pml--;
  if (p->engine != NULL) gcm_pt2pt->pieces_moved(p->engine, moves);
  return true;
}

/* Returns whether the message has ended, and frees what it has of the engine then. */
static bool has_ended(gcm_pieces *p) {
  if (p->moved < p->n) return false;
  if (p->replying != NULL) {
    if (!gcm_is_complete(p->replying)) return false;
    (void)gcm_wait(&p->replying, MPI_STATUS_IGNORE);
    p->replying = NULL;
  }
  if (p->engine == NULL) return true;
  if (!gcm_pt2pt->pieces_ended(p->engine)) return false;
  const int rc = gcm_pt2pt->pieces_end(p->engine, false);
  p->engine = NULL;
  if (rc != MPI_SUCCESS) fail(p, rc, "this process could not copy it, as it says above");
  return true;
}

/* Moves the messages of a lane, in their order: pieces of one are given after all of those before it. */
static int move_pieces(lane *l) {
  int moved = 0;
  bool may_give = true;
  for (gcm_pieces *p = l->moving, *next; p != NULL; p = next) {
    while (take_piece_back(l, p)) moved++;
    while (may_give && give_piece(l, p)) moved++;
    may_give = may_give && (p->given == p->n || gc_mutant(385));
    next = p->next;
    if (!has_ended(p)) continue;
    unlink_pieces(&l->moving, p);
    finish(p);
    moved++;
  }
  return moved;
}

/* ---- a sender's answers ---- */

static void forget_left(lane *l) {
  for (gcm_pieces *p = l->announced, *next; p != NULL; p = next) {
    next = p->next;
    if (!is_left(p)) continue;
    unlink_pieces(&l->announced, p);
    finish(p);
  }
}

/* Returns whether the message of the answer is there. */
static bool take_answer(lane *l) {
  gcm_pieces *p = l->announced;
  while (p != NULL && p->name.serial != l->came.serial) p = p->next;
  if (p == NULL) return false;
  unlink_pieces(&l->announced, p);
  append(&l->moving, p);
  const bool makes_sense = l->came.bytes <= p->bytes && l->came.piece != 0;
  if (makes_sense) begin_moving(p, l->came.bytes, l->came.piece);
  if (!makes_sense) fail(p, MPI_ERR_OTHER, "its receiver asks for more than it has");
  return true;
}

/* Another thread may have offered a message since new ones were admitted, and its answer be here: it waits until the
 * next time. Then, one without a message is that of one which was given up. */
static int look_for_answers(lane *l) {
  int came = 0;
  if (l->holds_answer) came += take_answer(l);
  l->holds_answer = false;
  forget_left(l);
  for (;;) {
    if (l->answering == NULL) {
      if (l->announced == NULL) return came;
      const int rc = gcm_pml.pml_irecv(&l->came, sizeof l->came, gcm_bytes_type(), l->peer, GCM_TAG_ANSWER, l->comm,
                                       &l->answering);
      if (rc != MPI_SUCCESS) l->answering = NULL;
      if (rc != MPI_SUCCESS) return came; /* it is tried again */
    }
    if (!gcm_is_complete(l->answering)) return came;
    const int rc = gcm_wait(&l->answering, MPI_STATUS_IGNORE);
    l->answering = NULL;
    if (rc != MPI_SUCCESS) return came; /* it is tried again */
    came++;
    l->holds_answer = !take_answer(l);
    if (l->holds_answer) return came;
  }
}

/* ---- a receiver's answers ---- */

static void send_answer(lane *l, gcm_pieces *p) {
  const int rc = gcm_pml.pml_isend(&p->reply, sizeof p->reply, gcm_bytes_type(), l->peer, GCM_TAG_ANSWER,
                                   MCA_PML_BASE_SEND_STANDARD, l->comm, &p->replying);
  if (rc == MPI_SUCCESS) return;
  p->replying = NULL;
  p->n = 0;
  if (p->engine != NULL) (void)gcm_pt2pt->pieces_end(p->engine, false);
  p->engine = NULL;
  fail(p, rc, "Open MPI's own transport refused the answer to its sender");
}

/* Answers the message of a note. */
static void answer_note(lane *l, gcm_pieces *p) {
  p->bytes = p->note.bytes;
  size_t wanted = p->place.bytes < p->bytes ? p->place.bytes : p->bytes;
  const size_t piece = gcm_pt2pt->piece_of(wanted);
  begin_moving(p, wanted, piece);
  if (p->rc != MPI_SUCCESS) wanted = p->n = 0;
  p->reply = (answer){p->note.serial, wanted, piece};
  send_answer(l, p);
}

/* Answers what has been noted. The PML has the note before the envelope, but need not keep their order. */
static int look_for_notes(lane *l) {
  int found = 0;
  for (gcm_pieces *p = l->announced, *next; p != NULL; p = next) {
    next = p->next;
    if (!look_for_note(p, true)) continue;
    found++;
    unlink_pieces(&l->announced, p);
    append(&l->moving, p);
    if (p->noted == GCM_NOTE_FOUND && !p->note.plain) answer_note(l, p);
    if (p->noted == GCM_NOTE_NONE && p->name.mask != 0)
      fail(p, MPI_ERR_NO_MEM, "this process has no memory left for it");
  }
  return found;
}

/* ---- a process that has ended ---- */

static void let_go(ompi_request_t **request) {
  if (*request == NULL) return;
  (void)ompi_request_cancel(*request);
  (void)ompi_request_free(request);
  *request = NULL;
}

static void give_up(lane *l, gcm_pieces *p) {
  fail(p, MPI_ERR_OTHER, "that process has ended before it was complete: see why it did");
  for (; p->moved < p->given; p->moved++, l->with_pml--) let_go(&p->with_pml[p->moved % GC_PIECES_WINDOW]);
  let_go(&p->replying);
  if (p->engine != NULL) (void)gcm_pt2pt->pieces_end(p->engine, true);
  finish(p);
}

/* Looks now and then whether the other process is known to have ended. */
static int look_at_peer(lane *l) {
  enum { kLooks = 1024 };
  if (++l->looks % kLooks != 0) return 0;
  if (!gcm_pt2pt->is_gone(gcm_blob_of(l->comm, l->peer))) return 0;
  gcm_pieces **const lists[] = {&l->moving, &l->announced};
  for (int i = 0; i < 2; i++) {
    while (*lists[i] != NULL) {
      gcm_pieces *p = *lists[i];
      *lists[i] = p->next;
      give_up(l, p);
    }
  }
  return 1;
}

/* ---- lanes ---- */

static lane *lane_of(const gcm_pieces *p) {
  for (lane *l = lanes; l != NULL; l = l->next)
    if (l->comm == p->route.comm && l->peer == p->route.peer && l->sends == p->sends) return l;
  lane *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->comm = p->route.comm;
  OBJ_RETAIN(made->comm);
  made->peer = p->route.peer;
  made->sends = p->sends;
  made->next = lanes;
  lanes = made;
  return made;
}

/* Puts new messages into their lanes, in their order. */
static void admit_new(void) {
  opal_mutex_lock(&new_lock);
  gcm_pieces *p = all_new;
  all_new = NULL;
  all_new_end = &all_new;
  opal_mutex_unlock(&new_lock);
  while (p != NULL) {
    gcm_pieces *const next = p->next;
    lane *l = lane_of(p);
    if (l != NULL) append(&l->announced, p);
    if (l == NULL) {
      fail(p, MPI_ERR_NO_MEM, "this process has no memory left for it");
      finish(p);
    }
    p = next;
  }
}

static bool is_empty(const lane *l) { return l->announced == NULL && l->moving == NULL && !l->holds_answer; }

static void free_lane(lane *l) {
  let_go(&l->answering);
  OBJ_RELEASE(l->comm);
  free(l);
}

/* Progress that the PML makes meanwhile finds the lock taken. */
int gcm_drive_pieces(void) {
  if (GCM_LIKELY(atomic_load_explicit(&n_alive, memory_order_relaxed) == 0)) return 0;
  if (gcm_in_callback || opal_mutex_trylock(&drive_lock) != 0) return 0;
  int moved = 0;
  admit_new();
  for (lane **link = &lanes; *link != NULL;) {
    lane *l = *link;
    moved += l->sends ? look_for_answers(l) : look_for_notes(l);
    moved += move_pieces(l);
    moved += look_at_peer(l);
    if (!is_empty(l)) {
      link = &l->next;
      continue;
    }
    *link = l->next;
    free_lane(l);
  }
  opal_mutex_unlock(&drive_lock);
  gcm_reap_notes();
  return moved;
}
