/* The target's side of one operation: shared between window_targets.c and window_accumulates.c. Thread safety: belongs
 * to whoever holds the drive lock. */
#ifndef GPUCOLL_MCA_OSC_WINDOW_TARGETS_H
#define GPUCOLL_MCA_OSC_WINDOW_TARGETS_H

#include "mca/osc/device_windows.h"
#include "mca/pt2pt/message_data.h"

typedef enum gcm_incoming_state {
  GCM_DESCRIBING, /* the type's description is on its way */
  GCM_RECEIVING,  /* the data are */
  GCM_WAITING,    /* for its turn */
  GCM_REPLYING,
  GCM_DONE
} gcm_incoming_state;

struct gcm_incoming {
  gcm_device_window *window;
  int origin;
  gcm_incoming_state state;
  gcm_window_header header;
  void *description;      /* one that had no room in the header */
  gcm_type *type;         /* NULL: none is known */
  size_t bytes;           /* of data */
  void *packed;           /* those that have come for an accumulate */
  void *old;              /* those that go back */
  ompi_request_t *moving; /* with the PML; NULL: nothing */
  gcm_window_answer answer;
  gcm_incoming *next;
};

static inline void *gcm_place_of(const gcm_incoming *in) { return gcm_address(in->window->base, in->header.at); }

/* window_accumulates.c: reads what the window has into in->old where it goes back, and changes it. Returns an MPI error
 * class. */
int gcm_apply(gcm_incoming *in);

#endif
