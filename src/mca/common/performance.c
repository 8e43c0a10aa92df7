/* Every counter of the engine's as a performance variable of MPI_T, coll_gpucoll_<name>. */
#include "mca/coll/module.h"

static int read_counter(const struct mca_base_pvar_t *pvar, void *value, void *object) {
  (void)object;
  *(unsigned long long *)value = gcm_abi != NULL ? gcm_abi->counter((size_t)(uintptr_t)pvar->ctx, NULL, NULL) : 0;
  return OPAL_SUCCESS;
}

void gcm_register_counters(void) {
  const char *name, *help;
  for (size_t i = 0;; i++) {
    name = NULL;
    (void)gcm_abi->counter(i, &name, &help);
    if (name == NULL) return;
    (void)mca_base_component_pvar_register(
        &mca_coll_gpucoll_component.collm_version, name, help, OPAL_INFO_LVL_4, MPI_T_PVAR_CLASS_COUNTER,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_counter, NULL, NULL, (void *)(uintptr_t)i);
  }
}
