/* All differences between versions of Open MPI, and the only place that includes its headers: 4.1 and 5.0. Decided by
 * what the headers define, not by version numbers, so that another version is a matter of one more branch here.
 */
#ifndef GPUCOLL_MCA_COMMON_COMPAT_H
#define GPUCOLL_MCA_COMMON_COMPAT_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/op/op.h"
#include "ompi/mca/pml/base/base.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/mca/topo/topo.h"
#include "ompi/message/message.h"
#include "ompi/op/op.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi_config.h"
#include "opal/class/opal_hash_table.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_component_repository.h"
#include "opal/mca/base/mca_base_framework.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/argv.h"
#include "opal/util/output.h"

/* Locks moved as they were. */
#if __has_include("opal/mca/threads/mutex.h")
#include "opal/mca/threads/mutex.h"
#else
#include "opal/threads/mutex.h"
#endif

/* The modex moved, its macros did not. */
#if __has_include("opal/mca/pmix/pmix-internal.h")
#include "opal/mca/pmix/pmix-internal.h"
#define GCM_MODEX_SCOPE PMIX_GLOBAL
#else
#include "opal/mca/pmix/pmix.h"
#define GCM_MODEX_SCOPE OPAL_PMIX_GLOBAL
#endif

#if defined(MCA_COLL_BASE_VERSION_2_4_0)
#define GCM_COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#elif defined(MCA_COLL_BASE_VERSION_2_0_0)
#define GCM_COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#else
#error "This version of Open MPI's coll interface is not known yet: add it to src/mca/common/compat.h"
#endif

#define GCM_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define GCM_NOINLINE __attribute__((noinline))

/* Returns whether a request is complete; if so, its status is there. REQUEST_COMPLETE reads as one thread would: what
 * it reads may be older, and a compiler may read once for all turns of a loop. */
static inline bool gcm_is_complete(const ompi_request_t *request) {
  return __atomic_load_n(&request->req_complete, __ATOMIC_ACQUIRE) == REQUEST_COMPLETED;
}

/* Waits until another thread, which is about to complete a request, has done so. */
static inline void gcm_await_completion(const ompi_request_t *request) {
  while (!gcm_is_complete(request)) sched_yield();
}

/* Completes a request, of which the status is set; from here on it may be gone. Another thread that sees it complete
 * sees its status as well: Open MPI's own exchange does not release. */
static inline void gcm_complete(ompi_request_t *request) {
  __atomic_thread_fence(__ATOMIC_RELEASE);
  ompi_request_complete(request, true);
}

/* Tells whether Open MPI was built to move GPUs' memory, and does. 5.0 has a framework for it. */
#if __has_include("opal/mca/accelerator/base/base.h")
#include "opal/mca/accelerator/base/base.h"
static inline bool gcm_open_mpi_knows_gpus(void) {
  return strcmp(opal_accelerator_base_selected_component.base_version.mca_component_name, "null") != 0;
}
#else
#include "opal/runtime/opal_params.h"
static inline bool gcm_open_mpi_knows_gpus(void) { return opal_built_with_cuda_support && opal_cuda_support; }
#endif

/* A number that all members of a communicator know it by while it lives. */
static inline uint64_t gcm_context_id(const ompi_communicator_t *comm) {
  uint64_t words[2] = {0, 0}; /* 4 bytes in 4.1, 16 in 5.0 */
  _Static_assert(sizeof comm->c_contextid <= sizeof words, "a context id of an unknown form");
  memcpy(words, &comm->c_contextid, sizeof comm->c_contextid);
  return words[0] ^ words[1];
}

/* In gcm_module_enable: keep who serves `function` of `comm` today in `saved`, and install ours. Where nobody serves
 * it (scan on intercommunicators), nothing is installed: MPI's own check must still see it missing. */
#define GCM_CHAIN(module, saved, comm, function, ours)                                        \
  do {                                                                                        \
    (saved)->coll_##function = (comm)->c_coll->coll_##function;                               \
    (saved)->coll_##function##_module = (comm)->c_coll->coll_##function##_module;             \
    if ((saved)->coll_##function == NULL || (saved)->coll_##function##_module == NULL) break; \
    OBJ_RETAIN((saved)->coll_##function##_module);                                            \
    (module)->coll_##function = (ours);                                                       \
  } while (0)

/* In the destructor: let go of what GCM_CHAIN kept. */
#define GCM_UNCHAIN(saved, function)                                                     \
  do {                                                                                   \
    if ((saved)->coll_##function != NULL && (saved)->coll_##function##_module != NULL) { \
      OBJ_RELEASE((saved)->coll_##function##_module);                                    \
    }                                                                                    \
    (saved)->coll_##function = NULL;                                                     \
  } while (0)

#endif
