/* Point-to-point messages of device memory over the PML that the user has: interpose.c stands in front of it,
 * device_messages.c carries what it finds, host_messages.c and host_receives.c let messages of host memory meet such
 * ones.
 *
 * A message of MPI is exactly one message of the PML, with the communicator, the tag and the mode that the program
 * gave: so matching, order and wildcards are the PML's own, between memory of any kinds, and the other process may run
 * without gpucoll. What the PML carries are the data, by way of host memory, or an envelope: then the receiver copies
 * the data straight from the sender's memory (abi/pt2pt.h). Thread safety: any thread, as MPI allows it.
 */
#ifndef GPUCOLL_MCA_PT2PT_PT2PT_H
#define GPUCOLL_MCA_PT2PT_PT2PT_H

#include "abi/pt2pt.h"
#include "mca/coll/plan.h"

/* The functions of the PML as they were before. */
extern mca_pml_base_module_t gcm_pml;
/* The engine's table, where messages may be envelopes; else NULL. */
extern const gc_pt2pt_abi *gcm_pt2pt;

/* The PML's functions for messages whose data are device memory, if only in part (REQUIRES: there are bytes of data),
 * and for those of host memory, which may meet the others. */
#define GCM_MESSAGE_FUNCTIONS(memory)                                                                              \
  int gcm_send_##memory(const void *buffer, size_t count, gcm_type *type, int to, int tag,                         \
                        mca_pml_base_send_mode_t mode, ompi_communicator_t *comm);                                 \
  int gcm_isend_##memory(const void *buffer, size_t count, gcm_type *type, int to, int tag,                        \
                         mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, ompi_request_t **request);      \
  int gcm_isend_init_##memory(const void *buffer, size_t count, gcm_type *type, int to, int tag,                   \
                              mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, ompi_request_t **request); \
  int gcm_recv_##memory(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,  \
                        ompi_status_public_t *status);                                                             \
  int gcm_irecv_##memory(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm, \
                         ompi_request_t **request);                                                                \
  int gcm_irecv_init_##memory(void *buffer, size_t count, gcm_type *type, int from, int tag,                       \
                              ompi_communicator_t *comm, ompi_request_t **request);                                \
  int gcm_mrecv_##memory(void *buffer, size_t count, gcm_type *type, ompi_message_t **message,                     \
                         ompi_status_public_t *status);                                                            \
  int gcm_imrecv_##memory(void *buffer, size_t count, gcm_type *type, ompi_message_t **message,                    \
                          ompi_request_t **request);
GCM_MESSAGE_FUNCTIONS(device)
GCM_MESSAGE_FUNCTIONS(host)

/* Starts persistent receives of ob1's into host memory that meet others. */
int gcm_start_receives(size_t count, ompi_request_t **receives);

int gcm_iprobe(int from, int tag, ompi_communicator_t *comm, int *matched, ompi_status_public_t *status);
int gcm_probe(int from, int tag, ompi_communicator_t *comm, ompi_status_public_t *status);
int gcm_improbe(int from, int tag, ompi_communicator_t *comm, int *matched, ompi_message_t **message,
                ompi_status_public_t *status);
int gcm_mprobe(int from, int tag, ompi_communicator_t *comm, ompi_message_t **message, ompi_status_public_t *status);

/* Returns whether the data of a buffer are device memory, if only in part. */
bool gcm_is_device_message(const void *buffer, size_t count, gcm_type *type);
/* Returns whether Open MPI or its PML moves GPUs' memory itself. */
bool gcm_open_mpi_moves_gpu_memory(void);
/* Returns whether UCX, if it runs, finds out by itself what memory a buffer is: only with its module for CUDA. */
bool gcm_ucx_knows_gpus(void);

/* host_receives.c: this thread is in a callback of the PML's, in which none of its functions may be called. */
extern _Thread_local bool gcm_in_callback;

/* host_receives.c: the PML has been chosen. ob1 delivers as much of a message as there is room for, but may write more
 * than that (staged_receives.h). Below pml/monitoring may be ob1 or another: nothing counts on the former, and the
 * latter is guarded against. */
void gcm_look_at_pml(void);
extern bool gcm_pml_delivers_cut_messages, gcm_pml_may_overrun;

/* Returns whether the PML would keep what it cuts off of an envelope, where there is room for so many bytes. */
static GCM_INLINE bool gcm_pml_loses_envelope(size_t room) {
  return !gcm_pml_delivers_cut_messages && room < GC_ENVELOPE_BYTES && gcm_pt2pt != NULL;
}

/* Returns whether a program may have given the tag. Open MPI's own messages, such as those of collectives of other
 * components, have tags that no program can give. */
static GCM_INLINE bool gcm_is_of_program(int tag) { return tag >= MPI_ANY_TAG; }

/* The type of our own messages. */
static inline gcm_type *gcm_bytes_type(void) { return (gcm_type *)MPI_BYTE; }

/* Returns the blob of the process of a rank; NULL: it runs without gpucoll. */
static inline const gc_process_blob *gcm_blob_of(ompi_communicator_t *comm, int rank) {
  return gcm_process_blob_of(ompi_comm_peer_lookup(comm, rank));
}

/* mpi_functions.c: replaces functions of MPI that read or write buffers without the PML. */
void gcm_replace_mpi_functions(void);

#endif
