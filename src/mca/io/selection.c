/* Open MPI opens the framework io at the first MPI_File_open. So this stands in front of the function that opens it,
 * then in front of the query of each component, and gives each file a table with our functions. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>

#include "mca/io/files.h"

/* Components do not say which one they are: each has a function of its own. */
#define GCM_COMPONENTS(f) f(0) f(1) f(2) f(3)
enum { kMostComponents = 4 };

static struct {
  mca_io_base_component_2_0_0_t *component;
  mca_io_base_component_file_query_2_0_0_fn_t query;
  const gcm_file_functions *table; /* the component's, of which these are copies; NULL: no file yet */
  gcm_file_functions own, replaced;
} components[kMostComponents];
static opal_mutex_t components_lock = OPAL_MUTEX_STATIC_INIT;

/* ---- the selection of components ---- */

/* REQUIRES: the lock. */
static void remember(int i, const gcm_file_functions *table) {
  components[i].table = table;
  components[i].own = components[i].replaced = *table;
  gcm_stand_before_accesses(&components[i].replaced);
  gcm_stand_before_split_accesses(&components[i].replaced);
}

static const gcm_file_functions *query_and_replace(int i, ompi_file_t *file, struct mca_io_base_file_t **data,
                                                   int *priority) {
  const gcm_file_functions *table = components[i].query(file, data, priority);
  if (table == NULL) return NULL;
  opal_mutex_lock(&components_lock);
  if (components[i].table == NULL) remember(i, table);
  const bool known = components[i].table == table;
  opal_mutex_unlock(&components_lock);
  return known ? &components[i].replaced : table;
}

#define GCM_QUERY(i)                                                                                               \
  static const gcm_file_functions *query_##i(ompi_file_t *file, struct mca_io_base_file_t **data, int *priority) { \
    return query_and_replace(i, file, data, priority);                                                             \
  }
GCM_COMPONENTS(GCM_QUERY)
#define GCM_NAME(i) query_##i,
static const mca_io_base_component_file_query_2_0_0_fn_t queries[] = {GCM_COMPONENTS(GCM_NAME)};

/* A file has a copy of its component, with our query in it. */
const gcm_file_functions *gcm_functions_of(const ompi_file_t *file) {
  int i = 0;
  while (i + 1 < kMostComponents && file->f_io_selected_component.v2_0_0.io_file_query != queries[i]) i++;
  return &components[i].own;
}

/* ---- the framework ---- */

static void look_at_components(void) {
  int n = 0;
  opal_list_item_t *item;
  OPAL_LIST_FOREACH(item, &ompi_io_base_framework.framework_components, opal_list_item_t) {
    void *found = (void *)(uintptr_t)((mca_base_component_list_item_t *)item)->cli_component;
    if (n == kMostComponents) return;
    components[n].component = found;
    components[n].query = components[n].component->io_file_query;
    components[n].table = NULL;
    components[n].component->io_file_query = queries[n];
    n++;
  }
}

static mca_base_framework_open_fn_t open_framework;

static int open_and_look(mca_base_open_flag_t flags) {
  const int rc = open_framework(flags);
  if (rc == OPAL_SUCCESS) look_at_components();
  return rc;
}

void gcm_look_at_files(void) {
  if (!gcm_abi->param_value("pt2pt") || ompi_io_base_framework.framework_open == NULL) return;
  if (mca_base_framework_is_open(&ompi_io_base_framework)) {
    look_at_components();
    return;
  }
  open_framework = ompi_io_base_framework.framework_open;
  ompi_io_base_framework.framework_open = open_and_look;
}

/* Open MPI may have closed components: only those that are still loaded, or part of its library, are touched. */
void gcm_leave_files(void) {
  Dl_info info;
  if (ompi_io_base_framework.framework_open == open_and_look) ompi_io_base_framework.framework_open = open_framework;
  for (int i = 0; i < kMostComponents; i++) {
    mca_io_base_component_2_0_0_t *component = components[i].component;
    if (component == NULL || dladdr(component, &info) == 0) continue;
    if (component->io_file_query == queries[i]) component->io_file_query = components[i].query;
  }
  memset(components, 0, sizeof components);
}
