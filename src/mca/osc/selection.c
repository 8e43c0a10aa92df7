/* Stands in front of the selection of each component of the framework osc, and then in the table of each window. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

#include "mca/osc/device_windows.h"
#include "mca/pt2pt/pt2pt.h"
#include "ompi/mca/osc/base/base.h"

/* ---- the functions of windows as they were ---- */

enum { kMostTables = 8 };
/* The functions of windows as their components gave them. Most windows of a component have the same ones. Where two
 * have others, but one for MPI_Win_post (osc/ucx of 5.0), the second is left alone. */
static gcm_window_functions tables[kMostTables];
static atomic_int n_tables;
static opal_mutex_t tables_lock = OPAL_MUTEX_STATIC_INIT;

/* They are told by the one for MPI_Win_post, which stays in the window. */
const gcm_window_functions *gcm_window_functions_of(const ompi_win_t *win) {
  const int n = atomic_load_explicit(&n_tables, memory_order_acquire);
  int i = 0;
  while (i + 1 < n && tables[i].osc_post != win->w_osc_module->osc_post) i++;
  return &tables[i];
}

/* REQUIRES: the lock. Returns whether gcm_window_functions_of() finds the window's functions from now on. */
static bool remember(const gcm_window_functions *module) {
  const int n = atomic_load_explicit(&n_tables, memory_order_relaxed);
  int i = 0;
  while (i < n && tables[i].osc_post != module->osc_post) i++;
  if (i == kMostTables) return false;
  if (i < n) return memcmp(&tables[i], module, sizeof tables[i]) == 0;
  tables[n] = *module;
  atomic_store_explicit(&n_tables, n + 1, memory_order_release);
  return true;
}

/* ---- memory of windows ---- */

static GCM_NOINLINE int refuse_to_attach(const void *memory) {
  char line[320];
  snprintf(
      line, sizeof line,
      "MPI_Win_attach is given device memory (%p), but Open MPI accesses the memory of such windows on the CPU: make "
      "the window by MPI_Win_create, or pass host memory (--mca coll_gpucoll_pt2pt 0 leaves such calls to Open MPI)",
      memory);
  gcm_abi->log(-1, line);
  return MPI_ERR_BUFFER;
}

static int look_and_win_attach(ompi_win_t *win, void *base, size_t bytes) {
  if (gcm_is_out_of_reach(base, bytes, MPI_BYTE)) return refuse_to_attach(base);
  return gcm_window_functions_of(win)->osc_win_attach(win, base, bytes);
}

static void stand_before(gcm_window_functions *functions) {
  opal_mutex_lock(&tables_lock);
  const bool remembered = remember(functions);
  opal_mutex_unlock(&tables_lock);
  if (!remembered) return;
  gcm_stand_before_operations(functions);
  gcm_stand_before_synchronizations(functions);
  GCM_STAND_BEFORE(win_attach)
}

/* ---- the selection of components ---- */

/* Components do not say which one they are: each has a function of its own. */
#define GCM_COMPONENTS(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
enum { kMostComponents = 8 };
static struct {
  ompi_osc_base_component_t *component;
  ompi_osc_base_component_select_fn_t select;
} components[kMostComponents];

/* Returns whether component `i` moves the memory of GPUs by itself: UCX may, below another PML as well. */
static bool moves_gpu_memory(int i) {
  return strcmp(components[i].component->osc_version.mca_component_name, "ucx") == 0 && gcm_ucx_knows_gpus();
}

/* Components may select another one, and put their functions over its own (osc/monitoring): our functions come once, on
 * top. */
static _Thread_local int depth;

static int select_and_replace(int i, ompi_win_t *win, void **base, size_t size, int unit, ompi_communicator_t *comm,
                              opal_info_t *info, int flavor, int *model) {
  depth++;
  const int rc = components[i].select(win, base, size, unit, comm, info, flavor, model);
  depth--;
  if (rc == OMPI_SUCCESS && depth == 0 && win->w_osc_module != NULL) stand_before(win->w_osc_module);
  return rc;
}

/* True: this process leaves all windows to Open MPI. It agrees with others on them none the less. */
static bool leaves_windows;

/* Decides what a new window is: ours, where some rank has memory that only a device reaches. */
static int decide_and_select(int i, ompi_win_t *win, void **base, size_t size, int unit, ompi_communicator_t *comm,
                             opal_info_t *info, int flavor, int *model) {
  const bool leaves = leaves_windows || moves_gpu_memory(i);
  if (flavor == MPI_WIN_FLAVOR_CREATE && depth == 0) {
    bool is_ours = false;
    const int rc = gcm_make_device_window(win, *base, size, unit, comm, model, leaves, &is_ours);
    if (is_ours || rc != MPI_SUCCESS) return rc;
  }
  if (leaves) return components[i].select(win, base, size, unit, comm, info, flavor, model);
  return select_and_replace(i, win, base, size, unit, comm, info, flavor, model);
}

#define GCM_SELECT(i)                                                                                   \
  static int select_##i(ompi_win_t *win, void **base, size_t size, int unit, ompi_communicator_t *comm, \
                        opal_info_t *info, int flavor, int *model) {                                    \
    return decide_and_select(i, win, base, size, unit, comm, info, flavor, model);                      \
  }
GCM_COMPONENTS(GCM_SELECT)
#define GCM_NAME(i) select_##i,
static const ompi_osc_base_component_select_fn_t selects[] = {GCM_COMPONENTS(GCM_NAME)};

void gcm_look_at_windows(void) {
  leaves_windows = !gcm_abi->param_value("pt2pt") || gcm_open_mpi_moves_gpu_memory();
  if (!leaves_windows) gcm_offer_own_component();
  int n = 0;
  opal_list_item_t *item;
  OPAL_LIST_FOREACH(item, &ompi_osc_base_framework.framework_components, opal_list_item_t) {
    void *found = (void *)(uintptr_t)((mca_base_component_list_item_t *)item)->cli_component;
    if (n == kMostComponents) return;
    components[n].component = found;
    components[n].select = components[n].component->osc_select;
    components[n].component->osc_select = selects[n];
    n++;
  }
}

/* Open MPI may have closed components: only those that are still loaded, or part of its library, are touched. */
void gcm_leave_windows(void) {
  Dl_info info;
  gcm_stop_windows();
  for (int i = 0; i < kMostComponents; i++) {
    ompi_osc_base_component_t *component = components[i].component;
    if (component == NULL || dladdr(component, &info) == 0) continue;
    if (component->osc_select == selects[i]) component->osc_select = components[i].select;
  }
  memset(components, 0, sizeof components);
  atomic_store_explicit(&n_tables, 0, memory_order_relaxed);
}
