#include "mca/pt2pt/notes.h"

#include <stdatomic.h>

#include "base/mutant.h"
#include "mca/pt2pt/message_requests.h"
#include "mca/pt2pt/pt2pt.h"

/* ---- sending ---- */

/* A note that the PML has not sent yet. */
typedef struct outgoing {
  gcm_note note;
  ompi_request_t *request;
  struct outgoing *next;
} outgoing;

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT; /* of all lists here; nothing is called while it is held */
static outgoing *all_outgoing;
static atomic_bool has_sent_pieces, has_unnoted;
static uint64_t serials; /* the order is locked */

static void end_outgoing(outgoing *o) {
  (void)gcm_wait(&o->request, MPI_STATUS_IGNORE);
  free(o);
}

static int send_note(ompi_communicator_t *comm, int to, const gcm_note *note) {
  outgoing *o = malloc(sizeof *o);
  if (o == NULL) return MPI_ERR_NO_MEM;
  *o = (outgoing){.note = *note};
  const int rc = gcm_pml.pml_isend(&o->note, sizeof o->note, gcm_bytes_type(), to, GCM_TAG_NOTE,
                                   MCA_PML_BASE_SEND_STANDARD, comm, &o->request);
  if (rc != MPI_SUCCESS) {
    free(o);
    return rc;
  }
  if (gcm_is_complete(o->request)) {
    end_outgoing(o);
    return MPI_SUCCESS;
  }
  opal_mutex_lock(&lock);
  o->next = all_outgoing;
  all_outgoing = o;
  opal_mutex_unlock(&lock);
  return MPI_SUCCESS;
}

int gcm_send_note(ompi_communicator_t *comm, int to, int tag, size_t bytes, uint64_t *serial) {
  atomic_store_explicit(&has_sent_pieces, true, memory_order_relaxed);
  const gcm_note note = {.serial = ++serials, .bytes = bytes, .tag = tag, .lacks = atomic_load(&has_unnoted)};
  *serial = note.serial;
  return send_note(comm, to, &note);
}

void gcm_send_plain_note(ompi_communicator_t *comm, int to, int tag) {
  if (!atomic_load_explicit(&has_sent_pieces, memory_order_relaxed)) {
    atomic_store_explicit(&has_unnoted, true, memory_order_relaxed);
    return;
  }
  gcm_reap_notes(); /* nobody else may */
  const gcm_note note = {++serials, GC_ENVELOPE_BYTES, tag, 1, atomic_load(&has_unnoted)};
  if (!gc_mutant(383)) (void)send_note(comm, to, &note);
}

void gcm_reap_notes(void) {
  outgoing *ready = NULL;
  opal_mutex_lock(&lock);
  for (outgoing **link = &all_outgoing; *link != NULL;) {
    outgoing *o = *link;
    if (!gcm_is_complete(o->request)) {
      link = &o->next;
      continue;
    }
    *link = o->next;
    o->next = ready;
    ready = o;
  }
  opal_mutex_unlock(&lock);
  while (ready != NULL) {
    outgoing *o = ready;
    ready = o->next;
    end_outgoing(o);
  }
}

/* ---- receiving ---- */

/* A note that has come. Claimed: it is that of a message which came before it. */
typedef struct entry {
  gcm_note note;
  bool matched, claimed;
  uint64_t mask; /* of the claim */
  struct entry *next;
} entry;

/* A message that has come before its note. */
typedef struct claim {
  int tag;
  gcm_note_name name;
  bool plain;      /* nobody waits for the note */
  uint64_t rounds; /* when it came */
  struct claim *next;
} claim;

/* The notes of one sender on one communicator whose messages have not been received. */
typedef struct sender {
  ompi_communicator_t *comm;
  int from;
  int receiving;   /* threads that are receiving notes */
  uint64_t rounds; /* in which notes were received */
  uint64_t taken;  /* notes, by their messages */
  bool has_noted;  /* some note has come, and none tells of messages without one */
  entry *entries;  /* in no order */
  claim *claims;   /* the first one first */
  struct sender *next;
} sender;
static sender *senders;

static const gcm_note_name any = {0, 0};

static bool has_name(const gcm_note *note, gcm_note_name name) {
  return ((note->serial ^ name.serial) & name.mask) == 0;
}

/* REQUIRES: the lock. */
static sender *find_sender(const gcm_note_key *key) {
  for (sender *s = senders; s != NULL; s = s->next)
    if (s->comm == key->comm && s->from == key->from) return s;
  sender *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->comm = key->comm;
  made->from = key->from;
  made->next = senders;
  senders = made;
  return made;
}

/* ---- claims ---- */

static void drop_claim(claim **link) {
  claim *c = *link;
  *link = c->next;
  free(c);
}

/* REQUIRES: the lock. */
static bool add_claim(sender *s, const gcm_note_key *key, gcm_note_name name, bool plain) {
  claim **end = &s->claims;
  while (*end != NULL) end = &(*end)->next;
  *end = malloc(sizeof **end);
  if (*end != NULL) **end = (claim){.tag = key->tag, .name = name, .plain = plain, .rounds = s->rounds};
  return *end != NULL;
}

/* Returns the link to the claim that tells most of a note's serial number. REQUIRES: the lock. */
static claim **claim_of(sender *s, const gcm_note *note) {
  claim **found = NULL;
  for (claim **link = &s->claims; *link != NULL; link = &(*link)->next) {
    const claim *c = *link;
    if (c->tag != note->tag || !has_name(note, c->name) || (c->plain && !note->plain)) continue;
    if (found == NULL || c->name.mask > (*found)->name.mask) found = link;
  }
  return found;
}

/* Drops claims to what was sent before there were notes: all notes that were sent before their messages have come.
 * REQUIRES: the lock. */
static void drop_void_claims(sender *s) {
  for (claim **link = &s->claims; *link != NULL;) {
    if ((*link)->plain && (*link)->rounds < s->rounds)
      drop_claim(link);
    else
      link = &(*link)->next;
  }
}

/* ---- notes ---- */

/* REQUIRES: the lock. */
static void keep(sender *s, const gcm_note *note) {
  s->has_noted = !note->lacks;
  claim **link = claim_of(s, note);
  const bool is_claimed = link != NULL, is_wanted = !is_claimed || !(*link)->plain;
  const uint64_t mask = is_claimed ? (*link)->name.mask : 0;
  if (is_claimed) drop_claim(link);
  entry *e = is_wanted ? malloc(sizeof *e) : NULL;
  if (e == NULL) return; /* without memory its message waits for it in vain */
  *e = (entry){.note = *note, .claimed = is_claimed, .mask = mask, .next = s->entries};
  s->entries = e;
}

/* Receives the notes that have come. While a look finds none, another message of the key may take the caller's note
 * here, though its own has come since: then this looks again. REQUIRES: the lock, which it gives away meanwhile. */
static void receive_notes(sender *s) {
  if (gcm_in_callback) return;
  s->receiving++;
  s->rounds++;
  for (;;) {
    const uint64_t taken = s->taken;
    opal_mutex_unlock(&lock);
    int found = 0;
    gcm_note note = {0};
    ompi_message_t *message = NULL;
    ompi_status_public_t status = ompi_status_empty;
    int rc = gcm_pml.pml_improbe(s->from, GCM_TAG_NOTE, s->comm, &found, &message, &status);
    found = found && rc == MPI_SUCCESS;
    if (found) rc = gcm_pml.pml_mrecv(&note, sizeof note, gcm_bytes_type(), &message, &status);
    if (gc_mutant(487)) sched_yield();
    opal_mutex_lock(&lock);
    if (found && rc == MPI_SUCCESS) keep(s, &note);
    if (!found && (s->taken == taken || gc_mutant(487))) break;
  }
  if (--s->receiving == 0) drop_void_claims(s);
}

/* REQUIRES: the lock. */
static entry **first_that(sender *s, const gcm_note_key *key, gcm_note_name name, bool claimed, bool any_state) {
  entry **first = NULL;
  for (entry **link = &s->entries; *link != NULL; link = &(*link)->next) {
    const entry *e = *link;
    if (e->note.tag != key->tag || !has_name(&e->note, name) || e->claimed != claimed) continue;
    if (claimed ? e->mask != name.mask : !any_state && e->matched != key->matched) continue;
    if (first == NULL || e->note.serial < (*first)->note.serial) first = link;
  }
  return first;
}

/* Returns the link to the first note of the key that has this name. A probe may have found it in place of a message
 * that was sent before there were notes. REQUIRES: the lock. */
static entry **first_of(sender *s, const gcm_note_key *key, gcm_note_name name) {
  entry **first = first_that(s, key, name, false, false);
  return first == NULL && name.mask != 0 ? first_that(s, key, name, false, true) : first;
}

/* Does as first_of(), and receives notes where there is none. REQUIRES: the lock, which it may give away meanwhile. */
static entry **find_note(sender *s, const gcm_note_key *key, gcm_note_name name) {
  entry **link = first_of(s, key, name);
  if (link != NULL) return link;
  receive_notes(s);
  return first_of(s, key, name);
}

/* Returns whether all notes that were sent before messages that have come are here, as far as the PML keeps the order
 * of messages. REQUIRES: the lock. */
static bool has_all_notes(const sender *s) { return !gcm_in_callback && s->receiving == 0; }

static void take_entry(sender *s, entry **link, gcm_note *note) {
  entry *e = *link;
  s->taken++;
  *link = e->next;
  if (note != NULL) *note = e->note;
  free(e);
}

/* ---- what messages ask for ---- */

/* Looks for the note of a claim. REQUIRES: the lock. */
static gcm_note_found take_claimed(sender *s, const gcm_note_key *key, gcm_note_name name, gcm_note *note) {
  entry **link = first_that(s, key, name, true, true);
  if (link == NULL) {
    receive_notes(s);
    link = first_that(s, key, name, true, true);
  }
  if (link != NULL) {
    take_entry(s, link, note);
    return GCM_NOTE_FOUND;
  }
  if (name.mask != 0 || !has_all_notes(s)) return GCM_NOTE_LATE;
  claim **c = &s->claims;
  while (*c != NULL && ((*c)->tag != key->tag || (*c)->name.mask != 0 || (*c)->plain)) c = &(*c)->next;
  if (*c != NULL) drop_claim(c);
  return GCM_NOTE_NONE;
}

/* REQUIRES: the lock. */
static gcm_note_found take_new(sender *s, const gcm_note_key *key, gcm_note_name name, gcm_note *note) {
  entry **link = find_note(s, key, name);
  if (link != NULL) {
    take_entry(s, link, note);
    return GCM_NOTE_FOUND;
  }
  if (name.mask == 0 && has_all_notes(s)) return GCM_NOTE_NONE;
  return add_claim(s, key, name, false) ? GCM_NOTE_LATE : GCM_NOTE_NONE;
}

gcm_note_found gcm_take_note(const gcm_note_key *key, gcm_note_name name, bool again, gcm_note *note) {
  opal_mutex_lock(&lock);
  sender *s = find_sender(key);
  const gcm_note_found found = s == NULL ? GCM_NOTE_NONE : (again ? take_claimed : take_new)(s, key, name, note);
  opal_mutex_unlock(&lock);
  return found;
}

/* Plain notes of one key are as good as each other. REQUIRES: the lock. */
static entry **first_plain(sender *s, const gcm_note_key *key) {
  entry **first = NULL;
  for (entry **link = &s->entries; *link != NULL; link = &(*link)->next) {
    const entry *e = *link;
    const bool fits = e->note.plain && e->note.tag == key->tag && !e->claimed && e->matched == key->matched;
    if (fits && (first == NULL || e->note.serial < (*first)->note.serial)) first = link;
  }
  return first;
}

void gcm_take_plain_note(const gcm_note_key *key) {
  opal_mutex_lock(&lock);
  sender *s = find_sender(key);
  entry **link = s != NULL ? first_plain(s, key) : NULL;
  if (s != NULL && link == NULL) {
    receive_notes(s);
    link = first_plain(s, key);
  }
  if (link != NULL) {
    take_entry(s, link, NULL);
  } else if (s != NULL && !has_all_notes(s)) {
    (void)add_claim(s, key, any, true);
  } else if (s != NULL && key->matched) {
    /* It was sent before there were notes, and the probe took another message's note for its own. */
    entry **other = first_that(s, key, any, false, false);
    if (other != NULL) (*other)->matched = false;
  }
  opal_mutex_unlock(&lock);
}

size_t gcm_look_at_notes(const gcm_note_key *key, bool again) {
  const gcm_note_key unmatched = {.comm = key->comm, .from = key->from, .tag = key->tag};
  opal_mutex_lock(&lock);
  sender *s = find_sender(&unmatched);
  entry **link = s != NULL ? find_note(s, &unmatched, any) : NULL;
  const bool may_lack_note = s == NULL || (!s->has_noted && s->receiving == 0);
  size_t bytes = again && may_lack_note ? GC_ENVELOPE_BYTES : 0;
  if (link != NULL) {
    bytes = gc_mutant(384) ? GC_ENVELOPE_BYTES : (*link)->note.bytes;
    (*link)->matched = key->matched;
  }
  opal_mutex_unlock(&lock);
  return bytes;
}

static void free_sender(sender *s) {
  while (s->entries != NULL) take_entry(s, &s->entries, NULL);
  while (s->claims != NULL) drop_claim(&s->claims);
  free(s);
}

void gcm_forget_notes(ompi_communicator_t *comm) {
  opal_mutex_lock(&lock);
  for (sender **link = &senders; *link != NULL;) {
    sender *s = *link;
    if (s->comm != comm) {
      link = &s->next;
      continue;
    }
    *link = s->next;
    free_sender(s);
  }
  opal_mutex_unlock(&lock);
}
