/* Each form of a message of device memory: by a request of ours, or, where no message is offered and the call waits,
 * without one. */
#include "mca/pt2pt/message_requests.h"
#include "mca/pt2pt/pt2pt.h"

static int make(const void *buffer, size_t count, gcm_type *type, const gcm_route *route, bool receives,
                bool persistent, ompi_request_t **request) {
  return gcm_make_message(buffer, count, type, true, route, receives, persistent, request);
}

/* ---- sending ---- */

static gcm_route to_peer(int to, int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm) {
  return (gcm_route){.peer = to, .tag = tag, .mode = mode, .comm = comm};
}

int gcm_isend_device(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                     ompi_communicator_t *comm, ompi_request_t **request) {
  const gcm_route route = to_peer(to, tag, mode, comm);
  return make(buffer, count, type, &route, false, false, request);
}

int gcm_isend_init_device(const void *buffer, size_t count, gcm_type *type, int to, int tag,
                          mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, ompi_request_t **request) {
  const gcm_route route = to_peer(to, tag, mode, comm);
  return make(buffer, count, type, &route, false, true, request);
}

/* Sends data of which the PML must carry a copy. */
static int send_copy(const void *buffer, size_t count, gcm_type *type, const gcm_route *route) {
  gcm_message_data data;
  int rc = gcm_describe_data(&data, buffer, count, type, true);
  if (rc != MPI_SUCCESS) return rc;
  gcm_tell_slow_message(route, GC_CAUSE_message_off);
  void *host = gcm_host_memory(data.place.bytes);
  if (host == NULL) return MPI_ERR_NO_MEM;
  rc = gcm_load_data(&data, host, data.place.bytes);
  if (rc == MPI_SUCCESS) {
    rc = gcm_pml.pml_send(host, data.place.bytes, gcm_bytes_type(), route->peer, route->tag, route->mode, route->comm);
  }
  gcm_abi->stage_put(host);
  return rc;
}

int gcm_send_device(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                    ompi_communicator_t *comm) {
  const gcm_route route = to_peer(to, tag, mode, comm);
  if (gcm_pt2pt == NULL) return send_copy(buffer, count, type, &route);
  ompi_request_t *request;
  const int rc = make(buffer, count, type, &route, false, false, &request);
  return rc != MPI_SUCCESS ? rc : gcm_wait(&request, MPI_STATUS_IGNORE);
}

/* ---- receiving ---- */

int gcm_irecv_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                     ompi_request_t **request) {
  const gcm_route route = {.peer = from, .tag = tag, .comm = comm};
  return make(buffer, count, type, &route, true, false, request);
}

int gcm_irecv_init_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                          ompi_request_t **request) {
  const gcm_route route = {.peer = from, .tag = tag, .comm = comm};
  return make(buffer, count, type, &route, true, true, request);
}

int gcm_imrecv_device(void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_request_t **request) {
  const gcm_route route = {.comm = (*message)->comm, .message = message};
  return make(buffer, count, type, &route, true, false, request);
}

int gcm_recv_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                    ompi_status_public_t *status) {
  ompi_request_t *request;
  const int rc = gcm_irecv_device(buffer, count, type, from, tag, comm, &request);
  return rc != MPI_SUCCESS ? rc : gcm_wait(&request, status);
}

int gcm_mrecv_device(void *buffer, size_t count, gcm_type *type, ompi_message_t **message,
                     ompi_status_public_t *status) {
  ompi_request_t *request;
  const int rc = gcm_imrecv_device(buffer, count, type, message, &request);
  return rc != MPI_SUCCESS ? rc : gcm_wait(&request, status);
}
