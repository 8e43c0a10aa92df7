/* The functions of windows that read or write buffers of the origin. */
#include <stdio.h>

#include "base/mutant.h"
#include "mca/osc/windows.h"
#include "mca/pt2pt/pt2pt.h"

/* ---- what is refused ---- */

const void *gcm_out_of_reach(const void *buffer, size_t count, gcm_type *type) {
  if (!gcm_has_devices() || !gcm_is_device_message(buffer, count, type) || gc_mutant(501)) return NULL;
  const gc_pt2pt_abi *engine = gpucoll_pt2pt_abi(GC_ABI_VERSION);
  const void *const first = gcm_address(buffer, type->super.true_lb);
  return engine == NULL || engine->host_reaches(first) ? NULL : first;
}
static const void *either(const void *first, const void *second) { return first != NULL ? first : second; }

GCM_NOINLINE int gcm_refuse_memory(const char *function, const void *memory) {
  char line[320];
  snprintf(line, sizeof line,
           "%s is given device memory (%p), but gpucoll has no part in one-sided communication, and Open MPI would "
           "access it on the CPU: pass host memory (--mca coll_gpucoll_pt2pt 0 leaves such calls to Open MPI)",
           function, memory);
  gcm_abi->log(-1, line);
  return MPI_ERR_BUFFER;
}

/* ---- the functions ---- */

/* Defines a function that refuses device memory, of which `refused` has an address, or NULL. */
#define GCM_OPERATION(name, spelled, PARAMETERS, ARGUMENTS, refused) \
  static int guarded_##name PARAMETERS {                             \
    const void *const memory = (refused);                            \
    if (memory != NULL) return gcm_refuse_memory(spelled, memory);   \
    return gcm_window_functions_of(win)->osc_##name ARGUMENTS;       \
  }

/* With MPI_NO_OP there is no origin. */
#define GCM_ORIGIN gcm_out_of_reach(origin, (size_t)count, type)
#define GCM_ORIGIN_OF_OP (op == MPI_NO_OP ? NULL : GCM_ORIGIN)
#define GCM_RESULT gcm_out_of_reach(result, (size_t)result_count, result_type)

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
              either(op == MPI_NO_OP ? NULL : gcm_out_of_reach(origin, 1, type), gcm_out_of_reach(result, 1, type)))
GCM_OPERATION(compare_and_swap, "MPI_Compare_and_swap",
              (const void *origin, const void *compared, void *result, gcm_type *type, int target, ptrdiff_t at,
               ompi_win_t *win),
              (origin, compared, result, type, target, at, win),
              either(gcm_out_of_reach(origin, 1, type),
                     either(gcm_out_of_reach(compared, 1, type), gcm_out_of_reach(result, 1, type))))

#define GCM_OPERATIONS(f)                                                                                         \
  f(put) f(get) f(accumulate) f(rput) f(rget) f(raccumulate) f(get_accumulate) f(rget_accumulate) f(fetch_and_op) \
      f(compare_and_swap)

void gcm_guard_operations(gcm_window_functions *functions) {
#define GCM_GUARD(name) functions->osc_##name = guarded_##name;
  GCM_OPERATIONS(GCM_GUARD)
}
