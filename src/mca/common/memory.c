/* Finds the kind of memory that a buffer is of. */
#include "abi/pt2pt.h"
#include "base/mutant.h"
#include "mca/coll/plan.h"

bool gcm_host_reaches(const void *buffer, const gcm_type *type) {
  const gc_pt2pt_abi *engine = gpucoll_pt2pt_abi(GC_ABI_VERSION);
  return buffer != MPI_BOTTOM && engine != NULL && engine->host_reaches(gcm_address(buffer, type->super.true_lb));
}

bool gcm_only_device_reaches(const void *buffer, size_t count, gcm_type *type) {
  const gcm_side side = {.buffer = buffer, .layout = {.groups = 1, .count = count, .type = type}};
  return gcm_on_device(&side) && !gcm_host_reaches(buffer, type) && !gc_mutant(501);
}
