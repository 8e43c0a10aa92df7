/* One-sided communication has no part in gpucoll, and Open MPI's reads and writes its buffers on the CPU: device memory
 * would end the process. So this stands in front of the selection of each component of the framework osc, and then in
 * the table of each window, and refuses device memory with an error that says so. All else goes to the component as it
 * came.
 *
 * Thread safety: any thread, but for gcm_guard_windows() and gcm_leave_windows(), which are called while MPI starts and
 * ends.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/mutant.h"
#include "mca/pt2pt/pt2pt.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/win/win.h"

/* ---- what is refused ---- */

static const gc_pt2pt_abi *engine;

/* Returns the first byte of the data if only a device reaches it, else NULL. The CPU reaches managed memory. */
static const void *out_of_reach(const void *buffer, size_t count, gcm_type *type) {
  if (!gcm_has_devices() || !gcm_is_device_message(buffer, count, type) || gc_mutant(501)) return NULL;
  const void *const first = gcm_address(buffer, type->super.true_lb);
  return engine->host_reaches(first) ? NULL : first;
}
static const void *either(const void *first, const void *second) { return first != NULL ? first : second; }

static GCM_NOINLINE int refuse(const char *function, const void *memory) {
  char line[320];
  snprintf(line, sizeof line,
           "%s is given device memory (%p), but gpucoll has no part in one-sided communication, and Open MPI would "
           "access it on the CPU: pass host memory (--mca coll_gpucoll_pt2pt 0 leaves such calls to Open MPI)",
           function, memory);
  gcm_abi->log(-1, line);
  return MPI_ERR_BUFFER;
}

/* ---- the functions of windows ---- */

enum { kMostTables = 8 };
/* The functions of windows as their components gave them. Most windows of a component have the same ones. Where two
 * have others, but one for a fence (osc/ucx of 5.0), the second is not guarded. */
static ompi_osc_base_module_t tables[kMostTables];
static atomic_int n_tables;
static opal_mutex_t tables_lock = OPAL_MUTEX_STATIC_INIT;

/* Returns the functions of a window as they were. They are told by the one for a fence, which stays in the window. */
static const ompi_osc_base_module_t *functions_of(const ompi_win_t *win) {
  const int n = atomic_load_explicit(&n_tables, memory_order_acquire);
  int i = 0;
  while (i + 1 < n && tables[i].osc_fence != win->w_osc_module->osc_fence) i++;
  return &tables[i];
}

/* Defines a function of windows that refuses device memory, of which `refused` has an address, or NULL. */
#define GCM_OPERATION(name, spelled, PARAMETERS, ARGUMENTS, refused) \
  static int guarded_##name PARAMETERS {                             \
    const void *const memory = (refused);                            \
    if (memory != NULL) return refuse(spelled, memory);              \
    return functions_of(win)->osc_##name ARGUMENTS;                  \
  }

/* With MPI_NO_OP there is no origin. */
#define GCM_ORIGIN out_of_reach(origin, (size_t)count, type)
#define GCM_ORIGIN_OF_OP (op == MPI_NO_OP ? NULL : GCM_ORIGIN)
#define GCM_RESULT out_of_reach(result, (size_t)result_count, result_type)

GCM_OPERATION(put, "MPI_Put",
              (const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
               gcm_type *target_type, ompi_win_t *win),
              (origin, count, type, target, at, target_count, target_type, win), GCM_ORIGIN)
GCM_OPERATION(get, "MPI_Get",
              (void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
               gcm_type *target_type, ompi_win_t *win),
              (origin, count, type, target, at, target_count, target_type, win), GCM_ORIGIN)
GCM_OPERATION(accumulate, "MPI_Accumulate",
              (const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
               gcm_type *target_type, ompi_op_t *op, ompi_win_t *win),
              (origin, count, type, target, at, target_count, target_type, op, win), GCM_ORIGIN)
GCM_OPERATION(rput, "MPI_Rput",
              (const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
               gcm_type *target_type, ompi_win_t *win, ompi_request_t **request),
              (origin, count, type, target, at, target_count, target_type, win, request), GCM_ORIGIN)
GCM_OPERATION(rget, "MPI_Rget",
              (void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
               gcm_type *target_type, ompi_win_t *win, ompi_request_t **request),
              (origin, count, type, target, at, target_count, target_type, win, request), GCM_ORIGIN)
GCM_OPERATION(raccumulate, "MPI_Raccumulate",
              (const void *origin, int count, gcm_type *type, int target, ptrdiff_t at, int target_count,
               gcm_type *target_type, ompi_op_t *op, ompi_win_t *win, ompi_request_t **request),
              (origin, count, type, target, at, target_count, target_type, op, win, request), GCM_ORIGIN)
GCM_OPERATION(get_accumulate, "MPI_Get_accumulate",
              (const void *origin, int count, gcm_type *type, void *result, int result_count, gcm_type *result_type,
               int target, ptrdiff_t at, int target_count, gcm_type *target_type, ompi_op_t *op, ompi_win_t *win),
              (origin, count, type, result, result_count, result_type, target, at, target_count, target_type, op, win),
              either(GCM_ORIGIN_OF_OP, GCM_RESULT))
GCM_OPERATION(rget_accumulate, "MPI_Rget_accumulate",
              (const void *origin, int count, gcm_type *type, void *result, int result_count, gcm_type *result_type,
               int target, ptrdiff_t at, int target_count, gcm_type *target_type, ompi_op_t *op, ompi_win_t *win,
               ompi_request_t **request),
              (origin, count, type, result, result_count, result_type, target, at, target_count, target_type, op, win,
               request),
              either(GCM_ORIGIN_OF_OP, GCM_RESULT))
GCM_OPERATION(fetch_and_op, "MPI_Fetch_and_op",
              (const void *origin, void *result, gcm_type *type, int target, ptrdiff_t at, ompi_op_t *op,
               ompi_win_t *win),
              (origin, result, type, target, at, op, win),
              either(op == MPI_NO_OP ? NULL : out_of_reach(origin, 1, type), out_of_reach(result, 1, type)))
GCM_OPERATION(compare_and_swap, "MPI_Compare_and_swap",
              (const void *origin, const void *compared, void *result, gcm_type *type, int target, ptrdiff_t at,
               ompi_win_t *win),
              (origin, compared, result, type, target, at, win),
              either(out_of_reach(origin, 1, type),
                     either(out_of_reach(compared, 1, type), out_of_reach(result, 1, type))))

static int guarded_win_attach(ompi_win_t *win, void *base, size_t bytes) {
  if (out_of_reach(base, bytes, MPI_BYTE) != NULL) return refuse("MPI_Win_attach", base);
  return functions_of(win)->osc_win_attach(win, base, bytes);
}

#define GCM_WINDOW_FUNCTIONS(f)                                                                                 \
  f(win_attach) f(put) f(get) f(accumulate) f(rput) f(rget) f(raccumulate) f(get_accumulate) f(rget_accumulate) \
      f(fetch_and_op) f(compare_and_swap)

/* REQUIRES: the lock. Returns whether functions_of() finds the window's functions from now on. */
static bool remember(const ompi_osc_base_module_t *module) {
  const int n = atomic_load_explicit(&n_tables, memory_order_relaxed);
  int i = 0;
  while (i < n && tables[i].osc_fence != module->osc_fence) i++;
  if (i == kMostTables) return false;
  if (i < n) return memcmp(&tables[i], module, sizeof tables[i]) == 0;
  tables[n] = *module;
  atomic_store_explicit(&n_tables, n + 1, memory_order_release);
  return true;
}

static void guard(ompi_osc_base_module_t *module) {
  opal_mutex_lock(&tables_lock);
  const bool remembered = remember(module);
  opal_mutex_unlock(&tables_lock);
#define GCM_GUARD(name) module->osc_##name = guarded_##name;
  if (remembered) {
    GCM_WINDOW_FUNCTIONS(GCM_GUARD)
  }
}

/* ---- the selection of components ---- */

/* Components do not say which one they are: each has a function of its own. */
#define GCM_COMPONENTS(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
enum { kMostComponents = 8 };
static struct {
  ompi_osc_base_component_t *component;
  ompi_osc_base_component_select_fn_t select;
} components[kMostComponents];

/* What UCX moves by itself, as well below another PML. */
static bool moves_gpu_memory(int i) {
  return strcmp(components[i].component->osc_version.mca_component_name, "ucx") == 0 && gcm_ucx_knows_gpus();
}

/* Components may select another one, and put their functions over its own (osc/monitoring): the window is guarded once,
 * on top. */
static int select_and_guard(int i, ompi_win_t *win, void **base, size_t size, int unit, ompi_communicator_t *comm,
                            opal_info_t *info, int flavor, int *model) {
  if (moves_gpu_memory(i)) return components[i].select(win, base, size, unit, comm, info, flavor, model);
  if (flavor == MPI_WIN_FLAVOR_CREATE && out_of_reach(*base, size, MPI_BYTE) != NULL)
    return refuse("MPI_Win_create", *base);
  static _Thread_local int depth;
  depth++;
  const int rc = components[i].select(win, base, size, unit, comm, info, flavor, model);
  depth--;
  if (rc == OMPI_SUCCESS && depth == 0 && win->w_osc_module != NULL) guard(win->w_osc_module);
  return rc;
}

#define GCM_SELECT(i)                                                                                   \
  static int select_##i(ompi_win_t *win, void **base, size_t size, int unit, ompi_communicator_t *comm, \
                        opal_info_t *info, int flavor, int *model) {                                    \
    return select_and_guard(i, win, base, size, unit, comm, info, flavor, model);                       \
  }
GCM_COMPONENTS(GCM_SELECT)
#define GCM_NAME(i) select_##i,
static const ompi_osc_base_component_select_fn_t selects[] = {GCM_COMPONENTS(GCM_NAME)};

void gcm_guard_windows(void) {
  engine = gpucoll_pt2pt_abi(GC_ABI_VERSION);
  if (engine == NULL) return;
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
  for (int i = 0; i < kMostComponents; i++) {
    ompi_osc_base_component_t *component = components[i].component;
    if (component == NULL || dladdr(component, &info) == 0) continue;
    if (component->osc_select == selects[i]) component->osc_select = components[i].select;
  }
  memset(components, 0, sizeof components);
  atomic_store_explicit(&n_tables, 0, memory_order_relaxed);
}
