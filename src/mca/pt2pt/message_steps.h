/* The steps of a message (message_requests.h), which its files call of each other: message_requests.c makes and starts
 * a request, message_sends.c and message_receives.c begin its message, message_progress.c looks after it until it is
 * complete.
 *
 * Thread safety: one thread at a time for a request.
 */
#ifndef GPUCOLL_MCA_PT2PT_MESSAGE_STEPS_H
#define GPUCOLL_MCA_PT2PT_MESSAGE_STEPS_H

#include "mca/pt2pt/message_requests.h"
#include "mca/pt2pt/pt2pt.h"

static inline bool gcm_has_inner(const gcm_message_request *r) {
  return r->inner != NULL && r->inner != MPI_REQUEST_NULL;
}

/* Open MPI's own messages have tags that no program can give. */
static inline bool gcm_may_be_offered(int tag) { return gcm_pt2pt != NULL && tag >= 0; }

static inline gc_message_key gcm_key_of(ompi_communicator_t *comm, int tag) {
  return (gc_message_key){.context = gcm_context_id(comm), .tag = tag};
}

/* Returns how much host memory the request takes: an envelope has room in it, too. */
size_t gcm_host_bytes(const gcm_message_request *r);
/* Takes r->host, unless the request has it. Returns false, with a sentence logged, where there is none left. */
bool gcm_take_host_memory(gcm_message_request *r);

/* These give the message to the PML. They return MPI error classes. REQUIRES for a send: the order is locked. */
int gcm_begin_send(gcm_message_request *r);
int gcm_begin_receive(gcm_message_request *r);

/* The PML has ended its receive: takes the message of an envelope, or stores what came. */
void gcm_end_receive(gcm_message_request *r);
/* Stores what was received into host memory of ours instead of the buffer. Returns an MPI error class. */
int gcm_store_aside(gcm_message_request *r);
/* Takes an offer back that its receiver will not see. */
void gcm_withdraw(gcm_message_request *r);

/* Advances the requests under way, as MPI progress does. Returns how many. */
int gcm_progress_messages(void);

#endif
