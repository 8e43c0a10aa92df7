/* MPI-IO on device memory: Open MPI hands buffers to the system, which does not reach memory of a device. So this
 * stands in the table of each file, and takes device memory through the host. All else goes to the component as it
 * came.
 *
 * A staged call has the same arguments but for the buffer: the component sees the same type, as data representations
 * depend on it. Reads load the buffer as well, since what a read leaves as it was, at the end of a file or after an
 * error, is not to be told from the status: components give it the full count of a collective read.
 * Thread safety: any thread, but for gcm_look_at_files() and gcm_leave_files(), which are called while MPI starts and
 * ends.
 */
#ifndef GPUCOLL_MCA_IO_FILES_H
#define GPUCOLL_MCA_IO_FILES_H

#include "mca/coll/staging.h"
#include "ompi/file/file.h"
#include "ompi/mca/io/base/base.h"
#include "ompi/mca/io/io.h"

typedef mca_io_base_module_2_0_0_t gcm_file_functions;

/* selection.c: files that are opened from now on are looked at; no more. */
void gcm_look_at_files(void);
void gcm_leave_files(void);

/* selection.c: the functions of a file as its component has them. */
const gcm_file_functions *gcm_functions_of(const ompi_file_t *file);

/* accesses.c, split_accesses.c: put our functions in place of those that read or write data. */
void gcm_stand_before_accesses(gcm_file_functions *functions);
void gcm_stand_before_split_accesses(gcm_file_functions *functions);

/* Defines look_and_NAME(), which goes to the component, or to stage_and_NAME(). */
#define GCM_LOOK(name, PARAMETERS, ARGUMENTS)                                                \
  static int look_and_##name PARAMETERS {                                                    \
    if (gcm_is_out_of_reach(buffer, (size_t)count, type)) return stage_and_##name ARGUMENTS; \
    return gcm_functions_of(file)->io_module_file_##name ARGUMENTS;                          \
  }
/* Puts look_and_NAME() in the place of the component's function, unless the component has none. */
#define GCM_STAND(name) \
  if (functions->io_module_file_##name != NULL) functions->io_module_file_##name = look_and_##name;

/* A buffer that is read from or written to a file by way of host memory. */
typedef struct gcm_access {
  gcm_staged staged;
  int rc; /* MPI_SUCCESS; else what staging has ended with */
} gcm_access;
/* Stages and loads a buffer. Returns what the component takes in its place. Where the buffer cannot be staged, sets
 * *count to 0: the component must still be called, as the other ranks of a collective wait for this one. */
void *gcm_begin_access(gcm_access *access, const void *buffer, int *count, gcm_type *type, bool reads);
/* The component has returned `rc`. Stores what it has read, and gives back the host memory. Returns an MPI error class.
 */
int gcm_end_access(gcm_access *access, int rc);
/* Does the same for a call that was under way. Where that has failed, OMPIO may still move data, so the host memory is
 * never given back. */
int gcm_end_begun_access(gcm_access *access, int rc);

/* file_requests.c: a request of ours, which completes when the data are where they belong. */
typedef struct gcm_file_request gcm_file_request;
/* Returns NULL where there is no memory, which has been logged. */
gcm_file_request *gcm_file_request_new(ompi_file_t *file, gcm_type *type);
gcm_access *gcm_access_of(gcm_file_request *request);
/* The component has returned `rc` and its request: follows that. Returns `rc`. */
int gcm_follow(gcm_file_request *ours, int rc, ompi_request_t **request);

#endif
