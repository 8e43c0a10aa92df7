/* The boundary between the C skins (which include Open MPI's internal headers) and the C++ engine: plain C, no
 * Open MPI types, one table of functions. libgpucoll exports gpucoll_abi(); the component asks for the version it
 * was built with and refuses to work with another.
 *
 * Error values are MPI error classes (MPI_SUCCESS = 0); a function that fails has logged the sentence already.
 * Thread safety: functions on different gc_comm may run at once; those on one gc_comm one at a time (MPI's rule for
 * collectives on a communicator).
 */
#ifndef GPUCOLL_CORE_ABI_H
#define GPUCOLL_CORE_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "proto/format/board.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GC_ABI_VERSION 11u

/* How far a nonblocking collective of gc_abi.start has come. */
enum {
  GC_WAITS,     /* nothing to be done here */
  GC_HOST_TURN, /* goes through the host, and must be begun there now: those behind it wait for that */
  GC_READY,     /* a persistent one that is not started, but could be at once */
  GC_ENDED
};
/* The engine's side of a nonblocking or persistent collective; `state` is stored with release. */
typedef struct gc_pending {
  int state;
} gc_pending;

/* Answer of gc_abi.run besides MPI error classes. */
#define GC_STAGE (-1) /* every rank of the communicator got this answer, or has host memory: go through the host */

/* Functions, 1 << GC_FUNCTION_*, of which calls with host memory alone go to the engine, too; and when to look for more
 * of them, in such calls that do not. */
typedef struct gc_asking {
  uint64_t on_host;
  uint32_t calls, next_look;
} gc_asking;

/* A communicator of the engine. The first members are read by the functions below. */
typedef struct gc_comm {
  struct {
    gc_board_line *lines; /* this rank's GC_BOARD_LINES lines */
    uint64_t sequence;    /* of the last collective entered */
  } orders[GC_ORDERS];
  int busy; /* nonblocking collectives are under way that those behind them must not overtake */
  gc_asking asking[GC_FORMS];
} gc_comm;

/* `count` runs of `bytes` of data each, `stride` apart; the first at `offset` from where an element begins. */
typedef struct gc_runs {
  ptrdiff_t offset;
  size_t bytes;
  size_t count;
  ptrdiff_t stride;
} gc_runs;

/* A type with gaps: where the data of one element lie. Elements follow each other by `extent`. */
typedef struct gc_type_map {
  uint64_t id; /* no other map of this process ever has it */
  size_t size; /* bytes of data of an element */
  ptrdiff_t extent;
  ptrdiff_t true_lb;   /* the data lie in [true_lb, true_lb + true_extent) */
  size_t true_extent;  /* of an element */
  const gc_runs *runs; /* in the order of the data; neighbours are joined */
  size_t n_runs;
} gc_type_map;

/* One side of a collective: a buffer as bytes of data in memory. Either blocks one after another, all of them `bytes`
 * long, or one block for each rank or neighbour: block_bytes[r] bytes at `address` + block_offsets[r]. Where there is a
 * map, they are the data of elements with gaps, of which the first begins there; else there are no gaps. */
typedef struct gc_buffer {
  int given;           /* 0: MPI_IN_PLACE, or no significant argument of this rank */
  const void *address; /* may lie outside of memory where there are offsets or a map */
  size_t bytes;
  const gc_type_map *map;
  const size_t *block_bytes; /* NULL: one after another */
  const ptrdiff_t *block_offsets;
  const gc_type_map *const *block_maps; /* NULL: no block has gaps */
} gc_buffer;

/* A collective as this rank calls it. MPI_Bcast's buffer is `recv` on all ranks. */
typedef struct gc_call {
  uint32_t function;     /* GC_FUNCTION_* */
  uint32_t order;        /* of a blocking one: GC_ORDER_BLOCKING or GC_ORDER_NEIGHBORS */
  int root;              /* -1: none; -2: of an intercommunicator, in this rank's group, which takes no part */
  int reduces;           /* else type and op mean nothing; what one rank alone reduces is moved */
  int type, op;          /* gpucollDataType_t, gpucollRedOp_t, or -1 where the engine has none */
  const int *recvcounts; /* of MPI_Reduce_scatter: elements for each rank */
  void *skin_op;         /* the skin's own */
  /* A reduction that has `sources` only moves what `before` reduces within each group: called when it is certain that
   * it runs on the device, MPI_SUCCESS or an MPI error class; may be NULL. `elements`: of an operand. */
  int (*before)(void *ctx);
  size_t elements;
  /* Unless it combines: then it gets an operand of `operand_elements` from each of its `sources` and reduces them
   * itself, in the order of the list, from `first_element` on as many elements as `recv` has. What it gives goes to its
   * `destinations`, of MPI_Reduce_scatter_block a part to each. */
  int combines;
  size_t operand_elements, first_element;
  /* Of MPI_Neighbor_*, and of intercommunicators, else NULL: the ranks that block i comes from or goes to; without
   * block_bytes all of `send` goes to each. A rank may be there several times, this one too: messages between the same
   * two ranks match in the order of the lists. */
  const int *sources, *destinations;
  int n_sources, n_destinations;
  gc_buffer send, recv;
} gc_call;

/* What a process tells the others through the modex: opaque, at most GC_PROCESS_BLOB_BYTES. */
#define GC_PROCESS_BLOB_BYTES 256
typedef struct gc_process_blob {
  uint8_t bytes[GC_PROCESS_BLOB_BYTES];
} gc_process_blob;

/* What the engine asks of MPI. `ctx` is the skin's. */
typedef struct gc_host_calls {
  /* The blob of rank `rank`, or NULL where that process runs without gpucoll. May make MPI progress. */
  const gc_process_blob *(*peer)(void *ctx, int rank);
  /* A number that names the process of rank `rank` in the whole job and in spawned ones. Local, no progress. */
  uint64_t (*process_name)(void *ctx, int rank);
  /* One round of MPI progress. */
  void (*progress)(void);
} gc_host_calls;

typedef struct gc_comm_description {
  uint64_t context_id; /* equal on all members while the communicator lives */
  int rank, size;      /* of an intercommunicator: among the ranks of both groups, in one order on all */
  int two_groups;      /* whether it is one */
  const gc_host_calls *calls;
  void *ctx;        /* must stay valid until comm_free */
  const char *name; /* for messages */
} gc_comm_description;

/* A parameter, for registration as an MCA variable. Strings have static storage, but `value`. */
typedef struct gc_param {
  const char *name, *help, *kind; /* kind: "int", "size", "bool", "text", or the choices "a|b|c" */
  char value[64];                 /* today's value: the default, or the environment's */
} gc_param;

/* A first look at a pointer without a call: inside [device_lo, device_hi) it is device memory; otherwise it is host
 * memory unless ask is set, and then is_device() knows. Members change as devices come into use. */
typedef struct gc_pointer_hint {
  uintptr_t device_lo, device_hi;
  int ask;
} gc_pointer_hint;

typedef struct gc_abi {
  uint32_t version, bytes; /* GC_ABI_VERSION, sizeof(gc_abi) */
  const char *library_version;

  /* Parameters and text. param() answers 0 past the last. */
  int (*param)(size_t index, gc_param *out);
  int (*set_param)(const char *name, const char *text);
  int64_t (*param_value)(const char *name); /* choice: its index */
  void (*set_log_sink)(void (*sink)(int level, const char *line));
  /* Logs through the one sink. level: -1 error, 0 warning, 1 info, 2 debug. */
  void (*log)(int level, const char *text);

  /* Process. process_open before the modex is committed; process_close when MPI is about to be finalized (calls may
   * make progress: waits, bounded, until peers no longer use this process's memory). */
  int (*process_open)(gc_process_blob *mine);
  void (*process_close)(void (*progress)(void));
  /* After process_close, once the program cannot call MPI any more: tells the others not to wait for this process. */
  void (*process_ended)(void);

  /* Pointers and memory. copy: either side host or device. stage_get gives pinned host memory where it can. */
  const gc_pointer_hint *hint;
  int (*is_device)(const void *pointer);
  int (*copy)(void *dst, const void *src, size_t bytes);
  /* The same for runs at the same offsets from both, many at once. GC_STAGE: it cannot; copy them one by one. */
  int (*copy_runs)(void *host, void *device, const gc_runs *runs, size_t n, int to_device);
  void *(*stage_get)(size_t bytes); /* NULL: no memory */
  void (*stage_put)(void *stage);

  /* Communicators. Both do local work only. comm_new answers NULL where it cannot work; then stage everything. */
  gc_comm *(*comm_new)(const gc_comm_description *description);
  void (*comm_free)(gc_comm *comm);

  /* A blocking collective of which this rank has device memory: MPI_SUCCESS, GC_STAGE or an MPI error class. Publishes
   * on the board, waits for the other ranks' arrival, and runs on the device if every rank can. */
  int (*run)(gc_comm *comm, const gc_call *call);

  /* A nonblocking collective, device memory in `call`; or (`call` is NULL) host memory, or a function that is not
   * counted (GC_FUNCTION_none), either only where gc_goes_straight() says no. MPI_SUCCESS or an MPI error class.
   * *pending is NULL where it goes through the host at once; else it goes on in turn(), from its own `state`: after
   * GC_HOST_TURN tell host_begun(), after GC_ENDED ask end(); either frees it. No function of these waits or makes MPI
   * progress, but start() may make some at the first call with device memory. They may be called from any thread. */
  int (*start)(gc_comm *comm, uint32_t function, const gc_call *call, gc_pending **pending);
  void (*turn)(gc_comm *comm); /* what is under way goes on as far as it can */
  void (*host_begun)(gc_pending *pending);
  int (*end)(gc_pending *pending); /* MPI_SUCCESS or an MPI error class */
  /* With GC_PERSISTENT added to the function, or to GC_FUNCTION_none, start() makes a persistent collective, as
   * GC_HOST_TURN on the host; it is freed by host_begun() or else by free_persistent(). restart() starts it, also
   * before it is GC_READY, if only it is not under way; end() does not free it. The other ranks learn of all that were
   * started by publish_starts(), which must follow: what they learn of together may run in one launch. */
  void (*restart)(gc_pending *pending);
  void (*publish_starts)(gc_comm *comm);
  void (*free_persistent)(gc_pending *pending);
  /* Makes progress until every nonblocking collective that was started has been begun, on the device or the host. */
  void (*drain)(gc_comm *comm);

  /* This rank cannot make a call, as a buffer that it needs is NULL: the other ranks end it with an error. `order`: as
   * of gc_call, or GC_ORDER_NONBLOCKING. With GC_FUNCTION_none, which nobody counts, it says nothing. */
  void (*refuse)(gc_comm *comm, uint32_t order, uint32_t function);

  /* How many collectives of MPI, and local reductions, this process has run on a device. */
  uint64_t (*runs)(void);
  /* And in how many launches. */
  uint64_t (*launches)(void);
  /* Looks at what other ranks would rather run on their devices, in calls of this form: gc_asks_engine(). */
  void (*look_at_wishes)(gc_comm *comm, uint32_t form);
  /* The type of this map is freed: what is kept about it is of no more use. */
  void (*forget_map)(uint64_t id);
  /* MPI_Reduce_local where a buffer is device memory; type and op as in gc_call. MPI_SUCCESS, an MPI error class, or
   * GC_STAGE, and then nothing is done. */
  int (*reduce_local)(const void *in, void *inout, size_t count, int type, int op);
  /* Memory of the device that `like` is memory of; NULL: there is none. */
  void *(*device_get)(const void *like, size_t bytes);
  void (*device_put)(void *memory);
} gc_abi;

/* The table, or NULL where this library does not offer `version`. */
__attribute__((visibility("default"))) const gc_abi *gpucoll_abi(uint32_t version);

/* Whether any pointer can be device memory. */
static inline int gc_has_devices(const gc_abi *abi) {
  return __atomic_load_n(&abi->hint->device_hi, __ATOMIC_ACQUIRE) != 0 ||
         __atomic_load_n(&abi->hint->ask, __ATOMIC_RELAXED);
}

static inline int gc_is_device(const gc_abi *abi, const void *pointer) {
  uintptr_t p = (uintptr_t)pointer;
  const gc_pointer_hint *h = abi->hint;
  /* The end first, with acquire: whoever sees it has the start as well. */
  uintptr_t end = __atomic_load_n(&h->device_hi, __ATOMIC_ACQUIRE);
  if (p < end && p >= __atomic_load_n(&h->device_lo, __ATOMIC_RELAXED)) return 1;
  return __atomic_load_n(&h->ask, __ATOMIC_RELAXED) && abi->is_device(pointer);
}

/* The host-buffer path's whole share in the arrival board: one word stored. */
static inline void gc_publish_host(gc_comm *c, uint32_t order, uint32_t function) {
  const uint64_t number = ++c->orders[order].sequence;
  __atomic_store_n(&c->orders[order].lines[number % GC_BOARD_LINES].arrival, gc_arrival(number, function, GC_KIND_HOST),
                   __ATOMIC_RELEASE);
}

/* A collective without device memory, in a process with devices: whether it goes to the engine all the same, which
 * knows how many others have device memory. Other threads may write what it reads. */
static inline int gc_asks_engine(const gc_abi *abi, gc_comm *c, uint32_t form, uint32_t function) {
  gc_asking *asking = &c->asking[form];
  if (__atomic_load_n(&asking->on_host, __ATOMIC_RELAXED) >> function & 1) return 1;
  if (++asking->calls < __atomic_load_n(&asking->next_look, __ATOMIC_RELAXED)) return 0;
  abi->look_at_wishes(c, form);
  return (int)(__atomic_load_n(&asking->on_host, __ATOMIC_RELAXED) >> function & 1);
}

/* A nonblocking collective without device memory: whether it may go on at once, and then it is published. */
static inline int gc_goes_straight(gc_comm *c, uint32_t function) {
  if (__atomic_load_n(&c->busy, __ATOMIC_RELAXED)) return 0;
  if (function != GC_FUNCTION_none) gc_publish_host(c, GC_ORDER_NONBLOCKING, function);
  return 1;
}

#ifdef __cplusplus
}
#endif
#endif
