/* Requests of our own for messages. Each stands for a request of the PML (`inner`) that carries the message, or the
 * envelope of one that is copied straight from the sender's memory (`transfer`) or, between nodes, goes in pieces. MPI
 * progress looks through those under way, and completes ours when the data are where they belong.
 *
 * A persistent request begins a new message at each start.
 * Thread safety: the list has a lock; what may call MPI or the application is done outside of it. Ownership: a request
 * owns its host memory and its transfer, and retains its communicator and its type: one under way until it is complete,
 * a persistent one until it is freed.
 */
#ifndef GPUCOLL_MCA_PT2PT_MESSAGE_REQUESTS_H
#define GPUCOLL_MCA_PT2PT_MESSAGE_REQUESTS_H

#include "mca/common/outer_requests.h"
#include "mca/pt2pt/message_data.h"
#include "mca/pt2pt/pieces.h"

/* The other side of a message, as the PML is told. */
typedef struct gcm_route {
  int peer, tag;
  mca_pml_base_send_mode_t mode; /* of a send */
  ompi_communicator_t *comm;
  ompi_message_t **message; /* of a receive that has been matched, else NULL */
} gcm_route;

/* Open MPI 5.0 takes requests of messages for those of a PML. */
typedef struct gcm_message_request {
  mca_pml_base_request_t super;
  ompi_request_t *inner; /* MPI_REQUEST_NULL: none, or it has ended */
  gc_transfer *transfer; /* NULL: none */
  gcm_pieces *pieces;    /* NULL: the message does not go in pieces */
  gcm_message_data data;
  gcm_route route;
  gc_envelope envelope;
  void *host; /* data.place.bytes bytes for data on the device; NULL until needed */
  ompi_status_public_t status;
  int rc;
  uint32_t slow; /* why the PML carries the data of a send: GC_CAUSE_* */
  gc_traced traced;
  /* A receive of the PML's own that turned out to be an envelope: it is completed in place of ours. It keeps a pointer
   * to ours at `stands_at` until then. */
  ompi_request_t *stands_for;
  void **stands_at;
  bool receives;
  bool matched;   /* by a probe, before it was received */
  bool started;   /* once */
  bool straight;  /* the data do not go by the PML */
  bool listed;    /* among those under way */
  bool ended;     /* it is complete, or about to be */
  int cancelling; /* threads that are about to cancel the PML's request */
  bool detached;  /* nobody waits for it: the application has freed it while it was under way */
  struct gcm_message_request *next;
} gcm_message_request;
OBJ_CLASS_DECLARATION(gcm_message_request);

/* Returns NULL where there is no memory. */
gcm_message_request *gcm_message_request_new(const gcm_message_data *data, const gcm_route *route, bool receives,
                                             bool persistent);
/* Gives back what gcm_message_request_new() made. */
void gcm_message_request_release(gcm_message_request *r);
/* Makes a request for a buffer of the application and, unless it is persistent, begins it. Returns an MPI error class.
 */
int gcm_make_message(const void *buffer, size_t count, gcm_type *type, bool on_device, const gcm_route *route,
                     bool receives, bool persistent, ompi_request_t **request);
/* Begins the message: looks after the request from now on. Returns an MPI error class. */
int gcm_begin_message(gcm_message_request *r);

/* A receive into host memory that the PML has completed with this status may have brought an envelope. Returns a
 * request that receives the message of it, to be given to gcm_watch_message(), or NULL where there was none. */
gcm_message_request *gcm_find_envelope(const gcm_message_data *data, ompi_communicator_t *comm,
                                       const ompi_status_public_t *status, bool matched);
void gcm_watch_message(gcm_message_request *r);
/* As gcm_watch_message(), and ends the PML's receive that brought the envelope. That keeps the request `at` a place of
 * its own, where it itself is stored when it is about to end. */
void gcm_stand_for(gcm_message_request *r, ompi_request_t *receive, void **at);
/* The program has freed the receive that the request stands for. REQUIRES: gcm_list_lock. */
void gcm_leave_message(gcm_message_request *r);
/* Ends and frees a receive of the PML's that the program has freed before it ended. Returns an MPI error class. */
int gcm_adopt_receive(void *buffer, size_t count, gcm_type *type, ompi_communicator_t *comm, bool matched,
                      ompi_request_t *receive);
/* Notes a message of the size of an envelope that the PML carries; it must get it next. */
void gcm_note_message(ompi_communicator_t *comm, int to, int tag);
/* Gives the size of the message to the status of a probe that may have found an envelope. Returns whether the message
 * is known: it is not where another thread has received it since. again: the same probe has just found such a message
 * that was not known. */
bool gcm_correct_probe(ompi_communicator_t *comm, ompi_status_public_t *status, bool matched, bool again);

/* Returns whether the PML has, in a message of so many bytes, as many as an envelope. */
static GCM_INLINE bool gcm_may_be_envelope(size_t bytes) {
  return bytes - GC_LEAST_ENVELOPE_BYTES <= GC_ENVELOPE_BYTES - GC_LEAST_ENVELOPE_BYTES;
}

/* Tells why the PML carries the data of a message that is sent (GC_CAUSE_*). */
void gcm_tell_slow_message(const gcm_route *route, uint32_t cause);

/* Starts persistent requests of ours. */
int gcm_start_messages(size_t count, ompi_request_t **requests);
void gcm_stop_messages(void); /* no request of ours is under way any more */

/* Guards the list of requests under way, and which request stands for which. */
extern opal_mutex_t gcm_list_lock;

/* The PML must get messages in the order in which they are offered or noted, and probes must find them so. A thread may
 * lock this order several times: what it calls of the PML makes progress, which may start other messages. */
void gcm_lock_order(void);
void gcm_unlock_order(void);

/* Returns host memory for a message, or NULL with a sentence logged. gcm_abi->stage_put() takes it back. */
void *gcm_host_memory(size_t bytes);

#endif
