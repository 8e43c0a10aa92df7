/* The boundary between the C component (which includes Open MPI's internal headers) and the C++ engine: plain C, no
 * Open MPI types, one table of functions. libgpucoll exports gpucoll_abi(); the component asks for the version it
 * was built with and refuses to work with another.
 *
 * Error values are MPI error classes (MPI_SUCCESS = 0); a function that fails has logged the sentence already.
 * Thread safety: functions on different gc_comm may run at once; those on one gc_comm one at a time (MPI's rule for
 * collectives on a communicator).
 */
#ifndef GPUCOLL_ABI_ABI_H
#define GPUCOLL_ABI_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "proto/format/board.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GC_ABI_VERSION 25u

/* How far a nonblocking collective that gc_abi.start began has come. */
enum {
  GC_WAITS,     /* nothing is to be done here */
  GC_HOST_TURN, /* the call goes through the host, and must be begun there now: the calls behind it wait for that */
  GC_READY,     /* the call is persistent; it is not started, but could start at once */
  GC_ENDED
};
/* The engine's side of a nonblocking or persistent collective; `state` is stored with release. */
typedef struct gc_pending {
  int state;
} gc_pending;

/* Answers of gc_abi.run and run_again besides MPI error classes. */
#define GC_STAGE (-1) /* every rank of the communicator got this answer, or has host memory: go through the host */
#define GC_ANEW (-2)  /* of run_again alone: nothing is kept of such a call, and nothing was done. Call run() */

/* The functions (bits 1 << GC_FUNCTION_*) whose calls go to the engine even when they have host memory alone. The
 * other calls with host memory count up to next_look; then the component looks for more such functions. */
typedef struct gc_asking {
  uint64_t on_host;
  uint32_t calls, next_look;
} gc_asking;

/* Answer of gc_pt2pt_abi.offer in place of GC_STAGE where there is a cause to tell. */
#define GC_STAGE_BECAUSE(cause) (-2 - (int)(cause))
#define GC_CAUSE_OF(answer) ((uint32_t)(-2 - (answer)))

/* A communicator of the engine. The functions below read its first members. */
typedef struct gc_comm {
  struct {
    gc_board_line *lines; /* this rank's GC_BOARD_LINES lines */
    uint64_t sequence;    /* number of the last collective entered */
  } orders[GC_ORDERS];
  int busy; /* nonblocking collectives are under way that later ones must not overtake */
  gc_asking asking[GC_FORMS];
} gc_comm;

/* Tells a trace of a message. */
typedef struct gc_traced_message {
  uint64_t context; /* of the message's key */
  const char *name; /* the communicator's */
  int rank, size;   /* of this process in it */
  int peer, tag;    /* negative: any, not known yet */
  uint64_t bytes;   /* of a receive: its room, and, when it has ended, what has come */
  int receives, ok; /* ok: it has not failed */
  int by_pml;       /* the PML has carried the data */
} gc_traced_message;
typedef struct gc_traced {
  uint64_t record, range; /* 0: none */
} gc_traced;

/* `count` runs of `bytes` of data each, `stride` apart. The first run lies at `offset` from where an element begins. */
typedef struct gc_runs {
  ptrdiff_t offset;
  size_t bytes;
  size_t count;
  ptrdiff_t stride;
} gc_runs;

/* A type with gaps: it says where the data of one element lie. Elements follow each other by `extent`. */
typedef struct gc_type_map {
  uint64_t id; /* no other map of this process ever has this number */
  size_t size; /* bytes of data of an element */
  ptrdiff_t extent;
  ptrdiff_t true_lb;   /* the data lie in [true_lb, true_lb + true_extent) */
  size_t true_extent;  /* bytes that the data of one element span */
  const gc_runs *runs; /* in the order of the data; neighbouring runs are joined */
  size_t n_runs;
} gc_type_map;

/* One side of a collective: a buffer as bytes of data in memory. It has either blocks one after another, all of them
 * `bytes` long, or one block for each rank or neighbour: block_bytes[r] bytes at `address` + block_offsets[r]. With
 * a map, a block holds the data of elements with gaps, and its first element begins there; without a map it has no
 * gaps. */
typedef struct gc_buffer {
  int given;           /* 0: MPI_IN_PLACE, or an argument that is not significant on this rank */
  const void *address; /* may lie outside of memory where there are offsets or a map */
  size_t bytes;
  const gc_type_map *map;
  const size_t *block_bytes; /* NULL: blocks lie one after another */
  const ptrdiff_t *block_offsets;
  const gc_type_map *const *block_maps; /* NULL: no block has gaps */
} gc_buffer;

/* The arguments of a blocking call as the program passes them. Where gc_call points to some, the call follows from
 * them: they have no lists, whose contents may change, and no type or operation that the program can free. */
#define GC_MOST_ARGUMENTS 8
typedef struct gc_arguments {
  uint64_t function; /* GC_FUNCTION_* */
  uint64_t words[GC_MOST_ARGUMENTS];
} gc_arguments;

/* A collective as this rank calls it. MPI_Bcast's buffer is `recv` on all ranks. */
typedef struct gc_call {
  const gc_arguments *arguments; /* NULL: run_again() cannot find the call */
  uint32_t function;             /* GC_FUNCTION_* */
  uint32_t order;                /* of a blocking call: GC_ORDER_BLOCKING or GC_ORDER_NEIGHBORS */
  int root;              /* -1: none; -2: this rank is in the root's group of an intercommunicator, and takes no part */
  int reduces;           /* if 0, type and op mean nothing: a call that a single rank reduces only moves data */
  int type, op;          /* gpucollDataType_t, gpucollRedOp_t, or -1 where the engine has none */
  const int *recvcounts; /* of MPI_Reduce_scatter: elements for each rank */
  void *mpi_op;          /* an operation that only the component knows */
  /* Reduces within each group before the engine runs a reduction that has `sources` and then only moves the results.
   * The engine calls it when it is certain that the call runs on the device. It returns MPI_SUCCESS or an MPI error
   * class, and may be NULL. `elements` is the size of an operand. */
  int (*before)(void *ctx);
  size_t elements;
  /* If set, this rank gets an operand of `operand_elements` from each of its `sources`, and reduces them itself in
   * the order of the list: as many elements as `recv` has, from `first_element` on. Its own operand goes to its
   * `destinations`; those of MPI_Reduce_scatter_block get a part each. */
  int combines;
  size_t operand_elements, first_element;
  /* The ranks that block i comes from or goes to, in MPI_Neighbor_* and on intercommunicators; otherwise NULL.
   * Without block_bytes all of `send` goes to each. A rank may be there several times, and so may this rank:
   * messages between the same two ranks match in the order of the lists. */
  const int *sources, *destinations;
  int n_sources, n_destinations;
  gc_buffer send, recv;
} gc_call;

/* The blob that a process gives to the others through the modex: opaque, at most GC_PROCESS_BLOB_BYTES. */
#define GC_PROCESS_BLOB_BYTES 336
typedef struct gc_process_blob {
  uint8_t bytes[GC_PROCESS_BLOB_BYTES];
} gc_process_blob;

/* The functions by which the engine uses MPI. `ctx` belongs to the component. */
typedef struct gc_host_calls {
  /* Returns the blob of rank `rank`, or NULL where that process runs without gpucoll. May make MPI progress. */
  const gc_process_blob *(*peer)(void *ctx, int rank);
  /* Returns a number that names the process of rank `rank` in the whole job and in spawned jobs. Local, no progress. */
  uint64_t (*process_name)(void *ctx, int rank);
  /* Makes one round of MPI progress. */
  void (*progress)(void);
} gc_host_calls;

typedef struct gc_comm_description {
  uint64_t context_id; /* equal on all members while the communicator lives */
  int rank, size;      /* on an intercommunicator: among the ranks of both groups, in one order on all ranks */
  int two_groups;      /* the communicator is an intercommunicator */
  const gc_host_calls *calls;
  void *ctx;        /* must stay valid until comm_free */
  const char *name; /* for messages */
  int threads;      /* the program may run other threads meanwhile: it asked for more than MPI_THREAD_SINGLE */
} gc_comm_description;

/* Levels of parameters: each names the people whom a parameter is for. */
enum { GC_LEVEL_USER, GC_LEVEL_TUNING, GC_LEVEL_DEVELOPER };
/* A parameter, for registration as an MCA variable. All strings but `value` have static storage. */
typedef struct gc_param {
  const char *name, *help, *kind; /* kind: "int", "size" (either may take words, too), "bool", "text", or "a|b|c" */
  char value[64];                 /* the value now: the default, or the environment's */
  int level;                      /* GC_LEVEL_* */
} gc_param;

/* Tells device pointers from host pointers without a call: an address inside [device_lo, device_hi) is device
 * memory. Any other address is host memory unless `ask` is set; then is_device() knows. Members change as devices
 * come into use. */
typedef struct gc_pointer_hint {
  uintptr_t device_lo, device_hi;
  int ask;
} gc_pointer_hint;

typedef struct gc_abi {
  uint32_t version, bytes; /* GC_ABI_VERSION, sizeof(gc_abi) */
  const char *library_version;

  /* Parameters and text. param() returns 0 past the last parameter. */
  int (*param)(size_t index, gc_param *out);
  /* Tells a name that a parameter no longer has, which set_param() refuses with the new one. Returns 0 past the last.
   */
  int (*old_param)(size_t index, const char **name);
  int (*set_param)(const char *name, const char *text);
  int64_t (*param_value)(const char *name); /* of a choice: its index */
  void (*set_log_sink)(void (*sink)(int level, const char *line));
  /* Logs through the one sink. level: -1 error, 0 warning, 1 info, 2 debug. */
  void (*log)(int level, const char *text);

  /* Process. Call process_open before the modex is committed, and process_close when MPI is about to be finalized.
   * process_close waits, for a bounded time, until peers no longer use this process's memory, and calls progress().
   * tells: this process alone warns of what all processes of the job see alike. */
  int (*process_open)(gc_process_blob *mine, int tells);
  void (*process_close)(void (*progress)(void));
  /* Tells the other processes not to wait for this one. Call it after process_close, once the program cannot call
     MPI any more. */
  void (*process_ended)(void);

  /* Pointers and memory. copy() takes host or device memory on either side. stage_get() returns pinned host memory
     where it can. */
  const gc_pointer_hint *hint;
  int (*is_device)(const void *pointer);
  /* Returns the number of the device that this memory is of; -1: of none, as managed memory, which the kernels of all
     devices see. */
  int (*device_number)(const void *pointer);
  int (*copy)(void *dst, const void *src, size_t bytes);
  /* Copies runs at the same offsets from both addresses, many at once. Returns GC_STAGE where it cannot: copy them
     one by one. */
  int (*copy_strided)(void *host, void *device, const gc_runs *runs, size_t n, int to_device);
  /* Copies the first `bytes` bytes of data of the elements that begin at `memory`, which is device memory, to
     consecutive bytes at `packed`, which is host memory, or (to_device) back. `bytes` may end within an element. */
  int (*copy_packed)(const gc_type_map *map, void *memory, void *packed, size_t bytes, int to_device);
  void *(*stage_get)(size_t bytes); /* returns NULL where there is no memory */
  /* Returns a stage of which the caller may well use the first bytes only: takes no memory that others need, and costs
   * little. */
  void *(*stage_reserve)(size_t bytes);
  void (*stage_put)(void *stage);

  /* Communicators. Both functions do local work only. comm_new returns NULL where the engine cannot work: then stage
     everything. */
  gc_comm *(*comm_new)(const gc_comm_description *description);
  void (*comm_free)(gc_comm *comm);

  /* Runs a blocking collective of which this rank has device memory. Publishes the call on the board, waits until
   * the other ranks arrive, and runs on the device if every rank can. Returns MPI_SUCCESS, GC_STAGE or an MPI error
   * class. */
  int (*run)(gc_comm *comm, const gc_call *call);
  /* Does the same for a call that run() has had with these arguments before, where the engine keeps it and the buffers
   * are the same memory still. Returns GC_ANEW otherwise. */
  int (*run_again)(gc_comm *comm, const gc_arguments *arguments);

  /* Starts a nonblocking collective. A call with device memory passes `call`. A call with host memory, or of a
   * function that is not counted (GC_FUNCTION_none), passes NULL, and comes here only where gc_goes_straight()
   * returns 0. Returns MPI_SUCCESS or an MPI error class. *pending is NULL where the call goes through the host at
   * once. Otherwise turn() drives it, and its `state` says what to do: call host_begun() after GC_HOST_TURN, or
   * end() after GC_ENDED; either frees it. None of these functions waits or makes MPI progress, except that start()
   * may make progress at the first call with device memory. Any thread may call them. */
  int (*start)(gc_comm *comm, uint32_t function, const gc_call *call, gc_pending **pending);
  void (*turn)(gc_comm *comm); /* drives all calls that are under way as far as they can go */
  void (*host_begun)(gc_pending *pending);
  int (*end)(gc_pending *pending); /* returns MPI_SUCCESS or an MPI error class */
  /* With GC_PERSISTENT added to the function, or to GC_FUNCTION_none, start() makes a persistent collective, and
   * reports GC_HOST_TURN where it goes through the host. host_begun() or else free_persistent() frees it; end() does
   * not. restart() starts it, also before it is GC_READY, unless it is under way. publish_starts() must follow: it
   * tells the other ranks of all collectives that were started, and those that they learn of together may run in one
   * launch. */
  void (*restart)(gc_pending *pending);
  void (*publish_starts)(gc_comm *comm);
  void (*free_persistent)(gc_pending *pending);
  /* Makes progress until every nonblocking collective that was started has been begun, on the device or the host. */
  void (*drain)(gc_comm *comm);

  /* Tells the other ranks that this rank cannot make a call, since a buffer that it needs is NULL: they end the call
   * with an error. `order`: as in gc_call, or GC_ORDER_NONBLOCKING. With GC_FUNCTION_none, which nobody counts, it
   * does nothing. */
  void (*refuse)(gc_comm *comm, uint32_t order, uint32_t function);

  /* Returns how many collectives of MPI, and local reductions, this process has run on a device. */
  uint64_t (*runs)(void);
  /* Returns how many launches these took. */
  uint64_t (*launches)(void);
  /* Reads which functions other ranks would rather run on their devices, in calls of this form: see
     gc_asks_engine(). */
  void (*look_at_wishes)(gc_comm *comm, uint32_t form);
  /* Drops what the engine keeps about this map. Call it when the type is freed. */
  void (*forget_map)(uint64_t id);
  /* Reduces as MPI_Reduce_local does, where a buffer is device memory; type and op as in gc_call. Returns
   * MPI_SUCCESS, an MPI error class, or GC_STAGE where it has done nothing. */
  int (*reduce_local)(const void *in, void *inout, size_t count, int type, int op);
  /* Allocates memory on the device that owns `like`; returns NULL where there is none. */
  void *(*device_get)(const void *like, size_t bytes);
  void (*device_put)(void *memory);
  /* Returns how much has been counted so far, and, where these are not NULL, its name and a sentence about it, with
   * static storage. Past the last counter it changes nothing, and returns 0. */
  uint64_t (*counter)(size_t index, const char **name, const char **help);

  /* Tell why a collective, or a message that is sent, does not go the fast way (`cause`: a place in
   * base/observe/causes.def): in the log once for each communicator and cause. context: of the message's key; comm: its
   * name. */
  void (*tell_slow)(gc_comm *comm, uint32_t function, uint32_t cause);
  void (*tell_slow_message)(uint64_t context, const char *comm, uint32_t cause);

  /* Record a message of device memory, where these are not NULL. Another thread may end it than began it. */
  gc_traced (*message_begun)(const gc_traced_message *message);
  void (*message_ended)(gc_traced traced, const gc_traced_message *message);
} gc_abi;

/* Returns the table, or NULL where this library does not offer `version`. */
__attribute__((visibility("default"))) const gc_abi *gpucoll_abi(uint32_t version);

/* Returns whether any pointer can be device memory. */
static inline int gc_has_devices(const gc_abi *abi) {
  return __atomic_load_n(&abi->hint->device_hi, __ATOMIC_ACQUIRE) != 0 ||
         __atomic_load_n(&abi->hint->ask, __ATOMIC_RELAXED);
}

static inline int gc_is_device(const gc_abi *abi, const void *pointer) {
  uintptr_t p = (uintptr_t)pointer;
  const gc_pointer_hint *h = abi->hint;
  /* Read the end first, with acquire: a thread that sees the end sees the start as well. */
  uintptr_t end = __atomic_load_n(&h->device_hi, __ATOMIC_ACQUIRE);
  if (p < end && p >= __atomic_load_n(&h->device_lo, __ATOMIC_RELAXED)) return 1;
  return __atomic_load_n(&h->ask, __ATOMIC_RELAXED) && abi->is_device(pointer);
}

/* Publishes a call with host memory on the board. This is all that the host path does there: it stores one word. */
static inline void gc_publish_host(gc_comm *c, uint32_t order, uint32_t function) {
  const uint64_t number = ++c->orders[order].sequence;
  __atomic_store_n(&c->orders[order].lines[number % GC_BOARD_LINES].arrival, gc_arrival(number, function, GC_KIND_HOST),
                   __ATOMIC_RELEASE);
}

/* Returns whether a collective without device memory, in a process with devices, goes to the engine all the same:
 * the engine knows how many other ranks have device memory. Other threads may write what this function reads. */
static inline int gc_asks_engine(const gc_abi *abi, gc_comm *c, uint32_t form, uint32_t function) {
  gc_asking *asking = &c->asking[form];
  if (__atomic_load_n(&asking->on_host, __ATOMIC_RELAXED) >> function & 1) return 1;
  if (++asking->calls < __atomic_load_n(&asking->next_look, __ATOMIC_RELAXED)) return 0;
  abi->look_at_wishes(c, form);
  return (int)(__atomic_load_n(&asking->on_host, __ATOMIC_RELAXED) >> function & 1);
}

/* Returns whether a nonblocking collective without device memory may go on at once, and publishes it if so. */
static inline int gc_goes_straight(gc_comm *c, uint32_t function) {
  if (__atomic_load_n(&c->busy, __ATOMIC_RELAXED)) return 0;
  if (function != GC_FUNCTION_none) gc_publish_host(c, GC_ORDER_NONBLOCKING, function);
  return 1;
}

#ifdef __cplusplus
}
#endif
#endif
