/* Device buffers by way of host memory: loads what a call reads, hands host memory to the module that was there
 * before, stores what the call wrote.
 *
 * Only bytes of data are stored, never the gaps of a type or between blocks: another operation may be writing there
 * at the same time (columns of one matrix received by several nonblocking calls).
 * Thread safety: free between different objects. Ownership: gcm_stage() takes host memory, gcm_unstage() gives it
 * back; in between, nothing points to the caller's arrays or types.
 */
#ifndef GPUCOLL_MCA_COLL_STAGING_H
#define GPUCOLL_MCA_COLL_STAGING_H

#include "mca/coll/plan.h"

typedef struct gcm_staged_buffer {
  const void *device; /* as the application passed it */
  void *host;         /* the address that stands for it: runs lie at the same offsets from both */
  void *memory;       /* the staging memory; NULL: not staged */
  bool among_many;    /* it is to be of malloc() where it is small */
  ptrdiff_t low;      /* the runs lie in [low, low + span) */
  size_t span;
  /* One run each, from the buffer that the application passed, in the order of the layout; neighbours are joined. */
  gc_runs *runs;
  size_t n_runs;
  bool mixed; /* some runs are host memory all the same, or another device's memory */
  bool load, store;
} gcm_staged_buffer;

typedef struct gcm_staged {
  gcm_staged_buffer send, recv;
} gcm_staged;

/* Takes staging memory for the sides that are on the device. These return MPI error classes, and on an error
 * nothing is held. */
int gcm_stage(gcm_staged *staged, const gcm_plan *plan);
/* Stages, then loads as gcm_load() does. */
int gcm_stage_and_load(gcm_staged *staged, const gcm_plan *plan);
/* Does the same for a call that may be one of very many under way: small buffers get memory of malloc(), as the blocks
 * of the engine's pool are large. */
int gcm_stage_and_load_among_many(gcm_staged *staged, const gcm_plan *plan);
/* Copies to the host what the call will read. */
int gcm_load(const gcm_staged *staged);
/* Copies to the device what the call has written. */
int gcm_store(const gcm_staged *staged);
void gcm_unstage(gcm_staged *staged);
/* Does the same, but never gives the host memory back: whoever was handed it has failed, and may still use it. */
void gcm_abandon(gcm_staged *staged);

/* The pointer to hand on in place of `buffer`. */
static inline void *gcm_handed(const gcm_staged_buffer *side, const void *buffer) {
  return side->memory != NULL ? side->host : (void *)(uintptr_t)buffer;
}

/* Puts the staging memory in the place of the parameters `send` and `recv` of the collective that is being staged. */
#define GCM_HAND_OVER(staged) recv = gcm_handed(&(staged)->recv, recv)
#define GCM_HAND_OVER_BOTH(staged)          \
  send = gcm_handed(&(staged)->send, send); \
  GCM_HAND_OVER(staged)

#endif
