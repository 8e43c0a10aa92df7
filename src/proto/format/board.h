/* Format: the arrival board, by which the ranks of one node learn who has entered which collective with what kind of
 * memory. In C, because the component's host path writes it.
 *
 * Each process keeps one board in shared memory (memfd) and alone writes it; others map it. A communicator has one
 * entry on the board of each of its members, found by key: home slot key[0] % entries, then the following ones, at
 * most GC_BOARD_PROBE. The key is equal on all members and differs between communicators that exist one after another.
 *
 * Entering collective number s (1, 2, ...) of a communicator: the rank fills line s % GC_BOARD_LINES and stores
 * s into `sequence` with release. A reader loads `sequence` with acquire: s means the rank has arrived and the line
 * is whole; less means it has not arrived.
 *
 * Why four lines are enough. Only collectives that nobody can leave before everybody has entered are counted
 * (allreduce with count > 0). So when a rank enters s + 1, every rank has entered s and, having had to decide how to
 * run s before contributing to it, has read all lines of s. Lines of s + 2 could overwrite those of s already.
 *
 * Why so many entries. A board that is full on one rank only would leave the others waiting for an entry that never
 * comes. Open MPI knows 65536 communicators at most; at twice the entries GC_BOARD_PROBE slots in a row are not taken.
 * Entries cost memory only once they are used.
 *
 * A key is published (key[1] stored with release) after the lines were cleared, and cleared when the communicator is
 * freed; by the same argument nobody still needs the lines then. */
#ifndef GPUCOLL_PROTO_FORMAT_BOARD_H
#define GPUCOLL_PROTO_FORMAT_BOARD_H

#include <stdint.h>

enum { GC_BOARD_LINES = 4, GC_BOARD_ENTRIES = 131072, GC_BOARD_PROBE = 64 };

/* What a rank's buffers are. Only a change to GC_KIND_FAILED may happen to a line that is published. */
enum {
  GC_KIND_HOST = 1,   /* host memory: it goes on to the previous module without waiting */
  GC_KIND_DEVICE = 2, /* device memory that the runtime can work on */
  GC_KIND_STAGED = 3, /* device memory, but this call must go through the host */
  GC_KIND_FAILED = 4  /* this call or an earlier one has failed on this rank: it takes part no more */
};
enum { GC_FUNCTION_ALLREDUCE = 1 };
/* Flags of a line. */
enum { GC_DEVICE_SHARES = 1 /* kernels of several processes run side by side on this device */ };

typedef struct gc_board_line {
  uint64_t sequence;
  uint32_t kind;     /* GC_KIND_* */
  uint32_t function; /* GC_FUNCTION_* */
  uint64_t count;
  uint32_t type, op;  /* gpucollDataType_t and gpucollRedOp_t, or ~0 for others; set for GC_KIND_DEVICE */
  uint8_t device[16]; /* uuid of the device, for GC_KIND_DEVICE */
  uint32_t flags;
  uint8_t reserved[12];
} gc_board_line;

typedef struct gc_board_entry {
  uint64_t key[2]; /* key[1] == 0: free */
  uint8_t reserved[48];
  gc_board_line lines[GC_BOARD_LINES];
} gc_board_entry;

typedef char gc_check_line[sizeof(gc_board_line) == 64 ? 1 : -1];
typedef char gc_check_entry[sizeof(gc_board_entry) == 64 + 4 * 64 ? 1 : -1];

#endif
