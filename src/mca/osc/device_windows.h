/* Windows of device memory (MPI_Win_create with a device pointer on some rank). Open MPI's components would read and
 * write such memory on the CPU, so these windows are ours from end to end: no component of the framework osc has a part
 * in them. An operation is a message that tells the target what to do (window_messages.h), and others with the data,
 * over the PML, which carries device memory of any type (mca/pt2pt). The target acts while it makes MPI progress.
 *
 *   device_windows.c        makes and frees windows
 *   window_accesses.c       the origin's functions of MPI
 *   window_operations.c     the origin's side of an operation
 *   window_targets.c        the target's side
 *   window_accumulates.c    what reads and changes memory of the target at once
 *   window_epochs.c         synchronisation
 *
 * Thread safety: any thread, as MPI allows it. What the target's side has belongs to whoever holds the drive lock,
 * which is only tried, as the PML may make progress while it is held. Ownership: a window owns its communicator.
 */
#ifndef GPUCOLL_MCA_OSC_DEVICE_WINDOWS_H
#define GPUCOLL_MCA_OSC_DEVICE_WINDOWS_H

#include <stdatomic.h>

#include "mca/common/outer_requests.h"
#include "mca/osc/window_messages.h"
#include "mca/osc/windows.h"

/* The facts of one rank's memory that all ranks know. */
typedef struct gcm_window_part {
  int64_t bytes, unit;
} gcm_window_part;

/* A header that is being received, or has come and could not be taken yet. */
typedef struct gcm_header_slot {
  gcm_window_header header;
  ompi_request_t *receiving; /* NULL: none is */
  int origin;
  bool has_come;
} gcm_header_slot;
enum { GCM_HEADER_SLOTS = 16 };

typedef struct gcm_incoming gcm_incoming;

typedef struct gcm_device_window {
  gcm_window_functions functions; /* the window's table points here */
  ompi_communicator_t *comm;      /* its own */
  char name[MPI_MAX_OBJECT_NAME]; /* of the communicator that the program gave */
  void *base;
  int n; /* ranks */
  gcm_window_part *parts;

  /* The origin's side. */
  atomic_int *under_way;   /* operations on each target */
  atomic_int n_operations; /* of them */
  atomic_int n_messages;   /* with those of synchronisation */
  atomic_uint tags;        /* that were given out */
  atomic_int failed;       /* the class of a failure that the next synchronisation tells; else MPI_SUCCESS */
  atomic_bool is_broken;   /* a process has ended, and what it had to do is never done */

  atomic_bool *watched; /* of each rank: whether its end would be noticed */

  /* Epochs: see window_epochs.c. */
  uint8_t *locks; /* that this rank holds */
  bool fenced, locked_all;
  int *accessed, *exposed; /* the ranks of this access, and of this exposure; NULL: there is none */
  int n_accessed, n_exposed;
  atomic_int *posts, *completes; /* of each rank, that have not been waited for */

  /* The target's side. */
  gcm_header_slot slots[GCM_HEADER_SLOTS];
  int next_slot, n_receiving;
  gcm_incoming *incoming, **incoming_end; /* in the order of their headers */
  int n_shared;                           /* locks that are held */
  bool is_exclusive;
  atomic_bool is_quiet; /* all slots have ended, and nothing is under way */
  struct gcm_device_window *next;
} gcm_device_window;

static inline gcm_device_window *gcm_window_of(const ompi_win_t *win) {
  return (gcm_device_window *)(void *)win->w_osc_module;
}

/* device_windows.c: the ranks agree what a new window is. Where some rank's memory is one that only a device reaches,
 * *is_ours becomes true, and on success the window is made. leaves: this rank leaves its memory to Open MPI, and so do
 * all then. Returns an MPI error class, or one of Open MPI's. */
int gcm_make_device_window(ompi_win_t *win, void *base, size_t size, int unit, ompi_communicator_t *comm, int *model,
                           bool leaves, bool *is_ours);
/* own_component.c: adds our component to those of the framework. */
void gcm_offer_own_component(void);
/* Puts a window among those that are driven, or takes it away from them. */
void gcm_drive_window(gcm_device_window *w);
void gcm_stop_driving(gcm_device_window *w);
/* No window is driven any more. */
void gcm_stop_windows(void);

/* window_accesses.c, window_epochs.c: put their functions into the table of a window. */
void gcm_put_accesses(gcm_window_functions *functions);
void gcm_put_epochs(gcm_window_functions *functions);

/* window_epochs.c: returns whether this rank may access a target now. */
bool gcm_may_access(const gcm_device_window *w, int target);
/* From now on it is noticed when a rank ends. Cheap once done. */
void gcm_watch_rank(gcm_device_window *w, int rank);
/* Returns whether a rank that is watched is known to have ended. */
bool gcm_has_lost_rank(gcm_device_window *w, int rank);
/* Ends all waits for what this window does, now and later, and says why, once. */
void gcm_break_window(gcm_device_window *w, const char *why);
/* Makes progress until `ready`, of the argument, is true, or one of the `n` ranks (NULL: of all ranks) has ended.
 * Returns an MPI error class. */
int gcm_wait_for_window(gcm_device_window *w, bool (*ready)(gcm_device_window *w, const void *argument),
                        const void *argument, const int *ranks, int n);

/* One side of an operation. */
typedef struct gcm_window_data {
  void *buffer;
  size_t count;
  gcm_type *type; /* NULL: there is no such side */
} gcm_window_data;

/* An operation, as its origin was told. */
typedef struct gcm_operation_call {
  gcm_window_verb verb;
  int target;
  ptrdiff_t at; /* in units of the target */
  int count;    /* of elements at the target */
  gcm_type *type;
  gcm_op *op; /* NULL: none */
  gcm_window_data origin, result;
  const void *compared; /* of GCM_SWAP */
} gcm_operation_call;

/* window_operations.c: begins an operation, and gives a request for it where `request` is not NULL. */
int gcm_begin_operation(const ompi_win_t *win, const gcm_operation_call *call, ompi_request_t **request);
/* Sends a message of synchronisation. With a request it completes when the target has answered. */
int gcm_tell(gcm_device_window *w, gcm_window_verb verb, int target, bool exclusive, ompi_request_t **answered);

/* window_targets.c: posts the receives for headers. */
int gcm_open_target(gcm_device_window *w);
/* Lets go of what the target's side holds. */
void gcm_forget_target(gcm_device_window *w);
/* Acts on what has come. Returns whether something was done. REQUIRES: the drive lock. */
int gcm_serve_window(gcm_device_window *w);

#endif
