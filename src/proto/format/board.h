/* Format: the arrival board, by which the ranks of one node learn who has entered which collective with what kind of
 * memory. In C, because the component's host path writes it.
 *
 * Each process keeps one board in shared memory (memfd) and alone writes it; others map it, those of other nodes keep
 * copies (format/remote_board.h). A communicator has one
 * entry on the board of each of its members, found by key. The key is equal on all members and differs between
 * communicators that exist one after another. An entry is the first one that is free of GC_BOARD_PROBE in a row among
 * the first GC_BOARD_NEAR, or else of as many among the others; a reader looks at them in this order, up to one that
 * was never used.
 *
 * The blocking collectives of a communicator and the nonblocking ones are counted apart, each in an order of its own:
 * MPI itself may begin a nonblocking one in the middle of a blocking one (MPI_Comm_idup). An order of launches for both
 * follows from either: a rank that runs a blocking collective has launched all nonblocking ones that were begun before.
 *
 * A rank enters collective number s (1, 2, ...) of an order by storing s, what it calls and its kind of memory into
 * `arrival` of line s % GC_BOARD_LINES, with release. Where it has device memory, it stores the rest of the line first.
 * It does not wait for ranks that have yet to read the line. A reader loads `arrival` with acquire:
 *
 *   a number below s   The rank has not come.
 *   s                  It has come. If all ranks have come with device memory, or at least one has and the others wait
 *                      for it with host memory (GC_KIND_EITHER), they run s on the device.
 *   a number above s   It has come and gone.
 *
 * A rank that has gone went through the host, and so do all. For a rank that runs s on the device goes on only when
 * every rank has read its line. Either it waits for that (`decided`, stored with release after reading), or no rank can
 * leave s before every rank has contributed to it, which a rank does after reading. So a rank reads a line beyond
 * `arrival` only while nobody writes it: when all have come with device memory.
 *
 * A rank that cannot make a call for its arguments, which only it can see, says so instead (GC_KIND_REFUSED). All ranks
 * that wait for it end s with an error, and nothing else. None of them waits for the others, so a rank refuses s only
 * when all have come to s - GC_BOARD_LINES / 2: no line is written anew before all ranks have come to it.
 *
 * A rank with host memory alone does not wait, as most often all ranks have host memory. But where others have told by
 * `device_hints` that they would rather run a function on the device, a rank waits, as long as that pays
 * (coll/call/device_hints.h).
 *
 * A nonblocking collective is begun, and the program goes on. A rank that has device memory in s, or refuses s, keeps
 * the line until it knows that s goes through the host, or that every rank has read the line or comes through the host.
 * It does not enter a later call that needs the line before. Rank 0 stores into `batch_size` for its line s, with
 * release, how many collectives from s on share a launch: s and those behind it that are GC_LINE_SMALL on every rank,
 * and but for s GC_LINE_WAITS. A rank waits for that word only if it has entered s + 1 so itself. Else it runs s alone,
 * and rank 0 cannot mean otherwise: the collectives that this rank enters later do not wait.
 *
 * The calls of several communicators are launched in one order on all ranks (mpi/progress_thread.h): that of their
 * numbers. Each process counts in `launch_number` of its board. A rank that comes with device memory, or waits for
 * others, is ready once nothing that its application has yet to begin comes before s on this communicator: most often
 * when it comes. It stores 1 into the line's `number`, so that all ranks see it (the exchange that stores `arrival`, or
 * one of its own), then adds 1 to its `launch_number` and stores the sum into `number`, with release. The greatest
 * `number` of all ranks is the number of s. A rank that has learned it raises its own `launch_number` to it. A rank
 * that launches another call before s, while another rank is not ready for s, first raises the `launch_number` of that
 * rank to the number of what it launches, and then sees that the rank is still not ready: so the number of s gets
 * greater.
 *
 * Why so many lines: so many nonblocking collectives may be under way before one must wait to be entered. And a
 * collective of the module below may call others (allreduce: reduce and broadcast, each counted), so a rank may be some
 * numbers ahead within a blocking collective that it has not left: four lines would do for that.
 *
 * A rank that fails in number s stores s into `failed`, with release, after `cause`, a sentence about who is at fault.
 * Other ranks that give up because of it pass the sentence on unchanged. No rank may wait for a failed rank in s or
 * later. In the other order the rank stores the first number that it has not run.
 *
 * Making a persistent collective (GC_PERSISTENT) is counted among the nonblocking ones. MPI lets the ranks start those
 * that are made in different orders, so where all have device memory rank 0 says in which order they run: it appends
 * entries to its `schedule`, and every rank carries them out one after another. Entry k (1, 2, ...) is stored in
 * schedule[k % GC_BOARD_SCHEDULE], then k into `scheduled` with release. A rank that has read it stores k into `read`
 * with release; entry k + GC_BOARD_SCHEDULE is not stored before all ranks have, nor does rank 0 tell its application
 * that something has ended before all have read of it: it might free the communicator.
 *
 *   GC_STEP_PLACE    What nonblocking number `number` has made gets `slot`, and what it lacks is connected.
 *   GC_STEP_NOWHERE  The same without a slot: it goes through the host.
 *   GC_STEP_START    What is in `slot` runs.
 *   GC_STEP_JOIN     The same, in one launch with the step before if that is possible, which all ranks find alike.
 *
 * Then rank 0 adds 1 to its `launch_number` and stores into `numbers` of the new entries, with release, the last one
 * first, the greatest of the sum and of all ranks' `number`, which they have taken from their own `launch_number`
 * before they started. Until then it is 0, and the entry is not there for readers. It orders starts among the calls of
 * other communicators as `number` of a line does. For the same reason `scheduled` is stored by a sequentially
 * consistent exchange: who launches something else meanwhile raises the `launch_number` of rank 0.
 *
 * A step that joins is there as soon as the one before it: `scheduled` is stored for all of them at once.
 *
 * Starting what is in slot s, a rank changes bit s of `started`, with release; of those that it starts at once, one
 * word. Rank 0 schedules it once all ranks have:
 * so nobody waits in a kernel for a rank that may be waiting, before its own start, for something else. A rank cannot
 * start the same again before it has run. It sets bit s of `held` when it reads of the place, and clears that of
 * `started`, then that of `held`, when the request is freed. Rank 0 gives a slot to another when nobody holds it and
 * all have read what they were told of it. With no slot left the next one goes through the host.
 *
 * Blocking collectives of equal blocks among the neighbours of a graph are counted apart (GC_ORDER_NEIGHBORS), as MPI
 * ends such a call on a rank without elements before anybody sees it. There only those come together that edges join,
 * directly or by way of others: each stores into `neighbors`, before its first line that is not GC_KIND_HOST, to whom
 * it has an edge in either direction (bit r % 64 of word r / 64), so that a reader who has met a rank knows whom to
 * wait for next. Open MPI lets a rank send as much as it receives or nothing at all, so all that are joined count
 * alike.
 *
 * The ranks that make a runtime communicator meet on their entries as well (coll/match/board_bootstrap.h), for each of
 * the four that there can be at a place of its own: in its k-th exchange (1, 2, ...) a rank writes parts[k % 2], then
 * stores k into `met` with release; it reads those of the others once they have stored k or more. Nobody writes k + 2
 * before all have stored k + 1, which they do after reading k.
 *
 * Why so many entries. A board that is full on one rank only would leave the others waiting for an entry that never
 * comes. Open MPI knows 65536 communicators at most; at twice the entries GC_BOARD_PROBE slots in a row are not taken.
 * Entries cost memory only once they are used: programs with few communicators at a time, however many one after
 * another, use the first ones only.
 *
 * A key is published (key[1] stored with release) after the lines were cleared. An entry whose communicator has been
 * freed says so (`left`) until it is taken anew. By then its key[1] stands among `gone`, in the first place of
 * GC_BOARD_PROBE in a row that is 0, or in any of them where none is: a late reader must not take a communicator that
 * is gone for one that is not there yet. A reader who has known an entry and finds another key in it knows as much. */
#ifndef GPUCOLL_PROTO_FORMAT_BOARD_H
#define GPUCOLL_PROTO_FORMAT_BOARD_H

#include <stdint.h>

#include "proto/format/pulse.h"

enum { GC_BOARD_LINES = 16, GC_BOARD_MEETING_BYTES = 320, GC_BOARD_CAUSE = 448 };
enum { GC_BOARD_NEIGHBORS = 512 }; /* ranks of a communicator that can be told */
enum { GC_BOARD_SLOTS = 256, GC_BOARD_SCHEDULE = 32 };
enum { GC_BOARD_ENTRIES = 131072, GC_BOARD_NEAR = 2048, GC_BOARD_GONE = 131072, GC_BOARD_PROBE = 64 };

/* The orders. */
enum { GC_ORDER_BLOCKING, GC_ORDER_NONBLOCKING, GC_ORDER_NEIGHBORS, GC_ORDERS };
/* How a collective is called. */
enum { GC_FORM_BLOCKING, GC_FORM_NONBLOCKING, GC_FORM_PERSISTENT, GC_FORMS };
/* The runtime communicators: that of blocking and nonblocking collectives, that of persistent ones, and, where ranks
 * use one device, those of the ranks which run either for the others; before, all ranks meet about these. */
enum {
  GC_MEETING_FIRST,
  GC_MEETING_PERSISTENT,
  GC_MEETING_LEADERS,
  GC_MEETING_GROUPS,
  GC_MEETING_PERSISTENT_LEADERS,
  GC_MEETING_PERSISTENT_GROUPS,
  GC_MEETINGS
};
/* The part that a rank takes in a collective. */
enum {
  GC_KIND_HOST = 1,   /* goes through the host without waiting: host memory, or what the runtime cannot work on */
  GC_KIND_DEVICE = 2, /* device memory that the runtime can work on: waits for what the others have */
  GC_KIND_EITHER = 3, /* host memory that the runtime can work on, or no bytes: waits, and goes where the others go */
  GC_KIND_REFUSED = 4 /* nothing, as its arguments are wrong: nobody does it */
};
/* The collectives that are counted, all by all ranks: GC_FUNCTION_allgather and so on. */
#define GC_BOARD_FUNCTIONS(f)                                                                                         \
  f(allgather, "MPI_Allgather") f(allgatherv, "MPI_Allgatherv") f(allreduce, "MPI_Allreduce")                         \
      f(alltoall, "MPI_Alltoall") f(alltoallv, "MPI_Alltoallv") f(alltoallw, "MPI_Alltoallw") f(bcast, "MPI_Bcast")   \
          f(exscan, "MPI_Exscan") f(gather, "MPI_Gather") f(gatherv, "MPI_Gatherv")                                   \
              f(neighbor_allgather, "MPI_Neighbor_allgather") f(neighbor_allgatherv, "MPI_Neighbor_allgatherv")       \
                  f(neighbor_alltoall, "MPI_Neighbor_alltoall") f(neighbor_alltoallv, "MPI_Neighbor_alltoallv")       \
                      f(neighbor_alltoallw, "MPI_Neighbor_alltoallw") f(reduce, "MPI_Reduce")                         \
                          f(reduce_scatter, "MPI_Reduce_scatter") f(reduce_scatter_block, "MPI_Reduce_scatter_block") \
                              f(scan, "MPI_Scan") f(scatter, "MPI_Scatter") f(scatterv, "MPI_Scatterv")
#define GC_FUNCTION(name, text) GC_FUNCTION_##name,
enum { GC_FUNCTION_none, GC_BOARD_FUNCTIONS(GC_FUNCTION) GC_FUNCTION_end };
#undef GC_FUNCTION
/* Added to the function: it makes a persistent one. */
enum { GC_PERSISTENT = 0x80 };
static inline int gc_is_counted(uint32_t function) { return (function & ~(uint32_t)GC_PERSISTENT) != GC_FUNCTION_none; }
/* How a communicator ends. MPI is being finalized on this rank; its collectives have `failed` because MPI is being
 * finalized here or on another rank, so nobody waits for them. */
enum { GC_ENDING_MPI = 1, GC_ENDING_QUIETLY = 2 };
/* Values of a line's `number` before it is a number. */
enum { GC_NUMBER_NONE = 0, GC_NUMBER_COMING = 1 };
/* Flags of a line. */
enum {
  GC_DEVICE_SHARES = 1, /* kernels of several processes run side by side on this device */
  GC_LINE_SMALL = 2,    /* nonblocking: may share a launch with the next one or the one before */
  GC_LINE_WAITS = 4,    /* nonblocking: the one before was undecided on this rank when it entered this one */
  GC_LINE_GROUP = 8     /* another rank of the same device can run it for this one (proto/format/device_group.h) */
};

typedef struct gc_board_line {
  uint64_t arrival; /* see gc_arrival; the rest is not there for GC_KIND_HOST */
  uint64_t count;   /* elements of a reduction, else bytes that go to or come from one rank; 0 where ranks may differ */
  uint32_t type, op;  /* gpucollDataType_t and gpucollRedOp_t of a reduction */
  int32_t root;       /* or -1 */
  uint32_t digest;    /* of what has no room here: counts for each rank that must be equal on all ranks */
  uint8_t device[16]; /* uuid of the device */
  uint32_t flags;
  uint8_t reserved[4];
  uint64_t number; /* for the launch order; 0: this rank is not ready, 1: it is, and about to tell its number */
} gc_board_line;

typedef struct gc_board_order {
  uint64_t decided; /* the last collective whose lines this rank has read as far as it needs, none GC_KIND_HOST */
  uint64_t failed;  /* the first collective that this rank has failed in, or will; 0: none */
  /* Rank 0's, of nonblocking ones: how many from this line's on share a launch; 0: it has not decided. */
  uint8_t batch_size[GC_BOARD_LINES];
  uint8_t reserved[32];
  gc_board_line lines[GC_BOARD_LINES];
} gc_board_order;

/* The state of persistent collectives. Rank 0 writes the members from `scheduled` on. */
typedef struct gc_board_starts {
  uint64_t started[GC_BOARD_SLOTS / 64], held[GC_BOARD_SLOTS / 64];
  uint64_t read, scheduled;
  uint64_t number; /* taken before the last start */
  uint8_t reserved[40];
  uint64_t schedule[GC_BOARD_SCHEDULE]; /* see gc_step */
  uint64_t numbers[GC_BOARD_SCHEDULE];
} gc_board_starts;

typedef struct gc_board_meeting {
  uint64_t met; /* exchanges of this rank, of which the last two are in `parts` */
  uint8_t reserved[56];
  uint8_t parts[2][GC_BOARD_MEETING_BYTES];
} gc_board_meeting;

typedef struct gc_board_entry {
  uint64_t key[2]; /* key[1] == 0: never used, or being changed */
  uint64_t left;   /* not 0: freed; later ones have larger numbers */
  /* By form: functions, 1 << GC_FUNCTION_*, that others have kept this rank from running on its device. */
  uint64_t device_hints[GC_FORMS];
  uint64_t ending; /* GC_ENDING_* */
  uint8_t reserved[8];
  uint64_t neighbors[GC_BOARD_NEIGHBORS / 64];
  gc_board_order orders[GC_ORDERS];
  gc_board_starts starts;
  gc_board_meeting meetings[GC_MEETINGS];
  char cause[GC_BOARD_CAUSE]; /* of `failed`: who is at fault, and why */
} gc_board_entry;

typedef struct gc_board {
  uint64_t gone[GC_BOARD_GONE];
  uint64_t ended;         /* not 0: the process is so far in MPI_Finalize that it enters no collective any more */
  gc_pulse pulse;         /* whether the process runs, from its first collective on device memory on */
  uint64_t launch_number; /* the last that the process has given to a call, or that any process has raised it to */
  uint8_t reserved[24];
  gc_board_entry entries[GC_BOARD_ENTRIES];
} gc_board;

typedef char gc_check_line[sizeof(gc_board_line) == 64 ? 1 : -1];
typedef char gc_check_order[sizeof(gc_board_order) == 64 + 16 * 64 ? 1 : -1];
typedef char gc_check_starts[sizeof(gc_board_starts) == 128 + 2 * 32 * 8 ? 1 : -1];
typedef char gc_check_entry[sizeof(gc_board_entry) == 64 + 64 + 3 * 1088 + 640 + 6 * 704 + 448 ? 1 : -1];

/* `arrival`: number, function and kind in one word, as a reader may meet the line while it is written anew. */
static inline uint64_t gc_arrival(uint64_t number, uint32_t function, uint32_t kind) {
  return number << 16 | function << 8 | kind;
}
static inline uint64_t gc_arrival_number(uint64_t arrival) { return arrival >> 16; }
static inline uint32_t gc_arrival_function(uint64_t arrival) { return arrival >> 8 & 0xff; }
static inline uint32_t gc_arrival_kind(uint64_t arrival) { return arrival & 0xff; }

/* An entry of the schedule. */
enum {
  GC_STEP_PLACE = 1,
  GC_STEP_NOWHERE = 2,
  GC_STEP_START = 3,
  GC_STEP_JOIN = 4 /* a start, too */
};
static inline uint64_t gc_step(uint64_t number, uint32_t slot, uint32_t kind) {
  return number << 24 | (uint64_t)slot << 8 | kind;
}
static inline uint64_t gc_step_number(uint64_t step) { return step >> 24; }
static inline uint32_t gc_step_slot(uint64_t step) { return step >> 8 & 0xffff; }
static inline uint32_t gc_step_kind(uint64_t step) { return step & 0xff; }

#endif
