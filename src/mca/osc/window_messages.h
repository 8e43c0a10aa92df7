/* Messages between the processes of a window of device memory, on the window's own communicator.
 *
 *   origin                                    target
 *   header, with the type of the target  ->   receives the next header
 *   rest of the type                     ->   only where the header has no room for it
 *   data                                 ->   of GCM_PUT and accumulates
 *                                        <-   reply: the data of GCM_GET, the old data of what fetches; else an answer
 *
 * The header has a tag of its own, and tells the first of the tags of the others. The types' packed descriptions are
 * Open MPI's. A reply of data that has no bytes says that the target could not do it.
 */
#ifndef GPUCOLL_MCA_OSC_WINDOW_MESSAGES_H
#define GPUCOLL_MCA_OSC_WINDOW_MESSAGES_H

#include <stdint.h>

typedef enum gcm_window_verb {
  GCM_PUT,
  GCM_GET,
  GCM_ACCUMULATE,
  GCM_GET_ACCUMULATE,
  GCM_SWAP,     /* the header has the compared element and the new one, packed */
  GCM_LOCK,     /* the answer comes when the lock is held */
  GCM_UNLOCK,   /* no answer, as for those below */
  GCM_POST,     /* an exposure has begun */
  GCM_COMPLETE, /* an access has ended */
  GCM_END       /* to the sender itself: no more headers come */
} gcm_window_verb;

enum {
  GCM_TAG_HEADER = 0,
  /* The tags of one operation begin at a multiple of GCM_TAGS, from GCM_TAGS on. */
  GCM_TAGS = 4,
  GCM_TAG_OF_TYPE = 0,
  GCM_TAG_OF_DATA = 1,
  GCM_TAG_OF_REPLY = 2,
  GCM_HEADER_ROOM = 480
};

typedef struct gcm_window_header {
  uint32_t verb;
  int32_t tag;
  int64_t at; /* in bytes */
  int32_t count;
  int32_t op;                                 /* MPI's number of it in Fortran, the same in all processes */
  int32_t exclusive;                          /* of GCM_LOCK, GCM_UNLOCK */
  uint32_t type_bytes;                        /* of the description */
  _Alignas(16) uint8_t room[GCM_HEADER_ROOM]; /* the description, if it fits; after it, at a multiple of 16, elements */
} gcm_window_header;

typedef struct gcm_window_answer {
  int32_t rc; /* an MPI error class */
} gcm_window_answer;

/* Returns where the elements of GCM_SWAP begin in the room. */
static inline uint32_t gcm_elements_at(const gcm_window_header *header) { return (header->type_bytes + 15) / 16 * 16; }

#endif
