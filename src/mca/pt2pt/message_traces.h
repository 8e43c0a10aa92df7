/* Records messages of device memory, where this process records (docs/formats/trace.md).
 *
 * Thread safety: one thread at a time for a request.
 */
#ifndef GPUCOLL_MCA_PT2PT_MESSAGE_TRACES_H
#define GPUCOLL_MCA_PT2PT_MESSAGE_TRACES_H

#include "mca/pt2pt/message_requests.h"

/* Behind the two functions below, which cost a look where nothing is recorded. */
void gcm_record_begin(gcm_message_request *r);
void gcm_record_end(gcm_message_request *r, const ompi_status_public_t *status);

static inline void gcm_trace_begin(gcm_message_request *r) {
  if (!GCM_LIKELY(gcm_abi->message_begun == NULL)) gcm_record_begin(r);
}
/* status: of a receive that has ended, else NULL. */
static inline void gcm_trace_end(gcm_message_request *r, const ompi_status_public_t *status) {
  if (!GCM_LIKELY(r->traced.record == 0)) gcm_record_end(r, status);
}

#endif
