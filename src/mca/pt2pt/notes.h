/* Notes that go before some messages to other nodes. An envelope of a message that goes in pieces (pieces.h) has
 * GC_ENVELOPE_BYTES bytes of the PML's, and so may have a message that the PML carries. Before each of them the sender
 * sends a note by the PML, on the same communicator, which tells what kind of message it is, and its size. So a probe
 * that finds so many bytes can tell the size of the message, and a receive that had too little room for an envelope,
 * whose it was: the messages of one sender, communicator and tag are matched in the order of their notes.
 *
 * A message may be looked at before its note: a PML need not keep the order of messages of different tags, and within a
 * callback of the PML's none of its functions may be called (gcm_in_callback). Then the message claims its note.
 *
 * Thread safety: any thread. Nothing here waits for another process.
 */
#ifndef GPUCOLL_MCA_PT2PT_NOTES_H
#define GPUCOLL_MCA_PT2PT_NOTES_H

#include "mca/coll/plan.h"

/* Tags of gpucoll's own messages between nodes. No program can give them, and Open MPI 4.1 and 5.0 have none of -2 to
 * -6. */
enum { GCM_TAG_NOTE = -4, GCM_TAG_ANSWER = -5, GCM_TAG_PIECE = -6 };

typedef struct gcm_note {
  uint64_t serial; /* among all notes of the sender */
  uint64_t bytes;  /* of the message */
  int32_t tag;
  uint16_t plain; /* the PML carries the message */
  uint16_t lacks; /* the sender has sent such messages without a note, before there were notes */
} gcm_note;

/* Sends a note, and stores its serial number. REQUIRES: the order is locked. Returns an MPI error class. */
int gcm_send_note(ompi_communicator_t *comm, int to, int tag, size_t bytes, uint64_t *serial);
/* Sends a note of a message that the PML carries. Before the first message in pieces nobody needs it. REQUIRES:
 * the order is locked. */
void gcm_send_plain_note(ompi_communicator_t *comm, int to, int tag);

/* Where a receiver looks for a note. */
typedef struct gcm_note_key {
  ompi_communicator_t *comm;
  int from, tag;
  bool matched; /* by a matched probe, which has found it before */
} gcm_note_key;

/* Tells what a look has found. */
typedef enum gcm_note_found {
  GCM_NOTE_FOUND,
  GCM_NOTE_LATE, /* none yet; once it comes, no other message gets it */
  GCM_NOTE_NONE  /* the message has none, or there is no memory */
} gcm_note_found;

/* Which note a receiver looks for: the first one of its key whose serial number has these bits. */
typedef struct gcm_note_name {
  uint64_t serial, mask; /* no bits: nothing of an envelope has come, and the message may be a plain one */
} gcm_note_name;
/* Takes that note. `again`: it was late before, and so is this message's. */
gcm_note_found gcm_take_note(const gcm_note_key *key, gcm_note_name name, bool again, gcm_note *note);
/* A message of GC_ENVELOPE_BYTES that the PML carries has come. */
void gcm_take_plain_note(const gcm_note_key *key);
/* Returns the size of the message that a probe has found, which found GC_ENVELOPE_BYTES; 0: it is not known yet. A
 * matched probe has taken it from those that others find. `again`: it was not known at the last probe either. */
size_t gcm_look_at_notes(const gcm_note_key *key, bool again);

/* Frees what notes have left with the PML, as far as it is through with it. */
void gcm_reap_notes(void);

#endif
