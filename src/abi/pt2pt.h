/* The boundary between the component's point-to-point messages and the engine: messages whose data the receiver copies
 * straight from the sender's memory. Plain C, as abi.h.
 *
 * A message is offered to its receiver, and the PML carries an envelope in its place: see proto/format/outbox.h.
 * Error values are MPI error classes; a function that fails has logged the sentence already. Thread safety: any thread,
 * but one at a time for each transfer. Nothing here waits for another process or makes MPI progress.
 */
#ifndef GPUCOLL_ABI_PT2PT_H
#define GPUCOLL_ABI_PT2PT_H

#include "abi/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The PML carries an envelope in place of the data: of a smaller message as many bytes as it has, at least so many. */
#define GC_ENVELOPE_BYTES 113
#define GC_LEAST_ENVELOPE_BYTES 8
/* All envelopes begin so. */
#define GC_ENVELOPE_MAGIC_0 0xc6
#define GC_ENVELOPE_MAGIC_1 0x9d
typedef struct gc_envelope {
  uint8_t bytes[GC_ENVELOPE_BYTES];
} gc_envelope;

/* How the PML tells messages from one process to another apart. */
typedef struct gc_message_key {
  uint64_t context;
  int tag;
} gc_message_key;

/* Data of a message: device memory, of elements with gaps where there is a map, or consecutive bytes of host memory. */
typedef struct gc_message_data {
  void *memory;           /* where the first element begins */
  const gc_type_map *map; /* NULL: the data have no gaps */
  size_t bytes;
  int on_device;
} gc_message_data;

/* When a send may end. */
typedef enum gc_send_mode {
  GC_SEND_STANDARD,    /* once a small message has been copied, or a receiver has it */
  GC_SEND_SYNCHRONOUS, /* once a receiver has it */
  GC_SEND_BUFFERED     /* without a receiver */
} gc_send_mode;

/* A message that is being sent or received this way. */
typedef struct gc_transfer gc_transfer;

/* One side of a message to or from another node, whose data go in pieces by the PML. */
typedef struct gc_pieces gc_pieces;
/* A message has at most so many pieces in host memory at a time. */
#define GC_PIECES_WINDOW 4

typedef struct gc_pt2pt_abi {
  uint32_t version, bytes; /* GC_ABI_VERSION, sizeof(gc_pt2pt_abi) */

  /* Returns whether messages of this process may be envelopes; the others learn of it with its blob. */
  int (*enabled)(void);
  /* Returns whether the CPU may read and write this device memory as well: managed memory. */
  int (*host_reaches)(const void *memory);
  /* Tells the others that this process has device memory in messages. Cheap once done. */
  void (*uses_devices)(void);
  /* Offers a message to the process with this blob (NULL: it has none), and fills in the envelope that the PML is to
   * carry. Messages to one receiver must reach the PML in the order in which they are offered or noted. Returns
   * GC_STAGE or GC_STAGE_BECAUSE(cause) where the PML must carry the data themselves, an MPI error class where the data
   * are in no allocation. */
  int (*offer)(const gc_process_blob *to, const gc_message_key *key, const gc_message_data *data, gc_send_mode mode,
               gc_envelope *envelope, gc_transfer **transfer);
  /* Notes a message of GC_ENVELOPE_BYTES whose data the PML carries. */
  void (*note)(const gc_process_blob *to, const gc_message_key *key);
  /* Returns whether these `n` bytes that came from the process with this blob under this key are an envelope; -1, with
   * the sentence logged: one that this process cannot open. */
  int (*is_envelope)(const gc_process_blob *from, const gc_message_key *key, const gc_envelope *bytes, size_t n);
  /* Takes the message that an envelope from the process with this blob names, as far as `target` has room, and stores
   * its size. */
  int (*take)(const gc_process_blob *from, const gc_envelope *envelope, const gc_message_data *target, size_t *bytes,
              gc_transfer **transfer);
  /* A message of GC_ENVELOPE_BYTES that is no envelope has come; matched: a probe had matched it before. */
  void (*noted_came)(const gc_process_blob *from, const gc_message_key *key, int matched);
  /* The PML has cut off what may be an envelope of `size` bytes that came under this key, and delivered `n` of them:
   * where they were one, ends its message. */
  void (*cut_off)(const gc_process_blob *from, const gc_message_key *key, const gc_envelope *bytes, size_t n,
                  size_t size, int matched);
  /* Returns the size of the first message of this key that a probe which found GC_ENVELOPE_BYTES has found; 0: none is
   * known. A matched probe has taken it from those that others find. `again`: none was known at the last probe either.
   */
  size_t (*probed)(const gc_process_blob *from, const gc_message_key *key, int matched, int again);
  /* Drives a transfer. Returns whether it has ended. */
  int (*test)(gc_transfer *transfer);
  /* Begins the copies that transfers have got ready since: those of several share a launch. */
  void (*launch)(void);
  /* Frees a transfer: one that has ended, or an offer that the PML has not got. Returns MPI_SUCCESS or an MPI error
   * class. */
  int (*end)(gc_transfer *transfer);

  /* Returns from how many bytes on messages to the process with this blob go in pieces; 0: none does. */
  size_t (*least_in_pieces)(const gc_process_blob *to);
  /* Fills in the envelope of a message that goes in pieces; `serial`, not 0, tells it from others of this process. */
  void (*name_pieces)(uint64_t serial, gc_envelope *envelope);
  /* Returns whether the first `n` bytes of such an envelope have come from the process with this blob; `n` is at least
   * GC_LEAST_ENVELOPE_BYTES. Stores the serial number; *mask tells which of its bits are known. */
  int (*names_pieces)(const gc_process_blob *from, const gc_envelope *envelope, size_t n, uint64_t *serial,
                      uint64_t *mask);
  /* Returns how large the pieces of a message are to be. */
  size_t (*piece_of)(size_t bytes);
  /* Begins one side of a message of which `bytes` bytes go. */
  int (*pieces_begin)(const gc_message_data *data, size_t bytes, size_t piece, int sends, gc_pieces **pieces);
  /* Returns whether the next piece may go to the PML, which then has its memory. A sender that has failed gives empty
   * pieces, and a receiver drops its own: the other side counts on them. */
  int (*pieces_next)(gc_pieces *pieces, void **memory, size_t *bytes);
  /* The PML has moved the oldest piece that it was given; moves: else it has failed, or the other side has. */
  void (*pieces_moved)(gc_pieces *pieces, int moves);
  /* Returns whether all data are where they belong, or something has failed and the PML has no piece. */
  int (*pieces_ended)(gc_pieces *pieces);
  /* Frees one side; leaves_memory: the PML may go on using memory that it was given. Returns MPI_SUCCESS or an MPI
   * error class. */
  int (*pieces_end)(gc_pieces *pieces, int leaves_memory);
  /* Returns whether the process with this blob is known to have ended. It is watched from the first call on. */
  int (*is_gone)(const gc_process_blob *other);
  /* Returns whether the process with this blob runs with this version of gpucoll. */
  int (*runs_this_version)(const gc_process_blob *other);
} gc_pt2pt_abi;

/* Returns the table, or NULL where this library does not offer `version`. */
__attribute__((visibility("default"))) const gc_pt2pt_abi *gpucoll_pt2pt_abi(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
