/* Requests of MPI_Isendrecv_replace. Each stands for a receive into the buffer and a send of what the buffer had
 * before, and is complete when both are.
 *
 * Thread safety: any thread. Ownership: a request owns the packed data, and retains its communicator.
 */
#ifndef GPUCOLL_MCA_PT2PT_EXCHANGES_H
#define GPUCOLL_MCA_PT2PT_EXCHANGES_H

#include "mca/pt2pt/message_requests.h"

/* The two sides of an exchange; either may be MPI_PROC_NULL. */
typedef struct gcm_exchange_route {
  int to, send_tag, from, recv_tag;
  ompi_communicator_t *comm;
} gcm_exchange_route;

/* Begins to send `packed` and to receive into the buffer. gcm_abi->stage_put() takes `packed` back in the end, also
 * where this fails. Returns an MPI error class. */
int gcm_begin_exchange(void *buffer, size_t count, gcm_type *type, void *packed, const gcm_exchange_route *route,
                       ompi_request_t **request);

#endif
