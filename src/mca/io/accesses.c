/* The functions of files that read or write data: blocking and nonblocking ones. */
#include "base/mutant.h"
#include "mca/io/files.h"

/* ---- what is staged ---- */

static GCM_INLINE gcm_side side_of(const void *buffer, int count, gcm_type *type, bool reads) {
  return (gcm_side){.buffer = buffer, .layout = gcm_uniform(1, count, type), .load = true, .store = reads};
}

void *gcm_begin_access(gcm_access *access, const void *buffer, int *count, gcm_type *type, bool reads) {
  const gcm_plan plan = {.recv = side_of(buffer, *count, type, reads)};
  const bool leaves_out = reads && gc_mutant(506);
  access->rc = leaves_out ? gcm_stage(&access->staged, &plan) : gcm_stage_and_load(&access->staged, &plan);
  if (access->rc != MPI_SUCCESS && !gc_mutant(526)) *count = 0;
  return gcm_handed(&access->staged.recv, buffer);
}

int gcm_end_access(gcm_access *access, int rc) {
  if (access->rc != MPI_SUCCESS) return access->rc;
  const int stored = gcm_store(&access->staged);
  gcm_unstage(&access->staged);
  return rc != MPI_SUCCESS ? rc : stored;
}

int gcm_end_begun_access(gcm_access *access, int rc) {
  if (rc == MPI_SUCCESS || access->rc != MPI_SUCCESS) return gcm_end_access(access, rc);
  (void)gcm_store(&access->staged);
  gcm_abandon(&access->staged);
  return rc;
}

/* ---- blocking functions ---- */

#define GCM_BLOCKING(name, reads, PARAMETERS, ARGUMENTS)                                     \
  static GCM_NOINLINE int stage_and_##name PARAMETERS {                                      \
    gcm_access access;                                                                       \
    buffer = gcm_begin_access(&access, buffer, &count, type, reads);                         \
    return gcm_end_access(&access, gcm_functions_of(file)->io_module_file_##name ARGUMENTS); \
  }                                                                                          \
  GCM_LOOK(name, PARAMETERS, ARGUMENTS)

#define GCM_ACCESS(name, reads, buffer_type)                                                                      \
  GCM_BLOCKING(name, reads,                                                                                       \
               (ompi_file_t * file, buffer_type buffer, int count, gcm_type *type, ompi_status_public_t *status), \
               (file, buffer, count, type, status))
#define GCM_ACCESS_AT(name, reads, buffer_type)                                                   \
  GCM_BLOCKING(name, reads,                                                                       \
               (ompi_file_t * file, MPI_Offset at, buffer_type buffer, int count, gcm_type *type, \
                ompi_status_public_t *status),                                                    \
               (file, at, buffer, count, type, status))

#define GCM_READS(f) f(read) f(read_all) f(read_shared) f(read_ordered)
#define GCM_WRITES(f) f(write) f(write_all) f(write_shared) f(write_ordered)
#define GCM_READS_AT(f) f(read_at) f(read_at_all)
#define GCM_WRITES_AT(f) f(write_at) f(write_at_all)

#define GCM_READ(name) GCM_ACCESS(name, true, void *)
#define GCM_WRITE(name) GCM_ACCESS(name, false, const void *)
#define GCM_READ_AT(name) GCM_ACCESS_AT(name, true, void *)
#define GCM_WRITE_AT(name) GCM_ACCESS_AT(name, false, const void *)
GCM_READS(GCM_READ)
GCM_WRITES(GCM_WRITE)
GCM_READS_AT(GCM_READ_AT)
GCM_WRITES_AT(GCM_WRITE_AT)

/* ---- nonblocking functions ---- */

#define GCM_NONBLOCKING(name, reads, PARAMETERS, ARGUMENTS)                                    \
  static GCM_NOINLINE int stage_and_##name PARAMETERS {                                        \
    gcm_file_request *ours = gcm_file_request_new(file, type);                                 \
    if (ours == NULL) return MPI_ERR_NO_MEM;                                                   \
    buffer = gcm_begin_access(gcm_access_of(ours), buffer, &count, type, reads);               \
    return gcm_follow(ours, gcm_functions_of(file)->io_module_file_##name ARGUMENTS, request); \
  }                                                                                            \
  GCM_LOOK(name, PARAMETERS, ARGUMENTS)

#define GCM_IACCESS(name, reads, buffer_type)                                                                    \
  GCM_NONBLOCKING(name, reads,                                                                                   \
                  (ompi_file_t * file, buffer_type buffer, int count, gcm_type *type, ompi_request_t **request), \
                  (file, buffer, count, type, request))
#define GCM_IACCESS_AT(name, reads, buffer_type)                                                                    \
  GCM_NONBLOCKING(                                                                                                  \
      name, reads,                                                                                                  \
      (ompi_file_t * file, MPI_Offset at, buffer_type buffer, int count, gcm_type *type, ompi_request_t **request), \
      (file, at, buffer, count, type, request))

#define GCM_IREADS(f) f(iread) f(iread_all) f(iread_shared)
#define GCM_IWRITES(f) f(iwrite) f(iwrite_all) f(iwrite_shared)
#define GCM_IREADS_AT(f) f(iread_at) f(iread_at_all)
#define GCM_IWRITES_AT(f) f(iwrite_at) f(iwrite_at_all)

#define GCM_IREAD(name) GCM_IACCESS(name, true, void *)
#define GCM_IWRITE(name) GCM_IACCESS(name, false, const void *)
#define GCM_IREAD_AT(name) GCM_IACCESS_AT(name, true, void *)
#define GCM_IWRITE_AT(name) GCM_IACCESS_AT(name, false, const void *)
GCM_IREADS(GCM_IREAD)
GCM_IWRITES(GCM_IWRITE)
GCM_IREADS_AT(GCM_IREAD_AT)
GCM_IWRITES_AT(GCM_IWRITE_AT)

/* ---- in the table ---- */

void gcm_stand_before_accesses(gcm_file_functions *functions) {
  GCM_READS(GCM_STAND)
  GCM_WRITES(GCM_STAND)
  GCM_READS_AT(GCM_STAND)
  GCM_WRITES_AT(GCM_STAND)
  GCM_IREADS(GCM_STAND)
  GCM_IWRITES(GCM_STAND)
  GCM_IREADS_AT(GCM_STAND)
  GCM_IWRITES_AT(GCM_STAND)
}
