/* Every counter of the engine's as a performance variable of MPI_T, coll_gpucoll_<name>. */
#include "mca/coll/module.h"

static int read_counter(const struct mca_base_pvar_t *pvar, void *value, void *object) {
  (void)object;
  *(unsigned long long *)value = gcm_abi != NULL ? gcm_abi->counter((size_t)(uintptr_t)pvar->ctx, NULL, NULL) : 0;
  return OPAL_SUCCESS;
}

/* Returns the class of what MPI_T calls a number of events, or their sum. */
static int class_of(const char *name) {
  const size_t length = strlen(name), of_bytes = strlen("bytes");
  if (strncmp(name, "slow_", strlen("slow_")) == 0) return MPI_T_PVAR_CLASS_COUNTER; /* the cause pinned_bytes, too */
  const bool sums = length >= of_bytes && strcmp(name + length - of_bytes, "bytes") == 0;
  return sums ? MPI_T_PVAR_CLASS_AGGREGATE : MPI_T_PVAR_CLASS_COUNTER;
}

void gcm_register_counters(void) {
  const char *name, *help;
  for (size_t i = 0;; i++) {
    name = NULL;
    (void)gcm_abi->counter(i, &name, &help);
    if (name == NULL) return;
    (void)mca_base_component_pvar_register(
        &mca_coll_gpucoll_component.collm_version, name, help, OPAL_INFO_LVL_4, class_of(name),
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
        MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_counter, NULL, NULL, (void *)(uintptr_t)i);
  }
}
