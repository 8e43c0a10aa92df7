/* Point-to-point messages of device memory over the PML that the user has: interpose.c stands in front of it,
 * messages.c carries what it finds by way of host memory.
 *
 * A message of MPI is exactly one message of the PML, with the communicator, the tag and the mode that the program
 * gave: so matching, order, probes and truncation are the PML's own, between memory of any kinds, and the other process
 * may run without gpucoll.
 * Thread safety: any thread, as MPI allows it.
 */
#ifndef GPUCOLL_MCA_PT2PT_PT2PT_H
#define GPUCOLL_MCA_PT2PT_PT2PT_H

#include "mca/coll/plan.h"

/* The functions of the PML as they were before. */
extern mca_pml_base_module_t gcm_pml;

/* The PML's functions for messages whose data are device memory, if only in part. REQUIRES: there are bytes of data. */
int gcm_send_device(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                    ompi_communicator_t *comm);
int gcm_isend_device(const void *buffer, size_t count, gcm_type *type, int to, int tag, mca_pml_base_send_mode_t mode,
                     ompi_communicator_t *comm, ompi_request_t **request);
int gcm_isend_init_device(const void *buffer, size_t count, gcm_type *type, int to, int tag,
                          mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, ompi_request_t **request);
int gcm_recv_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                    ompi_status_public_t *status);
int gcm_irecv_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                     ompi_request_t **request);
int gcm_irecv_init_device(void *buffer, size_t count, gcm_type *type, int from, int tag, ompi_communicator_t *comm,
                          ompi_request_t **request);
int gcm_mrecv_device(void *buffer, size_t count, gcm_type *type, ompi_message_t **message,
                     ompi_status_public_t *status);
int gcm_imrecv_device(void *buffer, size_t count, gcm_type *type, ompi_message_t **message, ompi_request_t **request);

/* Returns whether the data of a buffer are device memory, if only in part. */
bool gcm_is_device_message(const void *buffer, size_t count, gcm_type *type);

/* mpi_functions.c: replaces functions of MPI that read or write buffers without the PML. */
void gcm_replace_mpi_functions(void);

#endif
