/* Each form of a message by way of host memory: the data are packed into it and sent as bytes, or received into it as
 * bytes and unpacked. */
#include "mca/pt2pt/message_requests.h"
#include "mca/pt2pt/pt2pt.h"

static gcm_type *bytes_type(void) { return (gcm_type *)MPI_BYTE; }

/* ---- sending ---- */

/* Returns host memory with the packed data, or NULL. */
static void *load(const void *buffer, size_t count, gcm_type *type, size_t *bytes, int *rc) {
  gcm_message_data data;
  *rc = gcm_describe_data(&data, buffer, count, type);
  if (*rc != MPI_SUCCESS) return NULL;
  void *host = gcm_host_memory(data.bytes);
  *rc = host == NULL ? MPI_ERR_NO_MEM : gcm_load_data(&data, host);
  *bytes = data.bytes;
  if (*rc == MPI_SUCCESS) return host;
  gcm_abi->stage_put(host);
  return NULL;
}

int gcm_send_device(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                    ompi_communicator_t *comm) {
  size_t bytes;
  int rc;
  void *host = load(buffer, count, type, &bytes, &rc);
  if (host == NULL) return rc;
  rc = gcm_pml.pml_send(host, bytes, bytes_type(), to, tag, mode, comm);
  gcm_abi->stage_put(host);
  return rc;
}

/* ---- requests ---- */

/* Makes a request for data at `buffer`. */
static gcm_message_request *make(const void *buffer, size_t count, gcm_type *type, ompi_communicator_t *comm,
                                 bool receives, bool persistent, int *rc) {
  gcm_message_data data;
  *rc = gcm_describe_data(&data, buffer, count, type);
  return *rc == MPI_SUCCESS ? gcm_message_request_new(&data, type, comm, receives, persistent, rc) : NULL;
}

/* Gives the request to the application, or releases it where the PML has refused it. */
static int give(gcm_message_request *r, int rc, ompi_request_t **request) {
  if (rc == MPI_SUCCESS)
    *request = &r->super.req_ompi;
  else
    gcm_message_request_release(r);
  return rc;
}

static int begin_send(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                      ompi_communicator_t *comm, bool persistent, ompi_request_t **request) {
  int rc;
  gcm_message_request *r = make(buffer, count, type, comm, false, persistent, &rc);
  if (r == NULL) return rc;
  r->super.req_peer = to;
  r->super.req_tag = tag;
  r->mode = mode;
  return give(r, persistent ? MPI_SUCCESS : gcm_message_request_start(r), request);
}

static int begin_receive(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                         bool persistent, ompi_request_t **request) {
  int rc;
  gcm_message_request *r = make(buffer, count, type, comm, true, persistent, &rc);
  if (r == NULL) return rc;
  r->super.req_peer = from;
  r->super.req_tag = tag;
  return give(r, persistent ? MPI_SUCCESS : gcm_message_request_start(r), request);
}

int gcm_isend_device(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                     ompi_communicator_t *comm, ompi_request_t **request) {
  return begin_send(buffer, count, type, to, tag, mode, comm, false, request);
}

int gcm_isend_init_device(const void *buffer, size_t count, gcm_type *type, int to, int tag,
                          mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, ompi_request_t **request) {
  return begin_send(buffer, count, type, to, tag, mode, comm, true, request);
}

int gcm_irecv_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                     ompi_request_t **request) {
  return begin_receive(buffer, count, type, from, tag, comm, false, request);
}

int gcm_irecv_init_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                          ompi_request_t **request) {
  return begin_receive(buffer, count, type, from, tag, comm, true, request);
}

int gcm_imrecv_device(void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_request_t **request) {
  int rc;
  gcm_message_request *r = make(buffer, count, type, (*message)->comm, true, false, &rc);
  if (r == NULL) return rc;
  rc = gcm_pml.pml_imrecv(r->host, r->data.bytes, bytes_type(), message, &r->inner);
  if (rc == MPI_SUCCESS) gcm_message_request_begin(r);
  return give(r, rc, request);
}

/* ---- receiving ---- */

/* A receive that waits, from the PML or of a message that has been matched. */
typedef struct receive {
  gcm_message_data data;
  void *host;
  ompi_status_public_t status;
} receive;

static int prepare(receive *r, void *buffer, size_t count, gcm_type *type) {
  r->status = ompi_status_empty;
  int rc = gcm_describe_data(&r->data, buffer, count, type);
  r->host = rc == MPI_SUCCESS ? gcm_host_memory(r->data.bytes) : NULL;
  return rc == MPI_SUCCESS && r->host == NULL ? MPI_ERR_NO_MEM : rc;
}

static int finish(receive *r, int received, ompi_status_public_t *status) {
  const bool has_data = received == MPI_SUCCESS || received == MPI_ERR_TRUNCATE;
  const int stored = has_data ? gcm_store_data(&r->data, r->host, r->status._ucount) : MPI_SUCCESS;
  gcm_abi->stage_put(r->host);
  if (status != MPI_STATUS_IGNORE) *status = r->status;
  return received != MPI_SUCCESS ? received : stored;
}

int gcm_recv_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                    ompi_status_public_t *status) {
  receive r;
  const int rc = prepare(&r, buffer, count, type);
  if (rc != MPI_SUCCESS) return rc;
  return finish(&r, gcm_pml.pml_recv(r.host, r.data.bytes, bytes_type(), from, tag, comm, &r.status), status);
}

int gcm_mrecv_device(void *buffer, size_t count, gcm_type *type, ompi_message_t **message,
                     ompi_status_public_t *status) {
  receive r;
  const int rc = prepare(&r, buffer, count, type);
  if (rc != MPI_SUCCESS) return rc;
  return finish(&r, gcm_pml.pml_mrecv(r.host, r.data.bytes, bytes_type(), message, &r.status), status);
}
