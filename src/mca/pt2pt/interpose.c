/* Stands in the table of the chosen PML, mca_pml, through which MPI sends and receives: so all PMLs are served alike,
 * over any transport. Messages of device memory are carried by messages.c, as Open MPI would read or write such memory
 * on the CPU, which ends the process; all others go to the PML as they came.
 *
 * The component refuses device memory that collectives of other components send by the same functions, with an error:
 * they may reduce it on the CPU as well. Managed memory it leaves to them, as the CPU reaches that: MPI_Scatterv
 * between groups, for one, sends its array of counts so. Where Open MPI or the PML moves GPUs' memory itself, that is
 * left to it.
 *
 * Thread safety: the table is changed while the coll framework is opened, when nobody sends yet, and in the component's
 * close, when nobody does any more. Messages may come from any thread.
 */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <link.h>
#include <stdio.h>

#include "base/mutant.h"
#include "mca/pt2pt/exchanges.h"
#include "mca/pt2pt/pt2pt.h"

mca_pml_base_module_t gcm_pml;
const gc_pt2pt_abi *gcm_pt2pt;
static mca_pml_base_module_t
    host; /* whom messages of host memory go to: gcm_pml, or ours where they may meet envelopes */
static bool open_mpi_moves_gpu_memory;

/* ---- whose messages are looked at ---- */

/* Judges data at absolute addresses. */
static GCM_NOINLINE bool leads_to_device(size_t count, gcm_type *type) {
  const gcm_side side = gcm_reads(MPI_BOTTOM, (gcm_layout){.groups = 1, .count = count, .type = type});
  return gcm_on_device(&side);
}

static GCM_INLINE bool is_device_message(const void *buffer, size_t count, gcm_type *type) {
  /* Without GPUs, or once the emulated device is chosen, nobody needs to be asked, and Open MPI knows nothing of it. */
  if (open_mpi_moves_gpu_memory && __atomic_load_n(&gcm_hint->ask, __ATOMIC_RELAXED)) return false;
  if (gc_mutant(110)) return gc_is_device(gcm_abi, buffer); /* but the data may lie elsewhere */
  if (count == 0 || type->super.size == 0) return false;
  if (buffer == MPI_BOTTOM) return leads_to_device(count, type);
  return gc_is_device(gcm_abi, gcm_address(buffer, type->super.true_lb));
}

bool gcm_is_device_message(const void *buffer, size_t count, gcm_type *type) {
  return is_device_message(buffer, count, type);
}

static GCM_NOINLINE int refuse(const void *buffer, ompi_communicator_t *comm) {
  char line[512];
  snprintf(line, sizeof line,
           "a collective of another component than gpucoll passes device memory (%p) on rank %d of %s, and may read it "
           "on the CPU: let gpucoll run it (--mca coll gpucoll), or copy the data to host memory first "
           "(--mca coll_gpucoll_pt2pt 0 leaves such messages to Open MPI)",
           buffer, ompi_comm_rank(comm), comm->c_name[0] != '\0' ? comm->c_name : "a communicator without a name");
  gcm_abi->log(-1, line);
  return MPI_ERR_BUFFER;
}

/* ---- in the PML's table ---- */

/* Returns whether the buffer is host memory, as far as that can be told without a call. */
static GCM_INLINE bool is_plain_host(const void *buffer, const gcm_type *type) {
  const gc_pointer_hint *const h = gcm_hint;
  const uintptr_t first = (uintptr_t)gcm_address(buffer, type->super.true_lb);
  const uintptr_t end = __atomic_load_n(&h->device_hi, __ATOMIC_ACQUIRE); /* as in gc_is_device() */
  return buffer != MPI_BOTTOM && !__atomic_load_n(&h->ask, __ATOMIC_RELAXED) &&
         (first >= end || first < __atomic_load_n(&h->device_lo, __ATOMIC_RELAXED));
}

/* Calls that end a function, so that they are jumps: what is added to a message of a program without devices, and to
 * one of host memory beside devices, is the checks alone. One such call a function: the compiler would copy what the
 * stack passes for either of two. */
#define GCM_MESSAGE(function, PARAMETERS, ARGUMENTS, tag_of_call, comm_of_call)                                 \
  static GCM_NOINLINE int judge_##function PARAMETERS {                                                         \
    const bool of_program = gcm_is_of_program(tag_of_call);                                                     \
    if (GCM_LIKELY(!is_device_message(buffer, count, type)) || (!of_program && gcm_host_reaches(buffer, type))) \
      return host.pml_##function ARGUMENTS;                                                                     \
    if (!of_program) return refuse(buffer, comm_of_call);                                                       \
    if (gcm_pt2pt != NULL) gcm_pt2pt->uses_devices();                                                           \
    return gcm_##function##_device ARGUMENTS;                                                                   \
  }                                                                                                             \
  static GCM_NOINLINE int look_again_and_##function PARAMETERS {                                                \
    return (is_plain_host(buffer, type) ? host.pml_##function : judge_##function)ARGUMENTS;                     \
  }                                                                                                             \
  static int look_and_##function PARAMETERS {                                                                   \
    return (GCM_LIKELY(!gcm_has_devices()) ? host.pml_##function : look_again_and_##function)ARGUMENTS;         \
  }

GCM_MESSAGE(send,
            (const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
             ompi_communicator_t *comm),
            (buffer, count, type, to, tag, mode, comm), tag, comm)
GCM_MESSAGE(isend,
            (const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
             ompi_communicator_t *comm, ompi_request_t **request),
            (buffer, count, type, to, tag, mode, comm, request), tag, comm)
GCM_MESSAGE(isend_init,
            (const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
             ompi_communicator_t *comm, ompi_request_t **request),
            (buffer, count, type, to, tag, mode, comm, request), tag, comm)
GCM_MESSAGE(recv,
            (void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
             ompi_status_public_t *status),
            (buffer, count, type, from, tag, comm, status), tag, comm)
GCM_MESSAGE(irecv,
            (void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
             ompi_request_t **request),
            (buffer, count, type, from, tag, comm, request), tag, comm)
GCM_MESSAGE(irecv_init,
            (void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
             ompi_request_t **request),
            (buffer, count, type, from, tag, comm, request), tag, comm)
GCM_MESSAGE(mrecv, (void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_status_public_t *status),
            (buffer, count, type, message, status), 0, (*message)->comm)
GCM_MESSAGE(imrecv, (void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_request_t **request),
            (buffer, count, type, message, request), 0, (*message)->comm)

/* Returns who starts a request. Open MPI's own components have any started by the PML's table. */
static ompi_request_start_fn_t starter_of(const ompi_request_t *request) {
  const ompi_request_start_fn_t start = request->req_start;
  return start == gcm_start_messages || start == gcm_start_receives ? start : gcm_pml.pml_start;
}

/* Gives each run of requests of one owner to it. */
static int start_each(size_t count, ompi_request_t **requests) {
  int rc = OMPI_SUCCESS;
  for (size_t first = 0, end; first < count && rc == OMPI_SUCCESS; first = end) {
    const ompi_request_start_fn_t start = starter_of(requests[first]);
    for (end = first + 1; end < count && starter_of(requests[end]) == start; end++) continue;
    rc = start(end - first, requests + first);
  }
  return rc;
}

/* ---- when ---- */

#define GCM_PML_FUNCTIONS(f) f(send) f(isend) f(isend_init) f(recv) f(irecv) f(irecv_init) f(mrecv) f(imrecv)

static int is_ucx_for_cuda(struct dl_phdr_info *library, size_t size, void *found) {
  (void)size;
  if (library->dlpi_name != NULL && strstr(library->dlpi_name, "libuct_cuda") != NULL) *(bool *)found = true;
  return *(bool *)found;
}

bool gcm_ucx_knows_gpus(void) {
  bool found = false;
  (void)dl_iterate_phdr(is_ucx_for_cuda, &found);
  return found;
}

static bool pml_knows_gpus(void) {
  return strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "ucx") == 0 && gcm_ucx_knows_gpus();
}

#define GCM_PROBES(f) f(iprobe) f(probe) f(improbe) f(mprobe)

/* Messages of this process may be envelopes: all that receives or probes looks for them, from the first message on. */
static void look_for_envelopes(void) {
  const gc_pt2pt_abi *abi = gpucoll_pt2pt_abi(GC_ABI_VERSION);
  if (!gcm_engine_runs || abi == NULL || !abi->enabled()) return;
  gcm_pt2pt = abi;
  gcm_look_at_pml();
#define GCM_MEET(name) host.pml_##name = gcm_##name##_host;
  GCM_PML_FUNCTIONS(GCM_MEET)
#define GCM_PROBE(name) mca_pml.pml_##name = gcm_##name;
  GCM_PROBES(GCM_PROBE)
}

bool gcm_open_mpi_moves_gpu_memory(void) { return open_mpi_moves_gpu_memory; }

void gcm_look_at_messages(void) {
  if (!gcm_abi->param_value("pt2pt")) return;
  open_mpi_moves_gpu_memory = gcm_open_mpi_knows_gpus() || pml_knows_gpus();
  gcm_pml = host = mca_pml;
#define GCM_REPLACE(name) mca_pml.pml_##name = look_and_##name;
  GCM_PML_FUNCTIONS(GCM_REPLACE)
  mca_pml.pml_start = start_each;
  if (open_mpi_moves_gpu_memory) return;
  look_for_envelopes();
  gcm_replace_mpi_functions();
}

/* Whoever has replaced a function after us stays. */
void gcm_leave_messages(void) {
  gcm_stop_messages();
  gcm_stop_outer_requests();
#define GCM_RESTORE(name) \
  if (mca_pml.pml_##name == look_and_##name) mca_pml.pml_##name = gcm_pml.pml_##name;
  GCM_PML_FUNCTIONS(GCM_RESTORE)
  if (mca_pml.pml_start == start_each) mca_pml.pml_start = gcm_pml.pml_start;
#define GCM_STOP_PROBE(name) \
  if (mca_pml.pml_##name == gcm_##name) mca_pml.pml_##name = gcm_pml.pml_##name;
  GCM_PROBES(GCM_STOP_PROBE)
  gcm_pt2pt = NULL;
}
