/* Point-to-point messages of device memory are refused, with one sentence and an MPI error: Open MPI would read or
 * write such memory on the CPU, which ends the process.
 *
 * MPI calls the functions of the chosen PML through the table mca_pml. Those that take a buffer are replaced there by
 * these, which look at the buffer and call the PML's own: so all PMLs are served alike, and so is what other components
 * send. Where Open MPI or the PML moves GPUs' memory itself, that is left to it.
 *
 * Thread safety: the table is changed while the coll framework is opened, when nobody sends yet, and in the component's
 * close, when nobody does any more. Messages may come from any thread.
 */
#include <ctype.h>
#include <stdio.h>

#include "base/mutant.h"
#include "mca/coll/plan.h"

static mca_pml_base_module_t chosen; /* as it was before */
static bool open_mpi_moves_gpu_memory;
static const gc_pointer_hint *hint; /* gcm_abi's, at hand */

/* ---- what is refused ---- */

/* Judges data at absolute addresses. */
static GCM_NOINLINE bool leads_to_device(size_t count, gcm_type *type) {
  const gcm_side side = gcm_reads(MPI_BOTTOM, (gcm_layout){.groups = 1, .count = count, .type = type});
  return gcm_on_device(&side);
}

static GCM_INLINE bool is_refused(const void *buffer, size_t count, gcm_type *type) {
  /* Without GPUs, or once the emulated device is chosen, nobody needs to be asked, and Open MPI knows nothing of it. */
  if (open_mpi_moves_gpu_memory && __atomic_load_n(&gcm_abi->hint->ask, __ATOMIC_RELAXED)) return false;
  if (gc_mutant(110)) return gc_is_device(gcm_abi, buffer); /* but the data may lie elsewhere */
  if (count == 0 || type->super.size == 0) return false;
  if (buffer == MPI_BOTTOM) return leads_to_device(count, type);
  return gc_is_device(gcm_abi, gcm_address(buffer, type->super.true_lb));
}

static GCM_NOINLINE int refuse(const char *call, const void *buffer, size_t count, gcm_type *type,
                               ompi_communicator_t *comm) {
  const gcm_side side = gcm_reads(buffer, (gcm_layout){.groups = 1, .count = count, .type = type});
  char line[512];
  snprintf(
      line, sizeof line,
      "rank %d of %s passes device memory (%p) to %s, but gpucoll does not carry point-to-point messages of device "
      "memory yet: copy the data to host memory first, or use a collective (--mca coll_gpucoll_pt2pt 0 leaves such "
      "messages to Open MPI)",
      ompi_comm_rank(comm), comm->c_name, gcm_data(&side), call);
  gcm_abi->log(-1, line);
  return MPI_ERR_BUFFER;
}

/* Collectives of other components send by the same functions, with tags that no program can give. */
static bool is_inside_open_mpi(int tag) { return tag < MPI_ANY_TAG; }
static const char *const inside_open_mpi = "a collective that another component than gpucoll runs";

/* blocking: MPI_Send; immediate: MPI_Isend; persistent: MPI_Send_init; and the same of the other modes. */
enum form { blocking, immediate, persistent };
static GCM_NOINLINE const char *name_send(mca_pml_base_send_mode_t mode, int tag, enum form form) {
  static _Thread_local char name[40];
  const char *const word = mode == MCA_PML_BASE_SEND_SYNCHRONOUS ? "ssend"
                           : mode == MCA_PML_BASE_SEND_BUFFERED  ? "bsend"
                           : mode == MCA_PML_BASE_SEND_READY     ? "rsend"
                                                                 : "send";
  if (is_inside_open_mpi(tag)) return inside_open_mpi;
  if (form == immediate) {
    snprintf(name, sizeof name, "MPI_I%s", word);
  } else {
    snprintf(name, sizeof name, "MPI_%c%s%s", toupper((unsigned char)word[0]), word + 1,
             form == persistent                   ? "_init"
             : mode == MCA_PML_BASE_SEND_STANDARD ? " or MPI_Sendrecv"
                                                  : "");
  }
  return name;
}

static const char *name_receive(const char *name, int tag) { return is_inside_open_mpi(tag) ? inside_open_mpi : name; }

/* ---- in the PML's table ---- */

/* gc_has_devices() in as few instructions as can be. Relaxed: gc_is_device() acquires. */
static GCM_INLINE bool has_devices(void) {
  const gc_pointer_hint *const h = hint;
  return (__atomic_load_n(&h->device_hi, __ATOMIC_RELAXED) | (uintptr_t)__atomic_load_n(&h->ask, __ATOMIC_RELAXED)) !=
         0;
}

/* Returns whether the buffer is host memory, as far as that can be told without a call. */
static GCM_INLINE bool is_plain_host(const void *buffer, const gcm_type *type) {
  const gc_pointer_hint *const h = hint;
  const uintptr_t first = (uintptr_t)gcm_address(buffer, type->super.true_lb);
  const uintptr_t end = __atomic_load_n(&h->device_hi, __ATOMIC_ACQUIRE); /* as in gc_is_device() */
  return buffer != MPI_BOTTOM && !__atomic_load_n(&h->ask, __ATOMIC_RELAXED) &&
         (first >= end || first < __atomic_load_n(&h->device_lo, __ATOMIC_RELAXED));
}

/* Calls that end a function, so that they are jumps: what is added to a message of a program without devices, and to
 * one of host memory beside devices, is the checks alone. One such call a function: the compiler would copy what the
 * stack passes for either of two. */
#define GCM_MESSAGE(function, PARAMETERS, ARGUMENTS, name_of_call, comm_of_call)                      \
  static GCM_NOINLINE int judge_##function PARAMETERS {                                               \
    if (GCM_LIKELY(!is_refused(buffer, count, type))) return chosen.pml_##function ARGUMENTS;         \
    return refuse(name_of_call, buffer, count, type, comm_of_call);                                   \
  }                                                                                                   \
  static GCM_NOINLINE int look_again_and_##function PARAMETERS {                                      \
    return (is_plain_host(buffer, type) ? chosen.pml_##function : judge_##function)ARGUMENTS;         \
  }                                                                                                   \
  static int look_and_##function PARAMETERS {                                                         \
    return (GCM_LIKELY(!has_devices()) ? chosen.pml_##function : look_again_and_##function)ARGUMENTS; \
  }

GCM_MESSAGE(send,
            (const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
             ompi_communicator_t *comm),
            (buffer, count, type, to, tag, mode, comm), name_send(mode, tag, blocking), comm)
GCM_MESSAGE(isend,
            (const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
             ompi_communicator_t *comm, ompi_request_t **request),
            (buffer, count, type, to, tag, mode, comm, request), name_send(mode, tag, immediate), comm)
GCM_MESSAGE(isend_init,
            (const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
             ompi_communicator_t *comm, ompi_request_t **request),
            (buffer, count, type, to, tag, mode, comm, request), name_send(mode, tag, persistent), comm)
GCM_MESSAGE(recv,
            (void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
             ompi_status_public_t *status),
            (buffer, count, type, from, tag, comm, status), name_receive("MPI_Recv", tag), comm)
GCM_MESSAGE(irecv,
            (void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
             ompi_request_t **request),
            (buffer, count, type, from, tag, comm, request), name_receive("MPI_Irecv or MPI_Sendrecv", tag), comm)
GCM_MESSAGE(irecv_init,
            (void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
             ompi_request_t **request),
            (buffer, count, type, from, tag, comm, request), name_receive("MPI_Recv_init", tag), comm)
/* The message stays: it can still be received into host memory. */
GCM_MESSAGE(mrecv, (void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_status_public_t *status),
            (buffer, count, type, message, status), "MPI_Mrecv", (*message)->comm)
GCM_MESSAGE(imrecv, (void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_request_t **request),
            (buffer, count, type, message, request), "MPI_Imrecv", (*message)->comm)

/* ---- when ---- */

#define GCM_PML_FUNCTIONS(f) f(send) f(isend) f(isend_init) f(recv) f(irecv) f(irecv_init) f(mrecv) f(imrecv)

/* UCX finds out by itself what memory a buffer is. */
static bool knows_gpus(void) {
  return gcm_open_mpi_knows_gpus() ||
         strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "ucx") == 0;
}

void gcm_look_at_messages(void) {
  if (!gcm_abi->param_value("pt2pt")) return;
  open_mpi_moves_gpu_memory = knows_gpus();
  hint = gcm_abi->hint;
  chosen = mca_pml;
#define GCM_REPLACE(name) mca_pml.pml_##name = look_and_##name;
  GCM_PML_FUNCTIONS(GCM_REPLACE)
}

/* Whoever has replaced a function after us stays. */
void gcm_leave_messages(void) {
#define GCM_RESTORE(name) \
  if (mca_pml.pml_##name == look_and_##name) mca_pml.pml_##name = chosen.pml_##name;
  GCM_PML_FUNCTIONS(GCM_RESTORE)
}
