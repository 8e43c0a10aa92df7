/* Requests of our own for messages of device memory. Each stands for a request of the PML (`inner`) that carries the
 * message from or to host memory; MPI progress looks through those under way, and completes ours when the PML's is
 * complete and the data are where they belong. A persistent one has a new request of the PML for each start, since
 * persistent buffered sends of Open MPI's own send the first start's data again.
 *
 * Thread safety: the list has a lock; what may call MPI or the application is done outside of it. Ownership: a request
 * owns its host memory and retains its communicator and its type: one under way until it is complete, a persistent one
 * until it is freed.
 */
#ifndef GPUCOLL_MCA_PT2PT_MESSAGE_REQUESTS_H
#define GPUCOLL_MCA_PT2PT_MESSAGE_REQUESTS_H

#include "mca/pt2pt/message_data.h"
#include "ompi/mca/pml/base/pml_base_request.h"

/* Open MPI 5.0 takes requests of messages for those of a PML. */
typedef struct gcm_message_request {
  mca_pml_base_request_t super;
  ompi_request_t *inner; /* MPI_REQUEST_NULL: none */
  gcm_message_data data;
  void *host; /* data.bytes bytes */
  mca_pml_base_send_mode_t mode;
  bool receives;
  bool listed;   /* among those under way */
  bool ended;    /* it is complete, or about to be */
  bool detached; /* the application has freed it while it was under way */
  struct gcm_message_request *next;
} gcm_message_request;
OBJ_CLASS_DECLARATION(gcm_message_request);

/* Makes a request with host memory for its data. The caller fills in peer, tag and mode where the request will be
 * started. Returns NULL, with a sentence logged and the class in *rc, where it cannot. */
gcm_message_request *gcm_message_request_new(const gcm_message_data *data, gcm_type *type, ompi_communicator_t *comm,
                                             bool receives, bool persistent, int *rc);
/* Gives back what gcm_message_request_new() made. */
void gcm_message_request_release(gcm_message_request *r);
/* Loads the data of a send, and gives the message to the PML. */
int gcm_message_request_start(gcm_message_request *r);
/* Looks after the request from now on; `inner` is under way. */
void gcm_message_request_begin(gcm_message_request *r);

/* Returns whether a request is one of ours, and starts persistent ones that are. */
bool gcm_is_message_request(const ompi_request_t *request);
int gcm_start_messages(size_t count, ompi_request_t **requests);
void gcm_stop_messages(void); /* no request of ours is under way any more */

/* Returns host memory for a message, or NULL with a sentence logged. gcm_abi->stage_put() takes it back. */
void *gcm_host_memory(size_t bytes);

#endif
