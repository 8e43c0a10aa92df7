#include "mca/pt2pt/message_traces.h"

#include "mca/pt2pt/pt2pt.h"

static gc_traced_message traced_message(const gcm_message_request *r, const ompi_status_public_t *status) {
  const gcm_route *route = &r->route;
  const bool is_matched = route->message != NULL; /* then the route does not say with whom */
  return (gc_traced_message){.context = gcm_context_id(route->comm),
                             .name = route->comm->c_name,
                             .rank = ompi_comm_rank(route->comm),
                             .size = ompi_comm_size(route->comm),
                             .peer = status != NULL ? status->MPI_SOURCE : (is_matched ? MPI_ANY_SOURCE : route->peer),
                             .tag = status != NULL ? status->MPI_TAG : (is_matched ? MPI_ANY_TAG : route->tag),
                             .bytes = status != NULL ? status->_ucount : r->data.place.bytes,
                             .receives = r->receives,
                             .ok = r->rc == MPI_SUCCESS,
                             .by_pml = !r->straight};
}

void gcm_record_begin(gcm_message_request *r) {
  if (!gcm_is_of_program(r->route.tag)) return;
  const gc_traced_message message = traced_message(r, NULL);
  r->traced = gcm_abi->message_begun(&message);
}

void gcm_record_end(gcm_message_request *r, const ompi_status_public_t *status) {
  const gc_traced_message message = traced_message(r, status);
  gcm_abi->message_ended(r->traced, &message);
  r->traced = (gc_traced){0, 0};
}
