/* Functions of MPI that read or write buffers on the CPU before any PML sees them: MPI_Pack, MPI_Unpack, the same with
 * _external, MPI_Sendrecv_replace, and MPI_Isendrecv_replace where Open MPI has it (5.0). They are replaced as a whole,
 * since Open MPI's patcher leaves no way to call the old ones, and do for host memory what those did.
 * MPIX_Query_cuda_support says yes.
 *
 * Thread safety: any thread, but for gcm_replace_mpi_functions(), which is called while MPI starts.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <limits.h>

#include "base/mutant.h"
#include "mca/pt2pt/exchanges.h"
#include "mca/pt2pt/pt2pt.h"
#include "ompi/errhandler/errhandler.h"
#include "ompi/mpi/c/bindings.h"
#include "ompi/runtime/params.h"
#include "opal/mca/patcher/base/base.h"
#include "opal/mca/patcher/patcher.h"

#define GCM_TRY(expression)             \
  do {                                  \
    const int rc_ = (expression);       \
    if (rc_ != MPI_SUCCESS) return rc_; \
  } while (0)

/* ---- bytes of any memory ---- */

/* Packs a buffer in memory of any kind, or unpacks it; packed bytes are host memory. */
static int move_data(const void *buffer, size_t count, gcm_type *type, void *packed, size_t bytes, bool unpacks) {
  gcm_message_data data;
  GCM_TRY(gcm_describe_data(&data, buffer, count, type, gcm_is_device_message(buffer, count, type)));
  return unpacks ? gcm_store_data(&data, packed, bytes) : gcm_load_data(&data, packed, bytes);
}

/* As move_data(), for packed bytes in memory of any kind. */
static int move_packed(const void *buffer, size_t count, gcm_type *type, void *packed, size_t bytes, bool unpacks) {
  if (!gc_is_device(gcm_abi, packed)) return move_data(buffer, count, type, packed, bytes, unpacks);
  void *host = gcm_host_memory(bytes);
  int rc = host == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
  if (rc == MPI_SUCCESS && unpacks) rc = gcm_abi->copy(host, packed, bytes);
  if (rc == MPI_SUCCESS) rc = move_data(buffer, count, type, host, bytes, unpacks);
  if (rc == MPI_SUCCESS && !unpacks) rc = gcm_abi->copy(packed, host, bytes);
  if (host != NULL) gcm_abi->stage_put(host);
  return rc;
}

/* ---- what MPI checks ---- */

static int check_data(int count, const gcm_type *type) {
  if (count < 0) return MPI_ERR_COUNT;
  if (type == NULL || type == MPI_DATATYPE_NULL || !ompi_datatype_is_valid(type)) return MPI_ERR_TYPE;
  return opal_datatype_is_committed(&type->super) ? MPI_SUCCESS : MPI_ERR_TYPE;
}

/* Checks the data of a function whose buffer Open MPI checks, too. */
static int check_buffer(const void *buffer, int count, gcm_type *type) {
  int rc = check_data(count, type);
  if (gc_mutant(414)) return rc;
  OMPI_CHECK_USER_BUFFER(rc, buffer, type, count);
  return rc;
}

static int check_packing(const void *buffer, int count, gcm_type *type, const void *packed, int room,
                         const int *position) {
  if (!MPI_PARAM_CHECK) return MPI_SUCCESS;
  if (packed == NULL || position == NULL || room < 0 || *position < 0) return MPI_ERR_ARG;
  return check_buffer(buffer, count, type);
}

static int check_rank(int rank, int extra, ompi_communicator_t *comm) {
  if (rank == MPI_PROC_NULL || rank == extra) return MPI_SUCCESS;
  return ompi_comm_peer_invalid(comm, rank) ? MPI_ERR_RANK : MPI_SUCCESS;
}

static int check_tag(int tag) {
  return tag < 0 || (tag > mca_pml.pml_max_tag && !gc_mutant(415)) ? MPI_ERR_TAG : MPI_SUCCESS;
}

static int check_exchange(int count, const gcm_type *type, int to, int send_tag, int from, int recv_tag,
                          ompi_communicator_t *comm) {
  if (!MPI_PARAM_CHECK) return MPI_SUCCESS;
  GCM_TRY(check_data(count, type));
  GCM_TRY(check_rank(to, MPI_PROC_NULL, comm));
  GCM_TRY(check_rank(from, MPI_ANY_SOURCE, comm));
  GCM_TRY(check_tag(send_tag));
  return recv_tag == MPI_ANY_TAG ? MPI_SUCCESS : check_tag(recv_tag);
}

/* Calls the error handler of the communicator, if there is one. */
static int end_call(ompi_communicator_t *comm, int rc, const char *function) {
  OMPI_ERRHANDLER_RETURN(rc, comm, rc, function);
}

/* ---- the functions ---- */

static int pack(const void *buffer, int count, gcm_type *type, void *packed, int room, int *position) {
  GCM_TRY(check_packing(buffer, count, type, packed, room, position));
  const size_t bytes = (size_t)count * type->super.size;
  if (bytes == 0) return MPI_SUCCESS;
  if (*position > room || bytes > (size_t)(room - *position)) return MPI_ERR_TRUNCATE;
  GCM_TRY(move_packed(buffer, (size_t)count, type, (char *)packed + *position, bytes, false));
  *position += (int)bytes;
  return MPI_SUCCESS;
}

static int unpack(const void *packed, int room, int *position, void *buffer, int count, gcm_type *type) {
  GCM_TRY(check_packing(buffer, count, type, packed, room, position));
  const size_t bytes = (size_t)count * type->super.size;
  if (bytes == 0) return MPI_SUCCESS;
  if (*position > room || bytes > (size_t)(room - *position)) return MPI_ERR_TRUNCATE;
  void *from = (char *)(uintptr_t)packed + *position;
  GCM_TRY(move_packed(buffer, (size_t)count, type, from, bytes, true));
  *position += (int)bytes;
  return MPI_SUCCESS;
}

static bool is_no_communicator(ompi_communicator_t *comm) { return MPI_PARAM_CHECK && ompi_comm_invalid(comm); }

static int new_pack(const void *buffer, int count, MPI_Datatype type, void *packed, int room, int *position,
                    MPI_Comm comm) {
  if (is_no_communicator(comm)) return end_call(&ompi_mpi_comm_world.comm, MPI_ERR_COMM, "MPI_Pack");
  return end_call(comm, pack(buffer, count, type, packed, room, position), "MPI_Pack");
}

static int new_unpack(const void *packed, int room, int *position, void *buffer, int count, MPI_Datatype type,
                      MPI_Comm comm) {
  if (is_no_communicator(comm)) return end_call(&ompi_mpi_comm_world.comm, MPI_ERR_COMM, "MPI_Unpack");
  return end_call(comm, unpack(packed, room, position, buffer, count, type), "MPI_Unpack");
}

/* ---- in the external representation ---- */

/* Copies the data of a buffer into another one of the same elements. Each is memory of any kind. */
static int copy_elements(const void *from, void *to, size_t count, gcm_type *type) {
  const size_t bytes = count * type->super.size;
  void *packed = gcm_host_memory(bytes);
  if (packed == NULL) return MPI_ERR_NO_MEM;
  int rc = move_data(from, count, type, packed, bytes, false);
  if (rc == MPI_SUCCESS) rc = move_data(to, count, type, packed, bytes, true);
  gcm_abi->stage_put(packed);
  return rc;
}

/* Converts `bytes` packed bytes from or to a buffer, both in host memory. */
static int convert_external(const char *representation, void *buffer, int count, gcm_type *type, void *packed,
                            MPI_Aint bytes, bool unpacks) {
  MPI_Aint at = 0;
  if (unpacks) return ompi_datatype_unpack_external(representation, packed, bytes, &at, buffer, count, type);
  return ompi_datatype_pack_external(representation, buffer, count, type, packed, bytes, &at);
}

/* As convert_external(), for a buffer in memory of any kind. */
static int move_external(const char *representation, void *buffer, int count, gcm_type *type, void *packed,
                         MPI_Aint bytes, bool unpacks) {
  if (!gcm_is_device_message(buffer, (size_t)count, type))
    return convert_external(representation, buffer, count, type, packed, bytes, unpacks);
  ptrdiff_t gap = 0;
  void *image = gcm_host_memory((size_t)opal_datatype_span(&type->super, (size_t)count, &gap));
  if (image == NULL) return MPI_ERR_NO_MEM;
  void *elements = gcm_address(image, -gap);
  int rc = unpacks ? MPI_SUCCESS : copy_elements(buffer, elements, (size_t)count, type);
  if (rc == MPI_SUCCESS) rc = convert_external(representation, elements, count, type, packed, bytes, unpacks);
  if (rc == MPI_SUCCESS && unpacks) rc = copy_elements(elements, buffer, (size_t)count, type);
  gcm_abi->stage_put(image);
  return rc;
}

/* As move_external(), for packed bytes in memory of any kind. */
static int move_packed_external(const char *representation, void *buffer, int count, gcm_type *type, void *packed,
                                MPI_Aint bytes, bool unpacks) {
  if (!gc_is_device(gcm_abi, packed)) return move_external(representation, buffer, count, type, packed, bytes, unpacks);
  void *host = gcm_host_memory((size_t)bytes);
  int rc = host == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
  if (rc == MPI_SUCCESS && unpacks) rc = gcm_abi->copy(host, packed, (size_t)bytes);
  if (rc == MPI_SUCCESS) rc = move_external(representation, buffer, count, type, host, bytes, unpacks);
  if (rc == MPI_SUCCESS && !unpacks) rc = gcm_abi->copy(packed, host, (size_t)bytes);
  if (host != NULL) gcm_abi->stage_put(host);
  return rc;
}

static int external(const char *representation, void *buffer, int count, gcm_type *type, void *packed, MPI_Aint room,
                    MPI_Aint *position, bool unpacks) {
  if (MPI_PARAM_CHECK && (packed == NULL || position == NULL || room < 0 || *position < 0)) return MPI_ERR_ARG;
  if (MPI_PARAM_CHECK) GCM_TRY(check_buffer(buffer, count, type));
  MPI_Aint bytes = 0;
  if (ompi_datatype_pack_external_size(representation, count, type, &bytes) != OMPI_SUCCESS) return MPI_ERR_ARG;
  if (bytes == 0) return MPI_SUCCESS;
  if (*position > room || bytes > room - *position) return MPI_ERR_TRUNCATE;
  void *at = (char *)packed + *position;
  GCM_TRY(move_packed_external(representation, buffer, count, type, at, bytes, unpacks));
  *position += bytes;
  return MPI_SUCCESS;
}

static int new_pack_external(const char *representation, const void *buffer, int count, MPI_Datatype type, void *packed,
                             MPI_Aint room, MPI_Aint *position) {
  void *from = (void *)(uintptr_t)buffer;
  const int rc = external(representation, from, count, type, packed, room, position, false);
  return end_call(&ompi_mpi_comm_world.comm, rc, "MPI_Pack_external");
}

static int new_unpack_external(const char *representation, const void *packed, MPI_Aint room, MPI_Aint *position,
                               void *buffer, int count, MPI_Datatype type) {
  void *from = (void *)(uintptr_t)packed;
  const int rc = external(representation, buffer, count, type, from, room, position, true);
  return end_call(&ompi_mpi_comm_world.comm, rc, "MPI_Unpack_external");
}

/* ---- exchanges ---- */

/* Sends packed data while it receives into the buffer. */
static int exchange(void *buffer, size_t count, gcm_type *type, const void *packed, size_t bytes, int to, int send_tag,
                    int from, int recv_tag, ompi_communicator_t *comm, ompi_status_public_t *status) {
  ompi_request_t *received = MPI_REQUEST_NULL;
  GCM_TRY(MCA_PML_CALL(irecv(buffer, count, type, from, recv_tag, comm, &received)));
  const int sent =
      MCA_PML_CALL(send(packed, bytes, (gcm_type *)MPI_PACKED, to, send_tag, MCA_PML_BASE_SEND_STANDARD, comm));
  if (sent != MPI_SUCCESS) {
    (void)ompi_request_cancel(received);
    (void)ompi_request_free(&received);
    return sent;
  }
  return gcm_wait(&received, status);
}

/* Stores a copy of the data, packed, in host memory; none where there are no bytes. */
static int copy_out(const void *buffer, size_t count, gcm_type *type, void **packed) {
  const size_t bytes = count * type->super.size;
  *packed = NULL;
  if (bytes == 0) return MPI_SUCCESS;
  *packed = gcm_host_memory(bytes);
  if (*packed == NULL) return MPI_ERR_NO_MEM;
  const int rc = move_data(buffer, count, type, *packed, bytes, false);
  if (rc != MPI_SUCCESS) gcm_abi->stage_put(*packed);
  return rc;
}

static int replace(void *buffer, int count, gcm_type *type, int to, int send_tag, int from, int recv_tag,
                   ompi_communicator_t *comm, ompi_status_public_t *status) {
  void *packed;
  GCM_TRY(copy_out(buffer, (size_t)count, type, &packed));
  const int rc = exchange(buffer, (size_t)count, type, packed, (size_t)count * type->super.size, to, send_tag, from,
                          recv_tag, comm, status);
  if (packed != NULL) gcm_abi->stage_put(packed);
  return rc;
}

static int new_sendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int send_tag, int from,
                                int recv_tag, MPI_Comm comm, MPI_Status *status) {
  const char *const name = "MPI_Sendrecv_replace";
  if (is_no_communicator(comm)) return end_call(&ompi_mpi_comm_world.comm, MPI_ERR_COMM, name);
  const int checked = check_exchange(count, type, to, send_tag, from, recv_tag, comm);
  if (checked != MPI_SUCCESS) return end_call(comm, checked, name);
  /* One way only, or nothing to move. */
  if (to == MPI_PROC_NULL || from == MPI_PROC_NULL || count == 0 || type->super.size == 0) {
    return PMPI_Sendrecv(buffer, count, type, to, send_tag, buffer, count, type, from, recv_tag, comm, status);
  }
  return end_call(comm, replace(buffer, count, type, to, send_tag, from, recv_tag, comm, status), name);
}

static int begin_replace(void *buffer, int count, gcm_type *type, const gcm_exchange_route *route,
                         ompi_request_t **request) {
  void *packed;
  if (MPI_PARAM_CHECK && request == NULL) return MPI_ERR_REQUEST;
  GCM_TRY(check_exchange(count, type, route->to, route->send_tag, route->from, route->recv_tag, route->comm));
  GCM_TRY(copy_out(buffer, (size_t)count, type, &packed));
  return gcm_begin_exchange(buffer, (size_t)count, type, packed, route, request);
}

static int new_isendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int send_tag, int from,
                                 int recv_tag, MPI_Comm comm, MPI_Request *request) {
  const char *const name = "MPI_Isendrecv_replace";
  const gcm_exchange_route route = {.to = to, .send_tag = send_tag, .from = from, .recv_tag = recv_tag, .comm = comm};
  if (is_no_communicator(comm)) return end_call(&ompi_mpi_comm_world.comm, MPI_ERR_COMM, name);
  return end_call(comm, begin_replace(buffer, count, type, &route, request), name);
}

static int say_yes(void) { return 1; }

/* ---- when ---- */

static bool find_patcher(void) {
  if (opal_patcher != NULL && opal_patcher->patch_symbol != NULL) return true;
  if (mca_base_framework_open(&opal_patcher_base_framework, 0) != OPAL_SUCCESS) return false;
  return opal_patcher_base_select() == OPAL_SUCCESS && opal_patcher != NULL && opal_patcher->patch_symbol != NULL;
}

/* PMPI: a profiler may have put functions of its own under the other names. */
void gcm_replace_mpi_functions(void) {
  const struct {
    const char *name;
    uintptr_t function;
    bool may_be_missing;
  } all[] = {
      {"PMPI_Pack", (uintptr_t)new_pack, false},
      {"PMPI_Unpack", (uintptr_t)new_unpack, false},
      {"PMPI_Pack_external", (uintptr_t)new_pack_external, false},
      {"PMPI_Unpack_external", (uintptr_t)new_unpack_external, false},
      {"PMPI_Sendrecv_replace", (uintptr_t)new_sendrecv_replace, false},
      {"PMPI_Isendrecv_replace", (uintptr_t)new_isendrecv_replace, true},
      {"MPIX_Query_cuda_support", (uintptr_t)say_yes, false},
  };
  static bool replaced; /* the library stays as it is when the component is closed */
  bool done = find_patcher();
  for (size_t i = 0; i < sizeof all / sizeof *all && done && !replaced; i++) {
    uintptr_t old;
    /* The patcher would complain of a function that is missing. */
    if (all[i].may_be_missing && dlsym(RTLD_DEFAULT, all[i].name) == NULL) continue;
    done = opal_patcher->patch_symbol(all[i].name, all[i].function, &old) == OPAL_SUCCESS;
  }
  replaced = done;
  if (done) return;
  gcm_abi->log(0,
               "Open MPI lets no function be replaced (no component of the framework patcher): MPI_Pack, MPI_Unpack, "
               "the same with _external, MPI_Sendrecv_replace and MPI_Isendrecv_replace take host memory only");
}
