/* Messages of device memory between nodes: the PML carries an envelope, which it matches, and then the data in pieces,
 * while the engine copies others between device and host (pt2pt/pieces.h). Nobody has a whole message in host memory.
 *
 *   sender                              receiver
 *   note (notes.h), envelope     ->     the PML matches the envelope, the note tells the size
 *                                <-     answer: how many bytes it wants, in what pieces
 *   piece, piece, ...            ->     its requests for them are posted
 *
 * All of that are messages of the PML, on the program's communicator, with tags of ours. Messages between two processes
 * on one communicator move one after another, in the order of the answers: so pieces need no header.
 *
 * Thread safety: any thread. MPI progress drives them. Ownership: the caller keeps the data, the communicator and the
 * type until a message has ended.
 */
#ifndef GPUCOLL_MCA_PT2PT_PIECES_H
#define GPUCOLL_MCA_PT2PT_PIECES_H

#include "abi/pt2pt.h"
#include "mca/coll/plan.h"
#include "mca/pt2pt/notes.h"

/* One side of such a message. */
typedef struct gcm_pieces gcm_pieces;

/* The other side of it. */
typedef struct gcm_pieces_route {
  ompi_communicator_t *comm;
  int peer, tag;
  bool matched; /* by a probe, before it was received */
} gcm_pieces_route;

/* Returns whether a message of so many bytes may go to this process in pieces, and stores its blob there. */
bool gcm_go_in_pieces(ompi_communicator_t *comm, const gc_process_blob *to, size_t bytes);
/* Announces a message: sends its note, and fills in its envelope. REQUIRES: the order is locked. Returns an MPI error
 * class.
 */
int gcm_offer_pieces(const gcm_pieces_route *to, const gc_message_data *data, gc_envelope *envelope,
                     gcm_pieces **pieces);
/* Receives the message whose note has this name, as far as there is room. Returns NULL where there is no memory, with
 * the sentence logged. */
gcm_pieces *gcm_take_pieces(const gcm_pieces_route *from, gcm_note_name name, const gc_message_data *target);
/* Moves what can be moved. Returns whether something was. */
int gcm_drive_pieces(void);
bool gcm_pieces_ended(const gcm_pieces *pieces);
/* Frees a message that has ended, or an announced one whose envelope the PML has not got. Stores how many bytes the
 * message had. Returns an MPI error class; the sentence has been logged. */
int gcm_end_pieces(gcm_pieces *pieces, size_t *bytes);

#endif
